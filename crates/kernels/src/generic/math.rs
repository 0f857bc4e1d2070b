//! Transcendental functions as polynomials of our own, with the same bits on every tier.
//!
//! Each is a range reduction and a minimax polynomial by Horner's rule, one fused multiply-add a
//! term. NaN gives NaN.
use crate::isa::Isa;

/// `c[0] + c[1]·x + c[2]·x² + …`
#[inline(always)]
unsafe fn polynomial<S: Isa, const N: usize>(x: S::F, c: [f32; N]) -> S::F {
    // SAFETY: the caller's promise: the CPU has the set.
    unsafe {
        let mut y = S::splat(c[N - 1]);
        for i in (0..N - 1).rev() {
            y = S::fma(y, x, S::splat(c[i]));
        }
        y
    }
}

/// `e^r = 1 + r + r²·(c[0] + c[1]·r + …)` for `|r|` up to `ln 2 / 2`.
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_29, 0.008_368_704, 0.001_381_894];

/// `e^x` within 1.5 units in the last place; 0 below -86.9, infinity where it overflows.
#[inline(always)]
pub(crate) unsafe fn exp<S: Isa>(x: S::F) -> S::F {
    const LOWEST: f32 = -86.9;
    const LN_2_HIGH: f32 = std::f32::consts::LN_2;
    const LN_2_LOW: f32 = -1.904_654_3e-9;
    // SAFETY: the caller's promise; `n - 1` is within -126..=127 because of the bounds.
    unsafe {
        // x = n·ln 2 + r. The bounds are for n only, so that r is NaN or infinite where x is.
        let bounded = S::min(S::max(x, S::splat(LOWEST)), S::splat(88.8));
        let n = S::round(S::mul(bounded, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fma(S::float(n), S::splat(-LN_2_HIGH), x);
        let r = S::fma(S::float(n), S::splat(-LN_2_LOW), r);
        let q = polynomial::<S, 5>(r, EXP);
        let p = S::add(S::fma(S::mul(r, r), q, r), S::splat(1.0));
        // 2^n can be one step too large for an f32.
        let scale = S::exp2i(S::add_i(n, S::splat_i(-1)));
        let y = S::mul(S::add(p, p), scale);
        S::select_lt(x, S::splat(LOWEST), S::splat(0.0), y)
    }
}

/// `e^x - 1`
#[inline(always)]
pub(crate) unsafe fn exp_m1<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let small = S::fma(S::mul(x, x), polynomial::<S, 5>(x, EXP), x);
        let large = S::sub(exp::<S>(x), S::splat(1.0));
        S::select_lt(S::abs(x), S::splat(0.34), small, large)
    }
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) unsafe fn tanh<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let a = S::abs(x);
        let square = S::mul(x, x);
        let p = polynomial::<S, 5>(
            square,
            [-0.333_332_6, 0.133_308_3, -0.053_687_91, 0.020_469_056, -0.005_514_777],
        );
        let small = S::fma(S::mul(p, square), x, x);
        // 1 - 2 / (e^2|x| + 1)
        let e = S::add(exp::<S>(S::add(a, a)), S::splat(1.0));
        let large = S::sub(S::splat(1.0), S::div(S::splat(2.0), e));
        S::select_lt(a, S::splat(0.65), small, with_sign::<S>(large, x))
    }
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(crate) unsafe fn sigmoid<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { over_exp::<S>(S::splat(1.0), x) }
}

/// `x · sigmoid(x)`
#[inline(always)]
pub(crate) unsafe fn silu<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { over_exp::<S>(x, x) }
}

/// `y / (1 + e^-x)`
#[inline(always)]
unsafe fn over_exp<S: Isa>(y: S::F, x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { S::div(y, S::add(S::splat(1.0), exp::<S>(S::sub(S::splat(0.0), x)))) }
}

/// `ln(1 + e^x)`
#[inline(always)]
pub(crate) unsafe fn softplus<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        // max(x, 0) + ln(1 + e) with e = e^-|x|, and that is 2·artanh(e / (2 + e)).
        let zero = S::splat(0.0);
        let e = exp::<S>(S::sub(zero, S::abs(x)));
        let t = S::div(e, S::add(S::splat(2.0), e));
        let square = S::mul(t, t);
        let p = polynomial::<S, 5>(
            square,
            [0.333_333_34, 0.199_998_51, 0.142_962_92, 0.108_516_574, 0.116_195_254],
        );
        let half = S::fma(S::mul(t, square), p, t);
        let positive = S::select_lt(x, zero, zero, x);
        S::fma(S::splat(2.0), half, positive)
    }
}

