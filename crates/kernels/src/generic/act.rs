//! Elementwise work on activations.
use super::lanes;
use super::math;
use crate::act::{BLOCK, Block, QuantRow};
use crate::isa::Isa;

/// Blocks whose largest magnitude is below this are zero: 127 divided by it must be finite.
const SMALLEST: f32 = 1e-36;

#[inline(always)]
pub(crate) unsafe fn quantise<S: Isa>(x: &[f32], mut out: QuantRow<'_>) {
    for (b, x) in x.chunks(BLOCK).enumerate() {
        let out = out.block(b);
        // SAFETY: the caller's promise: the CPU has the set.
        unsafe {
            match x.as_array::<BLOCK>() {
                Some(x) => block::<S>(x, out),
                None => {
                    let mut padded = [0.0; BLOCK];
                    padded[..x.len()].copy_from_slice(x);
                    block::<S>(&padded, out);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn block<S: Isa>(x: &[f32; BLOCK], out: &mut Block) {
    // SAFETY: the caller's promise; the lanes divide 32.
    unsafe {
        let largest = magnitude::<S>(x);
        if largest < SMALLEST || largest == f32::INFINITY {
            // What is no number must not be hidden by the rounding.
            let scale = if largest < SMALLEST { 0.0 } else { f32::NAN };
            *out = Block { scale, fsum: scale, ..Block::default() };
            return;
        }
        // No code exceeds 127 in magnitude.
        let [a, b] = codes::<S>(x, 127.0 / largest, &mut out.q);
        out.minus = -a - b;
        out.minus_32 = [-32 * a, -32 * b];
        out.scale = largest / 127.0;
        out.fsum = out.scale * (a + b) as f32;
    }
}

/// The largest `|x|`, or infinity if one is infinite or NaN.
#[inline(always)]
unsafe fn magnitude<S: Isa>(x: &[f32; BLOCK]) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut largest, infinity) = (S::splat(0.0), S::splat(f32::INFINITY));
        for at in (0..BLOCK).step_by(S::LANES) {
            let x = S::abs(S::load(x.as_ptr().add(at)));
            largest = S::max(largest, S::select_lt(x, infinity, x, infinity));
        }
        S::largest(largest)
    }
}

/// `q = round(x·inverse)`; returns the sums of both halves.
#[inline(always)]
unsafe fn codes<S: Isa>(x: &[f32; BLOCK], inverse: f32, q: &mut [i8; BLOCK]) -> [i32; 2] {
    // SAFETY: the caller's promise; the lanes divide a half.
    unsafe {
        let mut sums = [S::splat_i(0); 2];
        for at in (0..BLOCK).step_by(S::LANES) {
            let code = S::round(S::mul(S::load(x.as_ptr().add(at)), S::splat(inverse)));
            S::store_i8(q.as_mut_ptr().add(at), code);
            sums[at / 16] = S::add_i(sums[at / 16], code);
        }
        [S::total(sums[0]), S::total(sums[1])]
    }
}

#[inline(always)]
pub(crate) unsafe fn add<S: Isa>(y: &[f32], scale: f32, x: &mut [f32]) {
    for at in (0..x.len()).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let sum =
                S::fma(lanes::load::<S>(y, at, 0.0), S::splat(scale), lanes::load::<S>(x, at, 0.0));
            lanes::store::<S>(x, at, sum);
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn softcap<S: Isa>(x: &mut [f32], cap: f32) {
    for at in (0..x.len()).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let y = capped::<S>(lanes::load::<S>(x, at, 0.0), S::splat(cap));
            lanes::store::<S>(x, at, y);
        }
    }
}

/// `cap · tanh(x / cap)`
#[inline(always)]
pub(crate) unsafe fn capped<S: Isa>(x: S::F, cap: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { S::mul(cap, math::tanh::<S>(S::div(x, cap))) }
}
