//! Gates of an attention's output. Qiu et al. 2025, arXiv:2505.06708.
use super::glu::unit;
use super::{Ctx, Glu};
use crate::act::{Act, BLOCK, SharedAct};
use crate::mat::{Mat, Seen};

/// `out = x · sigmoid(gate)`: a gate for each element, or for each stretch of elements of one
/// length; `out` takes `x`'s row count. With `q8` the 8-bit form is made in the same pass.
///
/// # Panics
/// If the shapes differ.
pub fn gate_heads(ctx: &Ctx, gates: &Mat, x: &Act, out: &mut Act, q8: bool) {
    let (rows, cols) = (x.rows(), x.cols());
    assert_eq!(cols, out.cols(), "input and output are of one width");
    out.resize(rows);
    assert!(x.exact(), "the f32 rows were not made");
    let (gates, x) = (Seen::of(gates), Seen::of(&x.f32));
    let gate = GateHeads::new(gates, x, out.shared(ctx.kernels.tile, q8), q8);
    // SAFETY: nobody writes what is read; chunks are disjoint and whole blocks.
    ctx.each_chunk(rows, cols, |i, from, len| unsafe { gate.chunk(ctx, i, from, len) });
}

/// The operands, as tasks share them.
pub(super) struct GateHeads<'a> {
    gates: Seen<'a>,
    x: Seen<'a>,
    out: SharedAct<'a>,
    q8: bool,
}

impl<'a> GateHeads<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(gates: Seen<'a>, x: Seen<'a>, out: SharedAct<'a>, q8: bool) -> GateHeads<'a> {
        let (cols, heads) = (x.cols(), gates.cols());
        assert!(cols.is_multiple_of(heads), "{heads} gates to {cols} columns");
        let of_x = (x.rows(), cols);
        assert_eq!((out.f32().rows(), out.f32().cols()), of_x, "input and output are of one shape");
        assert_eq!(gates.rows(), x.rows(), "gates of as many rows");
        GateHeads { gates, x, out, q8 }
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.x.rows(), self.x.cols())
    }
    /// What passes.
    pub fn out(&self) -> &SharedAct<'a> {
        &self.out
    }

    /// `len` columns of row `i` from `from` on.
    ///
    /// # Safety
    /// The tier is usable, gates and `x` are made, and the columns are the caller's: whole blocks.
    pub unsafe fn chunk(&self, ctx: &Ctx, i: usize, from: usize, len: usize) {
        let cols = self.x.cols();
        let head_dim = cols / self.gates.cols();
        for from in (from..from + len).step_by(BLOCK) {
            let len = BLOCK.min(cols - from);
            let mut own = [0.0; BLOCK];
            // SAFETY: passed on.
            unsafe {
                let gates = self.gates.from(i, 0, self.gates.cols());
                let own = &mut own[..len];
                own.iter_mut().enumerate().for_each(|(j, own)| *own = gates[(from + j) / head_dim]);
                let y = self.out.f32().part(i, from, len);
                let codes = self.q8.then(|| self.out.quantised(i, from / BLOCK, 1));
                unit(ctx, Glu::Sigmoid, own, self.x.from(i, from, len), y, codes);
            }
        }
    }
}
