//! Norms of a row.
use super::lanes;
use crate::isa::Isa;
use crate::ops::{Norm, NormKind};

#[inline(always)]
pub(crate) unsafe fn norm<S: Isa>(n: &Norm<'_>, x: &mut [f32]) {
    let count = x.len() as f32;
    // SAFETY: the caller's promise: the CPU has the set, weights and biases are as long as `x`.
    unsafe {
        let mean = match n.kind {
            NormKind::Rms | NormKind::None => 0.0,
            NormKind::Layer => lanes::sum::<S>(x) / count,
        };
        let divisor = match n.kind {
            NormKind::Rms | NormKind::Layer => {
                (lanes::squares::<S>(x, mean) / count + n.eps).sqrt()
            }
            NormKind::None => 1.0,
        };
        let (centre, inverse) = (S::splat(mean), S::splat(1.0 / divisor));
        for at in (0..x.len()).step_by(S::LANES) {
            let y = S::mul(S::sub(lanes::load::<S>(x, at, 0.0), centre), inverse);
            let weight = match n.weight {
                None => S::splat(1.0),
                Some(w) => lanes::load::<S>(w, at, 0.0),
            };
            let y = match n.bias {
                None => S::mul(y, weight),
                Some(b) => S::fma(y, weight, lanes::load::<S>(b, at, 0.0)),
            };
            lanes::store::<S>(x, at, y);
        }
    }
}
