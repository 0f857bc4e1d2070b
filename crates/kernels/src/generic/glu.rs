//! Activation functions.
use super::lanes;
use super::math;
use crate::{isa::Isa, ops::Glu};

#[inline(always)]
pub(crate) unsafe fn glu<S: Isa>(f: Glu, gate: &[f32], up: &[f32], out: &mut [f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        match f {
            Glu::Sigmoid => gated::<S, _>(Sigmoid, gate, up, out),
            Glu::Silu => gated::<S, _>(Silu, gate, up, out),
            Glu::SiluScaled(scale) => gated::<S, _>(SiluScaled(scale), gate, up, out),
            Glu::GeluTanh => gated::<S, _>(GeluTanh, gate, up, out),
            Glu::Gelu => gated::<S, _>(Gelu, gate, up, out),
            Glu::Relu => gated::<S, _>(Relu, gate, up, out),
            Glu::Relu2 => gated::<S, _>(Relu2, gate, up, out),
            Glu::QuickGelu => gated::<S, _>(QuickGelu, gate, up, out),
            Glu::ClampedGelu { limit } => gated::<S, _>(ClampedGelu(limit), gate, up, out),
            Glu::Xielu { p, n, beta, eps } => {
                gated::<S, _>(Xielu { p, n, beta, eps }, gate, up, out)
            }
        }
    }
}

/// `out = f(gate)·up`
#[inline(always)]
unsafe fn gated<S: Isa, F: Function>(f: F, gate: &[f32], up: &[f32], out: &mut [f32]) {
    for at in (0..out.len()).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let y = f.of::<S>(lanes::load::<S>(gate, at, 0.0));
            let y = if up.is_empty() {
                y
            } else {
                S::mul(y, f.factor::<S>(lanes::load::<S>(up, at, 0.0)))
            };
            lanes::store::<S>(out, at, y);
        }
    }
}

/// An elementwise function.
trait Function: Copy {
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F;
    /// What it is multiplied by.
    #[inline(always)]
    unsafe fn factor<S: Isa>(self, up: S::F) -> S::F {
        up
    }
}

#[derive(Clone, Copy)]
struct Sigmoid;
impl Function for Sigmoid {
    /// `1 / (1 + e^-x)`
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { math::sigmoid::<S>(x) }
    }
}

#[derive(Clone, Copy)]
struct Silu;
impl Function for Silu {
    /// `x / (1 + e^-x)`
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { math::silu::<S>(x) }
    }
}

#[derive(Clone, Copy)]
struct SiluScaled(f32);
impl Function for SiluScaled {
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { Silu.of::<S>(S::mul(x, S::splat(self.0))) }
    }
}

#[derive(Clone, Copy)]
struct GeluTanh;
impl Function for GeluTanh {
    /// `x/2 · (1 + tanh u)` with `u = √(2/π)·(x + 0.044715x³)`, as the equal `x / (1 + e^-2u)`.
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        const MINUS_2_ROOT_2_OVER_PI: f32 = -1.595_769_2;
        // SAFETY: the caller's promise.
        unsafe {
            let cubic = S::fma(S::mul(x, x), S::splat(0.044_715), S::splat(1.0));
            let minus_2u = S::mul(S::mul(x, cubic), S::splat(MINUS_2_ROOT_2_OVER_PI));
            S::div(x, S::add(S::splat(1.0), math::exp::<S>(minus_2u)))
        }
    }
}

#[derive(Clone, Copy)]
struct Gelu;
impl Function for Gelu {
    /// `x/2 · (1 + erf(x/√2))`
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe {
            let e = math::erf::<S>(S::mul(x, S::splat(std::f32::consts::FRAC_1_SQRT_2)));
            S::mul(S::mul(x, S::splat(0.5)), S::add(S::splat(1.0), e))
        }
    }
}

#[derive(Clone, Copy)]
struct Relu2;
impl Function for Relu2 {
    /// `max(x, 0)²`
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe {
            let x = S::select_lt(x, S::splat(0.0), S::splat(0.0), x);
            S::mul(x, x)
        }
    }
}

#[derive(Clone, Copy)]
struct Relu;
impl Function for Relu {
    /// `max(x, 0)`
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::select_lt(x, S::splat(0.0), S::splat(0.0), x) }
    }
}

#[derive(Clone, Copy)]
struct QuickGelu;
impl Function for QuickGelu {
    /// `x / (1 + e^-1.702x)`
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::div(x, S::add(S::splat(1.0), math::exp::<S>(S::mul(x, S::splat(-1.702))))) }
    }
}

#[derive(Clone, Copy)]
struct ClampedGelu(f32);
impl Function for ClampedGelu {
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise. What is NaN is not less, and stays.
        unsafe { QuickGelu.of::<S>(S::select_lt(S::splat(self.0), x, S::splat(self.0), x)) }
    }
    #[inline(always)]
    unsafe fn factor<S: Isa>(self, up: S::F) -> S::F {
        // SAFETY: as above.
        unsafe {
            let (high, low) = (S::splat(self.0), S::splat(-self.0));
            let up = S::select_lt(high, up, high, up);
            S::add(S::select_lt(up, low, low, up), S::splat(1.0))
        }
    }
}

#[derive(Clone, Copy)]
struct Xielu {
    p: f32,
    n: f32,
    beta: f32,
    eps: f32,
}
impl Function for Xielu {
    #[inline(always)]
    unsafe fn of<S: Isa>(self, x: S::F) -> S::F {
        // SAFETY: the caller's promise.
        unsafe {
            let linear = S::mul(S::splat(self.beta), x);
            let above = S::fma(S::mul(S::splat(self.p), x), x, linear);
            let bounded = S::select_lt(S::splat(self.eps), x, S::splat(self.eps), x);
            let curve = S::sub(math::exp_m1::<S>(bounded), x);
            let below = S::fma(curve, S::splat(self.n), linear);
            S::select_lt(S::splat(0.0), x, above, below)
        }
    }
}
