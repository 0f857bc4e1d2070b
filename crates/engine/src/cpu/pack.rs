//! A checkpoint's tensors as the kernels read them: matrices in packed layouts, vectors as f32.
use super::lie::Lie;
use super::order::{Order, Orders, turn};
use super::stored::stored;
use super::types::{Types, layout_of, plain};
use crate::backend::{Limits, LoadError, Quant};
use crate::size;
use crate::spec::ModelSpec;
use crate::weights::{Need, needs};
use rinfer_formats::quant::{Codes, codes, dequantise, quantise};
use rinfer_formats::{DType, Tensor, Weights};
use rinfer_kernels::layout::{PANEL, RowCodes, Source};
use rinfer_kernels::room::Room;
use rinfer_kernels::{Layout, Packed, Team};
use std::mem::take;
use std::ops::Range;

/// Packs tensors of one checkpoint, whose presence and shapes were checked.
pub(crate) struct Packer<'a> {
    team: &'a Team,
    weights: &'a dyn Weights,
    types: Types,
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
        // What a bundle has packed takes no room.
        let stored = needs(spec).iter().any(|need| weights.prepared(&need.name).is_some());
        let room = Room::new(if stored { 0 } else { size::weights(spec, weights, limits) });
        let orders = Orders::of(spec, weights, limits.quant);
        Packer { team, weights, types: Types::of(spec, limits.quant, limits.keep), orders, room }
    }
    /// For whoever packs matrices and keeps none.
    pub fn streaming(
        spec: &ModelSpec,
        weights: &'a dyn Weights,
        (quant, keep): (Quant, bool),
        team: &'a Team,
    ) -> Packer<'a> {
        let orders = Orders::of(spec, weights, quant);
        Packer { team, weights, types: Types::of(spec, quant, keep), orders, room: Room::new(0) }
    }
    /// How a needed matrix, or stack of them, lies or will lie.
    pub fn lie(&self, need: &Need) -> Result<Lie, LoadError> {
        let cols = need.shape.last().copied().unwrap_or(1);
        let lie = lie(&self.orders, &self.types, self.weights, &need.name, cols);
        lie.ok_or_else(|| missing(&need.name))
    }
    /// Whether the matrices of the stack called `name` lie with rows and columns swapped.
    pub fn lies_across(&self, name: &str) -> bool {
        match self.weights.prepared(name) {
            Some(stored) => Lie::named(name, stored.layout).is_some_and(|lie| lie.across),
            None => across(&self.orders, &self.types, self.weights, name).is_some(),
        }
    }
    /// The matrix called `name`, its columns and rows in the orders that they are read in.
    pub fn matrix(&self, name: &str) -> Result<Packed, LoadError> {
        if let Some(mut stored) = stored(self.weights, name)? {
            return stored.pop().ok_or_else(|| missing(name));
        }
        let (tensor, orders) = self.in_orders(name)?;
        self.pack(name, tensor, orders)
    }
    /// The tensor of a matrix, and what orders of its rows and columns are left to bring it in.
    fn in_orders(&self, name: &str) -> Result<(Tensor<'_>, [Option<&Order>; 2]), LoadError> {
        let (rows, columns) = (self.orders.rows(name), self.orders.columns(name));
        let lies = columns.is_some_and(|columns| lies(self.weights, name, columns));
        let tensor = if lies { self.weights.in_order(name) } else { self.weights.get(name) };
        let tensor = tensor.ok_or_else(|| missing(name))?;
        Ok((tensor, [rows, columns.filter(|_| !lies)]))
    }
    /// As [`Packer::in_orders`], of part `i` of a stack.
    fn part_in_orders(
        &self,
        name: &str,
        i: usize,
    ) -> Result<(Tensor<'_>, [Option<&Order>; 2]), LoadError> {
        let orders = self.orders.experts(name);
        let lies = orders.is_some_and(|orders| all_lie(self.weights, name, orders));
        let natural = || match across(&self.orders, &self.types, self.weights, name) {
            Some(_) => self.weights.part_across(name, i),
            None => self.weights.part(name, i),
        };
        let tensor = if lies { self.weights.part_in_order(name, i) } else { natural() };
        let [rows, columns] = match orders.and_then(|orders| orders.get(i)) {
            Some(orders) => orders.each_ref().map(Option::as_ref),
            None => [None; 2],
        };
        Ok((tensor.ok_or_else(|| missing(name))?, [rows, columns.filter(|_| !lies)]))
    }
    /// By expert, the order in which the stack called `name`, without a suffix, reads its input; none if
    /// as it is.
    pub fn expert_orders(&self, name: &str, count: usize) -> Vec<Order> {
        let all = self.orders.made(name).map(|all| &all[..]).unwrap_or_default();
        all.chunks((all.len() / count.max(1)).max(1)).map(Order::from).collect()
    }
    /// All orders in which something is made.
    pub fn orders(&self) -> &Orders {
        &self.orders
    }
    /// The order in which the norm called `name` makes its output, or the matrix reads its input, if that
    /// is not as it is.
    pub fn order(&self, name: &str) -> Option<Order> {
        self.orders.made(name).cloned()
    }
    /// The matrices that lie one after another in the tensor called `name`, `[count, rows, cols]`.
    pub fn stack(&self, name: &str) -> Result<Vec<Packed>, LoadError> {
        if let Some(stored) = stored(self.weights, name)? {
            return Ok(stored);
        }
        let (_, shape) = self.weights.describe(name).ok_or_else(|| missing(name))?;
        let part = |i| {
            let (tensor, orders) = self.part_in_orders(name, i)?;
            self.pack(name, tensor, orders)
        };
        (0..shape.first().copied().unwrap_or(0)).map(part).collect()
    }
    /// The packed bytes of the matrix or the matrices called `name`, a run of rows at a time.
    pub fn runs<E: From<LoadError>>(
        &self,
        name: &str,
        put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(stored) = self.weights.prepared(name) {
            return stored.bytes.chunks(RUN).try_for_each(|run| {
                put(run)?;
                self.weights.release(run);
                Ok(())
            });
        }
        let (_, shape) = self.weights.describe(name).ok_or_else(|| missing(name))?;
        let parts = if let [count, _, _] = shape[..] { Some(count) } else { None };
        for i in 0..parts.unwrap_or(1) {
            let (tensor, orders) = match parts {
                Some(_) => self.part_in_orders(name, i)?,
                None => self.in_orders(name)?,
            };
            let (matrix, layout) = self.prepare(name, tensor, orders)?;
            let (rows, cols) = (matrix.tensor.rows(), matrix.tensor.cols());
            let panels = (RUN / Packed::size(layout, PANEL, cols).max(1)).max(1);
            for from in (0..rows).step_by(panels * PANEL) {
                let run = Run { matrix: &matrix, from };
                let count = (rows - from).min(panels * PANEL);
                let room = Room::new(Packed::size(layout, count, cols));
                put(Packed::pack(self.team, &room, layout, count, cols, &run).bytes())?;
            }
        }
        Ok(())
    }
    fn pack(
        &self,
        name: &str,
        tensor: Tensor<'_>,
        orders: [Option<&Order>; 2],
    ) -> Result<Packed, LoadError> {
        let (matrix, layout) = self.prepare(name, tensor, orders)?;
        let (rows, cols) = (matrix.tensor.rows(), matrix.tensor.cols());
        Ok(Packed::pack(self.team, &self.room, layout, rows, cols, &matrix))
    }
    fn prepare<'t>(
        &'t self,
        name: &str,
        tensor: Tensor<'t>,
        orders: [Option<&'t Order>; 2],
    ) -> Result<(Matrix<'t>, Layout), LoadError> {
        let (cols, dtype) = (tensor.cols(), tensor.dtype);
        let layout = match orders {
            [_, Some(_)] => Layout::F32,
            _ => self.types.layout(name, dtype, cols),
        };
        // Refused here rather than in a row, which can't.
        let none = dequantise(dtype, &[], &mut []);
        none.map_err(|source| LoadError::Type { name: name.to_owned(), source })?;
        let form = form(name, &tensor, layout, &self.types)?;
        Ok((Matrix { form, tensor, weights: self.weights, orders }, layout))
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
        self.weights.get(name).ok_or_else(|| missing(name))
    }
}

