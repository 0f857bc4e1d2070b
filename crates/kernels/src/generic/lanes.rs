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

/// Has the line at `p`, which may be anywhere, brought into the cache.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it never faults, and every x86-64 has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it never faults, and every AArch64 has it.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Numbers gathered from all elements of a row: sixteen partial results, element `i` going to
/// number `i % 16`, joined in a fixed tree.
pub(crate) struct Sixteen<S: Isa>([S::F; 4]);

impl<S: Isa> Sixteen<S> {
    /// Vectors that hold the sixteen.
    const VECTORS: usize = 16 / S::LANES;

    /// `Σ x`
    #[inline(always)]
    pub(crate) unsafe fn sum(x: &[f32]) -> f32 {
        // SAFETY: the caller's promise: the CPU has the set.
        unsafe {
            let mut partial = [S::splat(0.0); 4];
            for at in (0..x.len()).step_by(16) {
                for (i, p) in partial[..Self::VECTORS].iter_mut().enumerate() {
                    *p = S::add(*p, load::<S>(x, at + i * S::LANES, 0.0));
                }
            }
            Sixteen::<S>(partial).join(|a, b| a + b)
        }
    }

    /// `Σ (x - centre)²`
    #[inline(always)]
    pub(crate) unsafe fn squares(x: &[f32], centre: f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let mut partial = [S::splat(0.0); 4];
            for at in (0..x.len()).step_by(16) {
                for (i, p) in partial[..Self::VECTORS].iter_mut().enumerate() {
                    let x = load::<S>(x, at + i * S::LANES, centre);
                    let d = S::sub(x, S::splat(centre));
                    *p = S::fma(d, d, *p);
                }
            }
            Sixteen::<S>(partial).join(|a, b| a + b)
        }
    }

    /// The largest `x`.
    #[inline(always)]
    pub(crate) unsafe fn max(x: &[f32]) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let mut partial = [S::splat(f32::NEG_INFINITY); 4];
            for at in (0..x.len()).step_by(16) {
                for (i, p) in partial[..Self::VECTORS].iter_mut().enumerate() {
                    *p = S::max(*p, load::<S>(x, at + i * S::LANES, f32::NEG_INFINITY));
                }
            }
            Sixteen::<S>(partial).join(max)
        }
    }

    #[inline(always)]
    unsafe fn join(self, join: fn(f32, f32) -> f32) -> f32 {
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
