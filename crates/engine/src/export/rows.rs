//! A tensor's rows as a file has them: in its order and of its type.
use crate::backend::LoadError;
use crate::weights::added::pair;
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
    /// Heads whose halves become pairs.
    pub pairs: Option<&'a usize>,
}

impl Rows<'_> {
    /// Puts all of it.
    pub fn write(
        &self,
        team: &Team,
        put: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let name = &self.planned.name;
        let missing = || Error::Load(LoadError::Missing { name: name.clone() });
        match self.planned.shape[..] {
            [count, _, _] => (0..count).try_for_each(|i| {
                self.part(self.weights.part(name, i).ok_or_else(missing)?, team, put)
            }),
            _ => self.part(self.weights.get(name).ok_or_else(missing)?, team, put),
        }
    }

    fn part(
        &self,
        tensor: Tensor<'_>,
        team: &Team,
        put: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let to = self.planned.dtype;
        self.check(&tensor, to).map_err(Error::Load)?;
        // A vector's elements are rows when they change places.
        let cols = if tensor.shape.len() < 2 && self.pairs.is_some() { 1 } else { tensor.cols() };
        let rows = tensor.shape.iter().product::<usize>() / cols.max(1);
        let stride = tensor.bytes.len() / rows.max(1);
        let row = |i: usize| &tensor.bytes[i * stride..(i + 1) * stride];
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
                    let mut wide = vec![0.0; cols];
                    for i in first..rows.min(first + run) {
                        let from = row(self.source(i, rows));
                        if tensor.dtype == to {
                            out.extend_from_slice(from);
                            continue;
                        }
                        // Both were checked.
                        let _ = dequantise(tensor.dtype, from, &mut wide);
                        let _ = quantise(to, &wide, &mut out);
                    }
                });
            });
            for out in &runs[..tasks] {
                put(&out.lock().unwrap_or_else(|e| e.into_inner())).map_err(Error::Io)?;
            }
            let until = rows.min(from + run * tasks);
            if self.pairs.is_none() {
                self.weights.release(&tensor.bytes[from * stride..until * stride]);
            }
        }
        Ok(())
    }

    /// Which row is the `i`th.
    fn source(&self, i: usize, rows: usize) -> usize {
        self.pairs.map_or(i, |heads| pair(i, rows / heads))
    }

    /// Refuses conversions of what is quantised, and numbers beyond the type.
    fn check(&self, tensor: &Tensor<'_>, to: DType) -> Result<(), LoadError> {
        let name = || self.planned.name.clone();
        if tensor.dtype == to {
            return Ok(());
        }
        let plain = matches!(tensor.dtype, DType::F32 | DType::F16 | DType::Bf16);
        if !plain && to != DType::F32 {
            return Err(LoadError::Quantised { name: name(), found: tensor.dtype.name() });
        }
        dequantise(tensor.dtype, &[], &mut [])
            .map_err(|source| LoadError::Type { name: name(), source })?;
        if !matches!(to, DType::F32 | DType::Bf16) && !crate::cpu::pack::fits_f16(tensor) {
            return Err(LoadError::Range { name: name(), to: to.name() });
        }
        Ok(())
    }
}
