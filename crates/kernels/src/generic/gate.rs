//! Gates: elementwise functions that say how much a state forgets and takes.
use super::lanes::{load, store};
use super::math;
use crate::isa::Isa;
use crate::ops::Gate;

#[inline(always)]
pub(crate) unsafe fn gate<S: Isa>(g: Gate<'_>, x: &[f32], out: &mut [f32]) {
    for at in (0..x.len()).step_by(S::LANES) {
        // SAFETY: the caller's promise: the CPU has the set, parameters are as long as `x`.
        unsafe {
            let x = load::<S>(x, at, 0.0);
            let y = match g {
                Gate::Sigmoid { scale } => S::mul(S::splat(scale), math::sigmoid::<S>(x)),
                Gate::Softplus { bias, least, most } => {
                    let x = bias.map_or(x, |bias| S::add(x, load::<S>(bias, at, 0.0)));
                    let y = S::max(math::softplus::<S>(x), S::splat(least));
                    S::min(y, S::splat(most))
                }
                Gate::Exp { rate } => math::exp::<S>(S::mul(load::<S>(rate, at, 0.0), x)),
                Gate::Decay { rate, bias } => {
                    let x = math::softplus::<S>(S::add(x, load::<S>(bias, at, 0.0)));
                    math::exp::<S>(S::mul(load::<S>(rate, at, 0.0), x))
                }
                Gate::BoundedDecay { rate, bias, bound } => {
                    let x = S::add(x, load::<S>(bias, at, 0.0));
                    let x = math::sigmoid::<S>(S::mul(load::<S>(rate, at, 0.0), x));
                    math::exp::<S>(S::mul(S::splat(bound), x))
                }
            };
            store::<S>(out, at, y);
        }
    }
}