/// The error function.
#[inline(always)]
pub(crate) unsafe fn erf<S: Isa>(x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let a = S::abs(x);
        let p = polynomial::<S, 7>(
            S::mul(x, x),
            [
                0.128_379_17,
                -0.376_126_26,
                0.112_835_79,
                -0.026_853_347,
                0.005_187_162,
                -0.000_799_785_3,
                7.806_903e-5,
            ],
        );
        let small = S::fma(p, x, x);
        // 1 - e^-g(|x|), which is 1 from 4 on.
        let t = S::select_lt(S::splat(4.0), a, S::splat(4.0), a);
        let g = polynomial::<S, 7>(
            t,
            [
                0.000_256_445_7,
                1.127_426,
                0.637_600_24,
                0.103_566_61,
                -0.022_051_806,
                0.002_999_476_9,
                -0.000_191_495_8,
            ],
        );
        let large = S::sub(S::splat(1.0), exp::<S>(S::sub(S::splat(0.0), g)));
        S::select_lt(a, S::splat(0.97), small, with_sign::<S>(large, x))
    }
}

/// `y`, negated where `x` is negative.
#[inline(always)]
unsafe fn with_sign<S: Isa>(y: S::F, x: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { S::select_lt(x, S::splat(0.0), S::sub(S::splat(0.0), y), y) }
}

#[cfg(test)]
mod tests {
    use crate::isa::scalar::Scalar;

    type Lanes = [f32; 16];

    /// The largest error over `range`, in units in the last place of the result, or of `floor`
    /// where the result is smaller.
    fn check(
        f: fn(Lanes) -> Lanes,
        exact: fn(f64) -> f64,
        range: (f32, f32),
        floor: f32,
        limit: f64,
    ) {
        const STEPS: usize = 1 << 20;
        for i in 0..STEPS / 16 {
            let x: Lanes = std::array::from_fn(|lane| {
                range.0 + (range.1 - range.0) * ((i * 16 + lane) as f32 / STEPS as f32)
            });
            for (x, y) in x.into_iter().zip(f(x)) {
                let want = exact(f64::from(x));
                let size = (want.abs() as f32).max(floor);
                let ulp = f64::from(f32::from_bits(size.to_bits() + 1) - size);
                let error = (f64::from(y) - want).abs() / ulp;
                assert!(error <= limit, "at {x}: {y}, exactly {want}, {error} units");
            }
        }
    }
    fn exp(x: Lanes) -> Lanes {
        // SAFETY: every CPU can run the scalar tier.
        unsafe { super::exp::<Scalar>(x) }
    }
    fn exp_m1(x: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { super::exp_m1::<Scalar>(x) }
    }
    fn tanh(x: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { super::tanh::<Scalar>(x) }
    }
    fn erf(x: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { super::erf::<Scalar>(x) }
    }
    fn sigmoid(x: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { super::sigmoid::<Scalar>(x) }
    }
    fn softplus(x: Lanes) -> Lanes {
        // SAFETY: as above.
        unsafe { super::softplus::<Scalar>(x) }
    }

    #[test]
    fn functions_are_accurate() {
        check(exp, f64::exp, (-86.9, 88.72), 0.0, 1.5);
        check(exp, f64::exp, (-1.0, 1.0), 0.0, 1.5);
        check(exp_m1, f64::exp_m1, (-20.0, 88.7), 0.0, 4.0);
        check(exp_m1, f64::exp_m1, (-0.5, 0.5), 0.0, 4.0);
        check(tanh, f64::tanh, (-10.0, 10.0), 0.0, 2.0);
        check(tanh, f64::tanh, (-0.7, 0.7), 0.0, 2.0);
        check(erf, libm::erf, (-5.0, 5.0), 0.0, 2.0);
        check(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-80.0, 40.0), 0.0, 3.0);
        check(softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), (-80.0, 40.0), 0.0, 3.0);
    }

    #[test]
    fn ends_are_exact() {
        let of = |f: fn(Lanes) -> Lanes, x: f32| f([x; 16])[3];
        let inf = f32::INFINITY;
        assert_eq!(of(exp, 0.0), 1.0);
        assert_eq!([-inf, f32::MIN, -87.0].map(|x| of(exp, x)), [0.0; 3]);
        assert_eq!([inf, f32::MAX, 1000.0, 89.0].map(|x| of(exp, x)), [inf; 4]);
        assert_eq!([inf, -inf, 0.0, 30.0].map(|x| of(tanh, x)), [1.0, -1.0, 0.0, 1.0]);
        assert_eq!([inf, -inf, 0.0, 5.0].map(|x| of(erf, x)), [1.0, -1.0, 0.0, 1.0]);
        assert_eq!([inf, -inf, 0.0, 90.0].map(|x| of(sigmoid, x)), [1.0, 0.0, 0.5, 1.0]);
        assert_eq!([inf, -inf, 90.0].map(|x| of(softplus, x)), [inf, 0.0, 90.0]);
        for f in [exp, exp_m1, tanh, erf, sigmoid, softplus] {
            assert!(of(f, f32::NAN).is_nan());
        }
    }
}
