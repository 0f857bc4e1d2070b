//! IQ4_NL and MXFP4: blocks of 32 whose codes stand for the values of a table.
use super::search::{inverse, largest, sum};
use super::weights;
use crate::quant::{fp4, values};
use half::f16;

/// d, 16 bytes of nibbles.
pub(super) fn iq4_nl(x: &[f32; 32]) -> [u8; 18] {
    let values = values::IQ4.map(f32::from);
    let w = weights(x);
    let (mut best, to) = ((0.0, 0.0), inverse(largest(x)));
    let mut consider = |steps: f32| {
        let q = x.map(|x| values[usize::from(nearest(&values, x * steps))]);
        let along = sum::<32>(|i| w[i] * x[i] * q[i]);
        let square = sum::<32>(|i| w[i] * q[i] * q[i]);
        // What a scale of `along / square` takes off the error.
        let gain = along * along / square;
        if square > 0.0 && gain > best.0 {
            best = (gain, along / square);
        }
    };
    // The largest element near either end of the table.
    for end in [values[0], values[15]] {
        (-16i8..=16).for_each(|step| consider(to * (end + f32::from(step))));
    }
    let d = f16::from_f32(best.1);
    let inverse = inverse(d.to_f32());
    let mut out = [0; 18];
    out[..2].copy_from_slice(&d.to_le_bytes());
    nibbles(&x.map(|x| nearest(&values, x * inverse)), &mut out[2..]);
    out
}

/// A scale E8M0, 16 bytes of nibbles.
pub(super) fn mxfp4(x: &[f32; 32]) -> [u8; 17] {
    // In the order of their values; the code of negative zero is left out.
    let mut order: Vec<(f32, u8)> =
        values::E2M1.map(f32::from).into_iter().zip(0..).filter(|(_, code)| *code != 8).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: [f32; 15] = std::array::from_fn(|i| order[i].0);
    let w = weights(x);
    // The exponent that brings the largest to the table's end, and those beside it.
    let usual = (largest(x).abs().to_bits() >> 23) as i32 - 2;
    let error = |scale: f32| {
        let inverse = inverse(scale);
        sum::<32>(|i| {
            let apart = x[i] - scale * values[usize::from(nearest(&values, x[i] * inverse))];
            w[i] * apart * apart
        })
    };
    let mut best = (f32::INFINITY, 0);
    for exponent in [usual, usual - 1, usual + 1].map(|e| e.clamp(0, 254) as u8) {
        let found = error(fp4::half_e8m0(exponent));
        if found < best.0 {
            best = (found, exponent);
        }
    }
    let inverse = inverse(fp4::half_e8m0(best.1));
    let mut out = [0; 17];
    out[0] = best.1;
    let code = |x: f32| order[usize::from(nearest(&values, x * inverse))].1;
    nibbles(&x.map(code), &mut out[1..]);
    out
}

/// Which of the ascending values is nearest; of two, the lower.
fn nearest(values: &[f32], x: f32) -> u8 {
    let beyond = |pair: &[f32]| u8::from(x > (pair[0] + pair[1]) / 2.0);
    values.windows(2).map(beyond).sum()
}

/// The second half's codes above the first's.
fn nibbles(q: &[u8; 32], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = q[i] | q[i + 16] << 4;
    }
}
