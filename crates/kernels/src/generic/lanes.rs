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

/// `Σ x`: sixteen partial sums, element `i` going to number `i % 16`, joined in a fixed tree.
#[inline(always)]
pub(crate) unsafe fn sum<S: Isa>(x: &[f32]) -> f32 {
    // SAFETY: the caller's promise: the CPU has the set.
    unsafe {
        let mut partial = [S::splat(0.0); 4];
        let (whole, rest) = x.as_chunks::<16>();
        for x in whole {
            for (i, p) in partial[..16 / S::LANES].iter_mut().enumerate() {
                *p = S::add(*p, S::load(x.as_ptr().add(i * S::LANES)));
            }
        }
        if !rest.is_empty() {
            for (i, p) in partial[..16 / S::LANES].iter_mut().enumerate() {
                *p = S::add(*p, load::<S>(rest, i * S::LANES, 0.0));
            }
        }
        S::sum_16(partial)
    }
}

/// `Σ (x - centre)²`, summed as [`sum`] does.
#[inline(always)]
pub(crate) unsafe fn squares<S: Isa>(x: &[f32], centre: f32) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut partial, c) = ([S::splat(0.0); 4], S::splat(centre));
        let (whole, rest) = x.as_chunks::<16>();
        for x in whole {
            for (i, p) in partial[..16 / S::LANES].iter_mut().enumerate() {
                let d = S::sub(S::load(x.as_ptr().add(i * S::LANES)), c);
                *p = S::fma(d, d, *p);
            }
        }
        if !rest.is_empty() {
            for (i, p) in partial[..16 / S::LANES].iter_mut().enumerate() {
                let d = S::sub(load::<S>(rest, i * S::LANES, centre), c);
                *p = S::fma(d, d, *p);
            }
        }
        S::sum_16(partial)
    }
}

/// `x.max(y)` as the tiers define it: `y` where either is NaN.
#[inline(always)]
pub(crate) fn max(x: f32, y: f32) -> f32 {
    if x > y { x } else { y }
}
