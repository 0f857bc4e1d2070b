//! What a model takes in memory: every figure is a sum over its spec, and there is one for each, so
//! that planning, admission and `inspect` say what the executor then allocates.
use crate::backend::{Kv, Limits};
use crate::cpu::scratch::{Scratch, turned};
use crate::cpu::{floats, kv_kind, order::Orders, pack, types::Types};
use crate::spec::{ModelSpec, Reach};
use crate::state::{Kept, cells, kept, pages};
use crate::weights::needs;
use rinfer_formats::Weights;
use rinfer_kernels::kv::{PAGE, Pool};

/// Bytes of an executor on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Packed weights.
    pub weights: usize,
    /// Keys and values, and recurrent states.
    pub state: usize,
    /// What a forward pass writes on the way.
    pub scratch: usize,
}

impl Memory {
    /// Of `spec` with `weights` within `limits`, on `threads` threads.
    pub fn of(spec: &ModelSpec, weights: &dyn Weights, limits: &Limits, threads: usize) -> Memory {
        Memory {
            weights: self::weights(spec, weights, limits),
            state: state(spec, limits),
            scratch: scratch(spec, weights, limits, threads),
        }
    }
    /// The sum.
    pub fn total(&self) -> usize {
        self.weights + self.state + self.scratch
    }
}

/// Bytes of the packed weights. A tensor that is missing counts nothing: loading refuses it.
pub fn weights(spec: &ModelSpec, weights: &dyn Weights, limits: &Limits) -> usize {
    let orders = Orders::of(spec, weights, limits.quant);
    let types = Types::of(spec, limits.quant, limits.keep);
    let bytes = |need: crate::weights::Need| match need.shape[..] {
        [.., rows, cols] if need.packed => {
            let lie = pack::lie(&orders, &types, weights, &need.name, cols);
            let count: usize = need.shape[..need.shape.len() - 2].iter().product();
            lie.map_or(0, |lie| count * lie.size(rows, cols))
        }
        _ => 4 * need.shape.iter().product::<usize>(),
    };
    orders.bytes() + needs(spec).into_iter().map(bytes).sum::<usize>()
}

/// Bytes of what a forward pass writes on the way. It is made to be measured, but only of batches of some
/// rows: beyond, every row takes the same.
pub fn scratch(spec: &ModelSpec, weights: &dyn Weights, limits: &Limits, threads: usize) -> usize {
    let orders = Orders::of(spec, weights, limits.quant);
    let of = |batch: usize| {
        let limits = Limits { batch, ..limits.clone() };
        Scratch::new(spec, &orders, &limits, threads).bytes() + turned(&orders, &limits).bytes()
    };
    // An attention keeps 32 shares a thread at most, an MLP of few rows 16.
    let some = 32 * threads.max(2);
    if limits.batch <= 2 * some {
        return of(limits.batch);
    }
    let (first, more) = (of(some), of(2 * some));
    let each = (more - first) / some;
    first.saturating_add(each.saturating_mul(limits.batch - some))
}

/// Bytes of all sequences' keys and values, and recurrent states.
pub fn state(spec: &ModelSpec, limits: &Limits) -> usize {
    let recurrent = 4 * cells(limits.slots) * floats(spec).sum::<usize>();
    let bytes =
        |k: Kept| Pool::page_bytes(kv_kind(limits.kv, k.shape), k.shape) * pages(k.reach, limits);
    recurrent + kept(spec).map(bytes).sum::<usize>()
}

/// Bytes that a sequence takes however long it is: recurrent states and their copies, and what layers
/// with a window keep.
pub fn sequence(spec: &ModelSpec, limits: &Limits) -> usize {
    let one = Limits { slots: 1, ..limits.clone() };
    let kind = |shape| kv_kind(limits.kv, shape);
    let bytes = |k: Kept| Pool::page_bytes(kind(k.shape), k.shape) * pages(k.reach, &one);
    let windows: usize = kept(spec).filter(|k| k.reach != Reach::All).map(bytes).sum();
    4 * cells(1) * floats(spec).sum::<usize>() + windows
}

/// Bytes that one more position of a long sequence takes: keys and values of layers without a
/// window.
pub fn position(spec: &ModelSpec, kv: Kv) -> usize {
    let bytes = |k: Kept| Pool::page_bytes(kv_kind(kv, k.shape), k.shape) / PAGE;
    kept(spec).filter(|k| k.reach == Reach::All).map(bytes).sum()
}
