//! Rows of any length in vectors of any width, with the same arithmetic on every tier.
use crate::isa::Isa;

/// The lanes of `x` from `at` on; those beyond its end are `fill`.
#[inline(always)]
pub(crate) unsafe fn load<S: Isa>(x: &[f32], at: usize, fill: f32) -> S::F {
    let rest = x.get(at..).unwrap_or_default();
    // SAFETY: the buffer and a rest at least as long are good for all lanes.
    unsafe {
        if rest.len() >= S::LANES {
            return S::load(rest.as_ptr());
        }
        let mut end = [fill; 16];
        end[..rest.len()].copy_from_slice(rest);
        S::load(end.as_ptr())
    }
}

/// Writes lanes to `x` from `at` on; those beyond its end are dropped.
#[inline(always)]
pub(crate) unsafe fn store<S: Isa>(x: &mut [f32], at: usize, v: S::F) {
    let rest = x.get_mut(at..).unwrap_or_default();
    // SAFETY: as in `load`.
    unsafe {
        if rest.len() >= S::LANES {
            return S::store(rest.as_mut_ptr(), v);
        }
        let mut end = [0.0; 16];
        S::store(end.as_mut_ptr(), v);
        rest.copy_from_slice(&end[..rest.len()]);
    }
}

/// A number gathered from all elements of a row: sixteen partial results, element `i` going to
/// number `i % 16`.
#[derive(Clone, Copy)]
pub(crate) struct Sixteen<S: Isa>([S::F; 4]);

impl<S: Isa> Sixteen<S> {
    /// Vectors that hold the sixteen.
    const VECTORS: usize = 16 / S::LANES;

    #[inline(always)]
    pub(crate) unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller's promise: the CPU has the set.
        Sixteen(unsafe { [S::splat(x); 4] })
    }

    /// `partial = step(partial, x)` for every element of `x`, the last sixteen filled up with
    /// `fill`.
    #[inline(always)]
    pub(crate) unsafe fn gather(
        self,
        x: &[f32],
        fill: f32,
        step: impl Fn(S::F, S::F) -> S::F,
    ) -> Self {
        let mut partial = self.0;
        for at in (0..x.len()).step_by(16) {
            for (i, p) in partial[..Self::VECTORS].iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *p = step(*p, unsafe { load::<S>(x, at + i * S::LANES, fill) });
            }
        }
        Sixteen(partial)
    }

    /// The partial results joined in a fixed tree.
    #[inline(always)]
    pub(crate) unsafe fn join(self, join: impl Fn(f32, f32) -> f32) -> f32 {
        let mut x = [0.0; 16];
        for (i, &p) in self.0[..Self::VECTORS].iter().enumerate() {
            // SAFETY: vector `i` ends within the sixteen.
            unsafe { S::store(x.as_mut_ptr().add(i * S::LANES), p) };
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                x[i] = join(x[i], x[i + half]);
            }
        }
        x[0]
    }
}

/// `x.max(y)` as the tiers define it: `y` where either is NaN.
#[inline(always)]
pub(crate) fn max(x: f32, y: f32) -> f32 {
    if x > y { x } else { y }
}
