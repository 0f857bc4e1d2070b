//! Elementwise work on activations.
use super::lanes;
use super::math;
use crate::act::{BLOCK, Block, QuantRow, SMALLEST};
use crate::isa::Isa;

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

/// The same with one scale for all, and what makes codes of it: whole blocks only, and of these only
/// what a product with codes of one offset reads.
#[inline(always)]
pub(crate) unsafe fn quantise_by<S: Isa>(
    x: &[f32],
    (scale, inverse): (f32, f32),
    mut out: QuantRow<'_>,
) {
    for (b, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
        let out = out.block(b);
        if inverse == 0.0 {
            *out = Block { scale, ..Block::default() };
            continue;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b] = codes::<S>(x, inverse, &mut out.q);
            out.minus = -S::total(S::add_i(a, b));
        }
        (out.scale, out.fsum, out.minus_32) = (scale, 0.0, [0; 2]);
    }
}

#[inline(always)]
unsafe fn block<S: Isa>(x: &[f32; BLOCK], out: &mut Block) {
    // SAFETY: the caller's promise; the lanes divide 32.
    unsafe {
        let largest = S::largest(largest::<S>(x));
        if largest < SMALLEST || largest == f32::INFINITY {
            // What is no number must not be hidden by the rounding.
            let scale = if largest < SMALLEST { 0.0 } else { f32::NAN };
            *out = Block { scale, fsum: scale, ..Block::default() };
            return;
        }
        // No code exceeds 127 in magnitude.
        let [a, b] = codes::<S>(x, 127.0 / largest, &mut out.q);
        let (a, b) = (S::total(a), S::total(b));
        out.minus = -a - b;
        out.minus_32 = [-32 * a, -32 * b];
        out.scale = largest / 127.0;
        out.fsum = out.scale * (a + b) as f32;
    }
}

/// What codes are multiplied by and what makes them, where these are the largest magnitudes: zeros
/// below what can be told apart, and NaN where it is infinite.
#[inline(always)]
pub(crate) unsafe fn scales<S: Isa>(largest: S::F) -> (S::F, S::F) {
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, most) = (S::splat(0.0), S::splat(127.0));
        let (least, infinity) = (S::splat(SMALLEST), S::splat(f32::INFINITY));
        let nan = S::splat(f32::NAN);
        let scale = S::select_lt(largest, infinity, S::div(largest, most), nan);
        let inverse = S::div(most, largest);
        (S::select_lt(largest, least, zero, scale), S::select_lt(largest, least, zero, inverse))
    }
}

/// The largest `|x|` by lane, infinite where one is infinite or NaN.
#[inline(always)]
pub(crate) unsafe fn largest<S: Isa>(x: &[f32]) -> S::F {
    // SAFETY: the caller's promise; the lanes divide the length.
    unsafe {
        let mut largest = S::splat(0.0);
        for at in (0..x.len()).step_by(S::LANES) {
            largest = S::max(largest, shown::<S>(S::load(x.as_ptr().add(at))));
        }
        largest
    }
}

/// `|x|`, or infinity in place of what is no number.
#[inline(always)]
pub(crate) unsafe fn shown<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let (x, infinity) = (S::abs(x), S::splat(f32::INFINITY));
        S::select_lt(x, infinity, x, infinity)
    }
}

/// `q = round(x·inverse)`; returns the sums of both halves, by lane.
#[inline(always)]
unsafe fn codes<S: Isa>(x: &[f32; BLOCK], inverse: f32, q: &mut [i8; BLOCK]) -> [S::I; 2] {
    // SAFETY: the caller's promise; the lanes divide a half.
    unsafe {
        let mut sums = [S::splat_i(0); 2];
        for at in (0..BLOCK).step_by(S::LANES) {
            let code = S::round(S::mul(S::load(x.as_ptr().add(at)), S::splat(inverse)));
            S::store_i8(q.as_mut_ptr().add(at), code);
            sums[at / 16] = S::add_i(sums[at / 16], code);
        }
        sums
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
