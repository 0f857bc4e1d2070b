//! A tensor's rows as a file has them: in its order and of its type.
use crate::backend::LoadError;
use crate::cpu::pack::{LARGEST_F16, fits_f16};
use rinfer_formats::gguf::write::Planned;
use rinfer_formats::quant::{dequantise, quantise};
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_kernels::Team;
use std::io;
use std::sync::Mutex;

/// Elements that a task converts.
const RUN: usize = 1 << 18;

pub(super) enum Error {
    Load(LoadError),
    Io(io::Error),
}

/// One tensor that is written.
pub(super) struct Rows<'a> {
    pub weights: &'a dyn Weights,
    pub planned: &'a Planned,
    /// The tensors that it is made of.
    pub pieces: &'a [String],
    /// Matrices, if it is a stack.
    pub stack: Option<usize>,
    /// By row, of which piece it is which row; none if all are those of the only piece.
    pub order: Option<&'a [(usize, usize)]>,
    /// By column, which column of the piece it is.
    pub columns: Option<&'a [usize]>,
    /// By piece, what all of it is multiplied by or each of its rows; nothing if it stays as it is.
    pub times: &'a [Vec<f32>],
}

impl Rows<'_> {
    /// Puts all of it.
    pub fn write(
        &self,
        team: &Team,
        put: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let missing = |name: &String| Error::Load(LoadError::Missing { name: name.clone() });
        let made = |part: Option<usize>| -> Result<Vec<Tensor<'_>>, Error> {
            let one = |name: &String| match part {
                Some(i) => self.weights.part(name, i),
                None => self.weights.get(name),
            };
            self.pieces.iter().map(|name| one(name).ok_or_else(|| missing(name))).collect()
        };
        match self.stack {
            Some(count) => (0..count).try_for_each(|i| self.part(&made(Some(i))?, team, put)),
            None => self.part(&made(None)?, team, put),
        }
    }

    fn part(
        &self,
        pieces: &[Tensor<'_>],
        team: &Team,
        put: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let to = self.planned.dtype;
        for (i, piece) in pieces.iter().enumerate() {
            self.check(i, piece, to).map_err(Error::Load)?;
        }
        // A vector's elements are rows when they change places.
        let vector = self.order.is_some() && pieces.iter().all(|piece| piece.shape.len() < 2);
        let cols = if vector { 1 } else { pieces[0].cols() };
        let of = |piece: &Tensor<'_>| piece.shape.iter().product::<usize>() / cols.max(1);
        let rows = self.order.map_or_else(|| of(&pieces[0]), <[_]>::len);
        let strides: Vec<usize> = pieces.iter().map(|p| p.bytes.len() / of(p).max(1)).collect();
        let run = (RUN / cols.max(1)).max(1);
        let runs: Vec<Mutex<Vec<u8>>> =
            (0..4 * team.threads()).map(|_| Mutex::new(Vec::new())).collect();
        for from in (0..rows).step_by(run * runs.len()) {
            let tasks = (rows - from).div_ceil(run).min(runs.len());
            team.run(|worker| {
                worker.phase(tasks, |task| {
                    let Ok(mut out) = runs[task].lock() else { return };
                    out.clear();
                    let first = from + task * run;
                    let mut room = Room { wide: vec![0.0; cols], turned: vec![0.0; cols] };
                    for i in first..rows.min(first + run) {
                        let (piece, row) = self.order.map_or((0, i), |order| order[i]);
                        let (stride, tensor) = (strides[piece], &pieces[piece]);
                        let bytes = &tensor.bytes[row * stride..(row + 1) * stride];
                        self.row(tensor.dtype, bytes, self.by(piece, row), &mut room, &mut out);
                    }
                });
            });
            for out in &runs[..tasks] {
                put(&out.lock().unwrap_or_else(|e| e.into_inner())).map_err(Error::Io)?;
            }
            if self.order.is_none() {
                let until = rows.min(from + run * tasks);
                self.weights.release(&pieces[0].bytes[from * strides[0]..until * strides[0]]);
            }
        }
        Ok(())
    }

    /// What a row is multiplied by.
    fn by(&self, piece: usize, row: usize) -> f32 {
        match self.times.get(piece).map_or(&[][..], Vec::as_slice) {
            [] => 1.0,
            [all] => *all,
            each => each[row],
        }
    }

    /// One row; types were checked.
    fn row(&self, dtype: DType, bytes: &[u8], by: f32, room: &mut Room, out: &mut Vec<u8>) {
        let to = self.planned.dtype;
        if dtype == to && self.columns.is_none() && by == 1.0 {
            out.extend_from_slice(bytes);
            return;
        }
        let _ = dequantise(dtype, bytes, &mut room.wide);
        if by != 1.0 {
            room.wide.iter_mut().for_each(|x| *x *= by);
        }
        let Some(columns) = self.columns else {
            let _ = quantise(to, &room.wide, out);
            return;
        };
        room.turned.iter_mut().zip(columns).for_each(|(to, from)| *to = room.wide[*from]);
        let _ = quantise(to, &room.turned, out);
    }

    /// Refuses conversions of what is quantised, and numbers beyond the type.
    fn check(&self, piece: usize, tensor: &Tensor<'_>, to: DType) -> Result<(), LoadError> {
        let name = || self.pieces[piece].clone();
        let times = self.times.get(piece).map_or(&[][..], Vec::as_slice);
        let most = times.iter().fold(1f32, |most, by| most.max(by.abs()));
        let moves = self.columns.is_some() && to.format().elems > 1;
        if tensor.dtype == to && !moves && times.is_empty() {
            return Ok(());
        }
        let plain = matches!(tensor.dtype, DType::F32 | DType::F16 | DType::Bf16);
        if !plain && to != DType::F32 {
            return Err(LoadError::Quantised { name: name(), found: tensor.dtype.name() });
        }
        dequantise(tensor.dtype, &[], &mut [])
            .map_err(|source| LoadError::Type { name: name(), source })?;
        if !matches!(to, DType::F32 | DType::Bf16) && !fits(tensor, most) {
            return Err(LoadError::Range { name: name(), to: to.name() });
        }
        Ok(())
    }
}

/// Whether all numbers are finite halves when they are multiplied.
fn fits(tensor: &Tensor<'_>, by: f32) -> bool {
    if by == 1.0 {
        return fits_f16(tensor);
    }
    let mut wide = vec![0.0; tensor.cols()];
    let stride = tensor.bytes.len() / tensor.rows().max(1);
    tensor.bytes.chunks(stride.max(1)).all(|row| {
        dequantise(tensor.dtype, row, &mut wide).is_ok()
            && wide.iter().all(|x| (x * by).abs() <= LARGEST_F16)
    })
}

/// A row's floats, as they are stored and in the file's order.
struct Room {
    wide: Vec<f32>,
    turned: Vec<f32>,
}