/// Packed bytes that are made at a time where they are not kept.
const RUN: usize = 16 << 20;

fn missing(name: &str) -> LoadError {
    LoadError::Missing { name: name.to_owned() }
}

/// The layout of the stack called `name` where it lies with rows and columns swapped: where what it
/// would be turned to takes more, and is not asked for.
fn across(orders: &Orders, types: &Types, weights: &dyn Weights, name: &str) -> Option<Layout> {
    let dtype = weights.across(name, orders.experts(name).is_some())?;
    let (_, shape) = weights.describe(name)?;
    let [_, cols, _] = shape[..] else { return None };
    let layout = types.layout(name, dtype, cols);
    (layout.block() > 1).then_some(layout)
}

/// How the matrix called `name` is packed; none if it is not there.
pub(crate) fn lie(
    orders: &Orders,
    types: &Types,
    weights: &dyn Weights,
    name: &str,
    cols: usize,
) -> Option<Lie> {
    if let Some(stored) = weights.prepared(name) {
        return Lie::named(name, stored.layout);
    }
    if let Some(layout) = across(orders, types, weights, name) {
        return Some(Lie { layout, across: true });
    }
    let layout = layout_in(orders, types, weights, name, cols)?;
    Some(Lie { layout, across: false })
}

/// The layout of one that lies with rows and columns as they are.
fn layout_in(
    orders: &Orders,
    types: &Types,
    weights: &dyn Weights,
    name: &str,
    cols: usize,
) -> Option<Layout> {
    let (dtype, _) = weights.describe(name)?;
    if let Some(experts) = orders.experts(name).filter(|all| all.iter().any(|o| o[1].is_some())) {
        let dtype = weights.part_order(name, 0).filter(|_| all_lie(weights, name, experts));
        return Some(dtype.map_or(Layout::F32, |(dtype, _)| types.layout(name, dtype, cols)));
    }
    match orders.columns(name) {
        None => Some(types.layout(name, dtype, cols)),
        Some(columns) if !lies(weights, name, columns) => Some(Layout::F32),
        Some(_) => weights.order(name).map(|(dtype, _)| types.layout(name, dtype, cols)),
    }
}

