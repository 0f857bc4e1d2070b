//! Gates of an attention's output. Qiu et al. 2025, arXiv:2505.06708.
use super::chain::{Phases, alone};
use super::glu::unit;
use super::{CHUNK, Chain, Ctx, Glu, Stage, by_chunks, few};
use crate::act::{Act, ActSlot, BLOCK};
use crate::mat::{Mat, Seen, Slot, apart};
use crate::team::Worker;

/// `out = x · sigmoid(gate)`: a gate for each element, or for each stretch of elements of one
/// length; `out` takes `x`'s row count. With `q8` the 8-bit form is made in the same pass.
///
/// # Panics
/// If the shapes differ.
pub fn gate_heads(ctx: &Ctx, gates: &Mat, x: &Act, out: &mut Act, q8: bool) {
    let out = out.lend(ctx, x.rows(), q8);
    alone(ctx, HeadGates::new(gates.into(), x.exact_rows().into(), out));
}

/// The same, as an operation.
struct HeadGates<'a> {
    gates: Seen<'a>,
    x: Seen<'a>,
    out: ActSlot<'a>,
}

impl<'a> HeadGates<'a> {
    /// # Panics
    /// If the shapes differ.
    pub fn new(gates: Seen<'a>, x: Seen<'a>, out: ActSlot<'a>) -> HeadGates<'a> {
        let (cols, heads, to) = (x.cols(), gates.cols(), out.f32());
        assert!(cols.is_multiple_of(heads), "{heads} gates to {cols} columns");
        let of_x = (x.rows(), cols);
        assert_eq!((to.rows(), to.cols()), of_x, "input and output are of one shape");
        assert_eq!(gates.rows(), x.rows(), "gates of as many rows");
        apart([*to], [gates, x]);
        HeadGates { gates, x, out }
    }

    /// `len` columns of row `i` from `from` on.
    ///
    /// # Safety
    /// The tier is usable, gates and `x` are made, and the columns are the caller's: whole blocks.
    unsafe fn chunk(&self, ctx: &Ctx, i: usize, from: usize, len: usize) {
        let cols = self.x.cols();
        let head_dim = cols / self.gates.cols();
        for from in (from..from + len).step_by(BLOCK) {
            let len = BLOCK.min(cols - from);
            let mut own = [0.0; BLOCK];
            // SAFETY: passed on.
            unsafe {
                let gates = self.gates.row(i);
                let own = &mut own[..len];
                own.iter_mut().enumerate().for_each(|(j, own)| *own = gates[(from + j) / head_dim]);
                let y = self.out.f32().part(i, from, len);
                let codes = self.out.codes(i, from / BLOCK, 1);
                unit(ctx, Glu::Sigmoid, own, &self.x.row(i)[from..from + len], y, codes);
            }
        }
    }
}

// SAFETY: chunks are disjoint and whole blocks.
unsafe impl Phases for HeadGates<'_> {
    fn few(&self, least: usize) -> bool {
        few(self.x.rows() * self.x.cols().div_ceil(CHUNK), self.x.cols().min(CHUNK), least)
    }
    unsafe fn phase(&self, ctx: &Ctx, worker: &Worker<'_>, _: usize) {
        let shape = (self.x.rows(), self.x.cols());
        // SAFETY: passed on.
        by_chunks(worker, shape, CHUNK, &|i, from, len| unsafe { self.chunk(ctx, i, from, len) });
    }
}

impl<'a> Chain<'a> {
    /// `out = x · sigmoid(gate)`, as of [`gate_heads()`].
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn gate_heads(&mut self, gates: Slot<'a>, x: Slot<'a>, out: ActSlot<'a>) {
        self.push(Stage::Attention, HeadGates::new(gates.into(), x.into(), out));
    }
}
