//! Scores of a page's positions, by which a query chooses.
//!
//! A head's dot is by fused multiply-adds in order of the channel; heads are summed in order, one
//! fused multiply-add each. Four heads go together, which hides the latency of these.
use super::element::{Element, Half, Single};
use crate::isa::Isa;
use crate::kv::{IndexTask, KvKind, PAGE};

#[inline(always)]
pub(crate) unsafe fn page<S: Isa>(t: &IndexTask<'_>, out: &mut [f32; PAGE]) {
    // SAFETY: the caller's promise: the CPU has the set, the page has as many channels as a query.
    unsafe {
        match t.kind {
            KvKind::F16 => scores::<S, Half>(t, out),
            _ => scores::<S, Single>(t, out),
        }
    }
}

#[inline(always)]
unsafe fn scores<S: Isa, E: Element>(t: &IndexTask<'_>, out: &mut [f32; PAGE]) {
    let heads = t.weights.len();
    for at in (0..PAGE).step_by(S::LANES) {
        // SAFETY: the caller's promise; a page is whole vectors.
        unsafe {
            let (mut sum, mut head) = (S::splat(0.0), 0);
            while head + 4 <= heads {
                sum = add::<S, E, 4>(t, at, head, sum);
                head += 4;
            }
            while head < heads {
                sum = add::<S, E, 1>(t, at, head, sum);
                head += 1;
            }
            S::store(out.as_mut_ptr().add(at), sum);
        }
    }
}

/// What `H` heads from `head` on add to the sum of a vector of positions.
#[inline(always)]
unsafe fn add<S: Isa, E: Element, const H: usize>(
    t: &IndexTask<'_>,
    at: usize,
    head: usize,
    mut sum: S::F,
) -> S::F {
    let dim = t.q.len() / t.weights.len();
    // SAFETY: the caller's promise.
    unsafe {
        let mut dots = [S::splat(0.0); H];
        for d in 0..dim {
            let key = E::load::<S>(t.keys, d * PAGE + at);
            for (h, dot) in dots.iter_mut().enumerate() {
                *dot = S::fma(S::splat(t.q[(head + h) * dim + d]), key, *dot);
            }
        }
        for (h, dot) in dots.into_iter().enumerate() {
            // What is no number stays one.
            let score = S::max(S::splat(0.0), S::mul(dot, S::splat(t.scale)));
            sum = S::fma(S::splat(t.weights[head + h]), score, sum);
        }
        sum
    }
}
