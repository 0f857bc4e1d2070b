//! A checkpoint's tensors as the kernels read them: matrices in packed layouts, vectors as f32.
use super::order::{Order, Orders, turn};
use crate::backend::{Limits, LoadError, Quant};
use crate::size;
use crate::spec::ModelSpec;
use rinfer_formats::quant::{Codes, Packs, codes, dequantise, quantise};
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_kernels::layout::{RowCodes, Source};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Layout, Packed, Team};
use std::mem::take;
use std::ops::Range;

/// Packs tensors of one checkpoint, whose presence and shapes were checked.
pub(crate) struct Packer<'a> {
    team: &'a Team,
    weights: &'a dyn Weights,
    quant: Quant,
    orders: Orders,
    room: Room,
}

impl<'a> Packer<'a> {
    /// Of a model's `weights`, under canonical names. All matrices lie in one allocation.
    pub fn new(
        spec: &ModelSpec,
        weights: &'a dyn Weights,
        limits: &Limits,
        team: &'a Team,
    ) -> Packer<'a> {
        let room = Room::new(size::weights(spec, weights, limits));
        let orders = Orders::of(spec, weights, limits.quant);
        Packer { team, weights, quant: limits.quant, orders, room }
    }
    /// The matrix called `name`, its columns and rows in the orders that they are read in.
    pub fn matrix(&self, name: &str) -> Result<Packed, LoadError> {
        let (rows, columns) = (self.orders.rows(name), self.orders.columns(name));
        let lies = columns.is_some_and(|columns| lies(self.weights, name, columns));
        let tensor = if lies { self.weights.in_order(name) } else { self.weights.get(name) };
        let tensor = tensor.ok_or_else(|| LoadError::Missing { name: name.to_owned() })?;
        self.pack(name, tensor, [rows, columns.filter(|_| !lies)])
    }
    /// The order in which the norm called `name` makes its output, if that is not its input's.
    pub fn order(&self, name: &str) -> Option<Order> {
        self.orders.rows(&format!("{name}.weight")).cloned()
    }
    /// The matrices that lie one after another in the tensor called `name`, `[count, rows, cols]`.
    pub fn stack(&self, name: &str) -> Result<Vec<Packed>, LoadError> {
        let missing = || LoadError::Missing { name: name.to_owned() };
        let (_, shape) = self.weights.describe(name).ok_or_else(missing)?;
        let part = |i| self.pack(name, self.weights.part(name, i).ok_or_else(missing)?, [None; 2]);
        (0..shape.first().copied().unwrap_or(0)).map(part).collect()
    }
    fn pack(
        &self,
        name: &str,
        tensor: Tensor<'_>,
        orders: [Option<&Order>; 2],
    ) -> Result<Packed, LoadError> {
        let (rows, cols, dtype) = (tensor.rows(), tensor.cols(), tensor.dtype);
        let layout = match orders {
            [_, Some(_)] => Layout::F32,
            _ => layout(name, dtype, cols, self.quant),
        };
        // Refused here rather than in a row, which can't.
        let none = dequantise(dtype, &[], &mut []);
        none.map_err(|source| LoadError::Type { name: name.to_owned(), source })?;
        let matrix = Matrix {
            form: form(name, &tensor, layout, self.quant)?,
            tensor,
            weights: self.weights,
            orders,
        };
        Ok(Packed::pack(self.team, &self.room, layout, rows, cols, &matrix))
    }
    /// The vector called `name`.
    pub fn vector(&self, name: &str) -> Result<Vec<f32>, LoadError> {
        let tensor = self.get(name)?;
        let mut out = vec![0.0; tensor.shape.iter().product()];
        dequantise(tensor.dtype, &tensor.bytes, &mut out)
            .map_err(|source| LoadError::Type { name: name.to_owned(), source })?;
        if let Some(order) = self.orders.rows(name) {
            turn(&mut out, order);
        }
        Ok(out)
    }
    fn get(&self, name: &str) -> Result<Tensor<'_>, LoadError> {
        self.weights.get(name).ok_or_else(|| LoadError::Missing { name: name.to_owned() })
    }
}

/// The layout that the matrix called `name` is packed in; none if it is not there.
pub(crate) fn layout_in(
    orders: &Orders,
    weights: &dyn Weights,
    name: &str,
    cols: usize,
    quant: Quant,
) -> Option<Layout> {
    let (dtype, _) = weights.describe(name)?;
    match orders.columns(name) {
        None => Some(layout(name, dtype, cols, quant)),
        Some(columns) if !lies(weights, name, columns) => Some(Layout::F32),
        Some(_) => weights.order(name).map(|(dtype, _)| layout(name, dtype, cols, quant)),
    }
}

/// Whether columns are stored in this order.
fn lies(weights: &dyn Weights, name: &str, columns: &Order) -> bool {
    weights.order(name).is_some_and(|(_, order)| order == *columns)
}

/// The layout that holds rows of `cols` elements of a type: its own or what `quant` asks for, and f32
/// where rows are no whole blocks of it.
pub(crate) fn layout(name: &str, dtype: DType, cols: usize, quant: Quant) -> Layout {
    let quant = kept(name, quant);
    let layout = match (quant, converted(name, quant)) {
        (Quant::Native, _) => dtype.format().packs().map(layout_of),
        (Quant::Int8, Some(_)) => Some(Layout::W8X),
        (_, to) => to.and_then(|to| to.format().packs()).map(layout_of),
    };
    layout.filter(|l| cols.is_multiple_of(l.block())).unwrap_or(Layout::F32)
}

/// Routers keep the type that they have: a row that meets other experts is another row.
fn kept(name: &str, quant: Quant) -> Quant {
    let router = name.contains(".ffn_gate_inp") && quant != Quant::F32;
    if router { Quant::Native } else { quant }
}

