//! Rotary positions of one head.
use super::lanes;
use crate::{isa::Isa, ops::RopeLayout};

/// Pairs that are brought side by side at a time.
const STEP: usize = 16;

#[inline(always)]
pub(crate) unsafe fn rope<S: Isa>(layout: RopeLayout, x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    // SAFETY: the caller's promise: the CPU has the set, and `x` holds all pairs.
    unsafe {
        match layout {
            RopeLayout::Halves => {
                let (a, b) = x[..2 * half].split_at_mut(half);
                rotate::<S>(a, b, cos, sin);
            }
            RopeLayout::Pairs => {
                let angles = cos.chunks(STEP).zip(sin.chunks(STEP));
                for (x, (cos, sin)) in x[..2 * half].chunks_mut(2 * STEP).zip(angles) {
                    let (mut a, mut b) = ([0.0; STEP], [0.0; STEP]);
                    for (i, pair) in x.chunks_exact(2).enumerate() {
                        (a[i], b[i]) = (pair[0], pair[1]);
                    }
                    rotate::<S>(&mut a[..cos.len()], &mut b[..cos.len()], cos, sin);
                    for (i, pair) in x.chunks_exact_mut(2).enumerate() {
                        (pair[0], pair[1]) = (a[i], b[i]);
                    }
                }
            }
        }
    }
}

/// `(a, b) = (a·cos - b·sin, b·cos + a·sin)`
#[inline(always)]
unsafe fn rotate<S: Isa>(a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
    for at in (0..a.len()).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (lanes::load::<S>(a, at, 0.0), lanes::load::<S>(b, at, 0.0));
            let (c, s) = (lanes::load::<S>(cos, at, 0.0), lanes::load::<S>(sin, at, 0.0));
            let minus_s = S::sub(S::splat(0.0), s);
            lanes::store::<S>(a, at, S::fma(x, c, S::mul(y, minus_s)));
            lanes::store::<S>(b, at, S::fma(y, c, S::mul(x, s)));
        }
    }
}