/// Whether all experts' columns are stored in these orders.
fn all_lie(weights: &dyn Weights, name: &str, orders: &[[Option<Order>; 2]]) -> bool {
    let first = weights.part_order(name, 0).map(|(dtype, _)| dtype);
    orders.iter().enumerate().all(|(e, [_, columns])| {
        let stored = weights.part_order(name, e);
        stored
            .is_some_and(|(dtype, order)| Some(dtype) == first && columns.as_ref() == Some(&order))
    })
}

/// Whether columns are stored in this order.
fn lies(weights: &dyn Weights, name: &str, columns: &Order) -> bool {
    weights.order(name).is_some_and(|(_, order)| order == *columns)
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
fn form(name: &str, tensor: &Tensor<'_>, layout: Layout, types: &Types) -> Result<Form, LoadError> {
    let own = tensor.dtype.format().packs().map(layout_of);
    let to = types.converted(name, tensor.dtype).filter(|_| layout != Layout::F32);
    if to.map_or(own == Some(layout), |to| to == tensor.dtype) {
        return Ok(Form::AsTheyAre);
    }
    let Some(to) = to else { return Ok(Form::Widened) };
    if !plain(tensor.dtype) {
        let (name, found) = (name.to_owned(), tensor.dtype.name());
        return Err(LoadError::Quantised { name, found });
    }
    if !matches!(to, DType::F32 | DType::Bf16) && !fits_f16(tensor) {
        return Err(LoadError::Range { name: name.to_owned(), to: to.name() });
    }
    Ok(Form::Written(to))
}

pub(crate) const LARGEST_F16: f32 = 65504.0;

/// Whether f16 holds all of a 16- or 32-bit tensor's numbers: so it holds the scales of their blocks.
/// Their bits without the sign are in the order of their magnitudes.
pub(crate) fn fits_f16(tensor: &Tensor<'_>) -> bool {
    let halves = tensor.bytes.as_chunks::<2>().0.iter();
    let half = |most: u16| halves.clone().all(|b| u16::from_le_bytes(*b) & 0x7FFF <= most);
    match tensor.dtype {
        DType::F16 => half(0x7BFF),
        DType::Bf16 => half((LARGEST_F16.to_bits() >> 16) as u16),
        _ => tensor.bytes.as_chunks().0.iter().all(|b| f32::from_le_bytes(*b).abs() <= LARGEST_F16),
    }
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

/// Some rows of a matrix.
struct Run<'a> {
    matrix: &'a Matrix<'a>,
    from: usize,
}

impl Source for Run<'_> {
    fn row(&self, i: usize, out: &mut RowCodes) {
        self.matrix.row(self.from + i, out);
    }
    fn packed(&self, rows: Range<usize>) {
        self.matrix.packed(self.from + rows.start..self.from + rows.end);
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

#[cfg(test)]
mod tests {
    use super::*;
    use rinfer_formats::quant::FORMATS;
    use rinfer_testkit::{safetensors, shared};
    use std::fmt::Write;

    struct Nothing;
    impl Weights for Nothing {
        fn get(&self, _: &str) -> Option<Tensor<'_>> {
            None
        }
        fn names(&self) -> Vec<&str> {
            Vec::new()
        }
    }

    const HEAD: &str = "\
# Types of blocks, and what they take in memory

Generated by `RINFER_UPDATE=1 cargo nextest run -p rinfer-engine --lib pack`; a test fails where it is out of date. Every type of
weights that GGUF has is multiplied as integers or floats with scales, without loss: what is packed is the reference decoder's floats,
bit for bit. Layouts are those of `crates/kernels/src/layout/mod.rs`; bits are those of a weight in rows of 4096, scales counted.
Points of lattices (IQ1 to IQ3) lie in memory as their coordinates: a table of 16 bytes is looked up in by vectors, one of points is not.

| type | bits in a file | layout | bits in memory |
|---|---:|---|---:|
";

    /// What is packed is the recorded floats of every type of weights, bit for bit; nothing takes
    /// more than 16 bits.
    #[test]
    fn every_type_is_packed_without_loss() {
        let types = Types::native();
        let (mut table, mut seen) = (HEAD.to_owned(), 0);
        for format in FORMATS {
            let path = shared::goldens().join(format!("gguf_types/{}.safetensors", format.name));
            let Ok(bytes) = std::fs::read(path) else { continue };
            let golden = safetensors::read(&bytes);
            for kind in ["random", "real"] {
                let want = golden[&format!("f32_{kind}")].f32();
                let bytes = golden[&format!("raw_{kind}")].bytes.clone();
                let (rows, cols) = (want.len() / 256, 256);
                let shape = vec![rows, cols].into();
                let tensor = Tensor { dtype: format.dtype, shape, bytes: bytes.into() };
                let layout = types.layout("x", format.dtype, cols);
                let form = form("x", &tensor, layout, &types).expect("no conversion");
                assert!(matches!(form, Form::AsTheyAre), "{} is widened", format.name);
                assert!(Packed::size(layout, 16, cols) <= 16 * 2 * cols, "{}", format.name);
                let matrix = Matrix { form, tensor, weights: &Nothing, orders: [None; 2] };
                let packed =
                    Packed::pack(&Team::new(1), &Room::new(0), layout, rows, cols, &matrix);
                let mut got = vec![0.0; cols];
                for (i, want) in want.chunks(cols).enumerate() {
                    packed.row(i, &mut got);
                    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert!(bits(&got) == bits(want), "{}, row {i}", format.name);
                }
            }
            seen += 1;
            let layout = types.layout("x", format.dtype, 4096);
            let filed = (8 * format.bytes) as f64 / format.elems as f64;
            let held = Packed::size(layout, 16, 4096) as f64 / (2 * 4096) as f64;
            writeln!(table, "| {} | {filed:.2} | {layout:?} | {held:.2} |", format.name).unwrap();
        }
        assert_eq!(seen, 27);
        shared::up_to_date("docs/block-types.md", &table);
    }
}