/// The type that matrices are converted to. Embeddings and heads keep 8 bits: they are a small share
/// of the products, and errors of theirs are not evened out by later layers.
fn converted(name: &str, quant: Quant) -> Option<DType> {
    let end = matches!(name, "token_embd.weight" | "output.weight");
    match quant {
        Quant::Native => None,
        Quant::F32 => Some(DType::F32),
        Quant::Bf16 => Some(DType::Bf16),
        Quant::F16 => Some(DType::F16),
        Quant::Int4 if !end => Some(DType::Q4_0),
        Quant::Int8 | Quant::Int8Int8 | Quant::Int4 => Some(DType::Q8_0),
    }
}

/// What happens to a tensor's rows.
enum Form {
    /// Their codes are the layout's.
    AsTheyAre,
    /// They are widened.
    Widened,
    /// They are widened, and then written as this type, whose codes are the layout's.
    Written(DType),
}

/// How rows of `tensor` come to be in `layout`.
///
/// # Errors
/// A conversion of what was quantised before, or of numbers beyond the type's range.
fn form(name: &str, tensor: &Tensor<'_>, layout: Layout, quant: Quant) -> Result<Form, LoadError> {
    let quant = kept(name, quant);
    let own = tensor.dtype.format().packs().map(layout_of);
    let to = converted(name, quant).filter(|_| layout != Layout::F32);
    if to.map_or(own == Some(layout), |to| to == tensor.dtype) {
        return Ok(Form::AsTheyAre);
    }
    let Some(to) = to else { return Ok(Form::Widened) };
    if !matches!(tensor.dtype, DType::F32 | DType::F16 | DType::Bf16) {
        let (name, found) = (name.to_owned(), tensor.dtype.name());
        return Err(LoadError::Quantised { name, found });
    }
    if to == DType::F16 && !fits_f16(tensor) {
        return Err(LoadError::Range { name: name.to_owned(), to: to.name() });
    }
    Ok(Form::Written(to))
}

fn fits_f16(tensor: &Tensor<'_>) -> bool {
    let stride = tensor.bytes.len() / tensor.rows().max(1);
    let mut row = vec![0.0; tensor.cols()];
    tensor.bytes.chunks(stride.max(1)).all(|bytes| {
        dequantise(tensor.dtype, bytes, &mut row).is_ok() && row.iter().all(|x| x.abs() <= 65504.0)
    })
}

/// A tensor as rows to be packed.
struct Matrix<'a> {
    tensor: Tensor<'a>,
    form: Form,
    weights: &'a dyn Weights,
    /// Of rows and columns, where they are not in the tensor's.
    orders: [Option<&'a Order>; 2],
}

impl Matrix<'_> {
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        let stride = self.tensor.bytes.len() / self.tensor.rows().max(1);
        &self.tensor.bytes[rows.start * stride..rows.end * stride]
    }
}

impl Source for Matrix<'_> {
    fn row(&self, i: usize, out: &mut RowCodes) {
        let [rows, columns] = self.orders;
        let i = rows.map_or(i, |rows| rows[i] as usize);
        let (dtype, cols, bytes) = (self.tensor.dtype, self.tensor.cols(), self.bytes(i..i + 1));
        if let Some(columns) = columns {
            widen(dtype, bytes, cols, out);
            return turn(&mut out.f32, columns);
        }
        match self.form {
            Form::AsTheyAre => decode(dtype, bytes, cols, out),
            Form::Widened => widen(dtype, bytes, cols, out),
            Form::Written(to) => {
                widen(dtype, bytes, cols, out);
                let mut written = Vec::new();
                quantise(to, &out.f32, &mut written).expect("a type that is written");
                out.f32.clear();
                decode(to, &written, cols, out);
            }
        }
    }
    fn packed(&self, rows: Range<usize>) {
        // In another order, others of them are read yet.
        if self.orders[0].is_none() {
            self.weights.release(self.bytes(rows));
        }
    }
}

fn layout_of(packs: Packs) -> Layout {
    match packs {
        Packs::F32 => Layout::F32,
        Packs::F16 => Layout::F16,
        Packs::Bf16 => Layout::Bf16,
        Packs::W8 => Layout::W8,
        Packs::W8F => Layout::W8F,
        Packs::W8Z => Layout::W8Z,
        Packs::W8E => Layout::W8E,
        Packs::W4 => Layout::W4,
        Packs::W4Z => Layout::W4Z,
        Packs::W4B => Layout::W4B,
        Packs::W4M => Layout::W4M,
        Packs::W5 => Layout::W5,
        Packs::W5M => Layout::W5M,
        Packs::W2K => Layout::W2K,
        Packs::W4K => Layout::W4K,
        Packs::W5K => Layout::W5K,
        Packs::W6K => Layout::W6K,
    }
}

/// The lists move over and back, so their memory is used again for the next row.
fn decode(dtype: DType, bytes: &[u8], cols: usize, out: &mut RowCodes) {
    let mut row = Codes {
        q: take(&mut out.q),
        d: take(&mut out.d),
        m: take(&mut out.m),
        s: take(&mut out.s),
        t: take(&mut out.t),
        z: take(&mut out.z),
        scale: take(&mut out.scale),
        f32: take(&mut out.f32),
        half: take(&mut out.half),
    };
    codes(dtype, bytes, cols, &mut row).expect("a type with codes");
    let Codes { q, d, m, s, t, z, scale, f32, half } = row;
    *out = RowCodes { q, d, m, s, t, z, scale, f32, half };
}

fn widen(dtype: DType, bytes: &[u8], cols: usize, out: &mut RowCodes) {
    out.f32.resize(cols, 0.0);
    dequantise(dtype, bytes, &mut out.f32).expect("a type of weights");
}
