//! 256-bit x86 with a byte dot product (AVX-VNNI): Alder Lake, Sierra Forest and Zen 5 onwards.
#![expect(unsafe_op_in_unsafe_fn, reason = "one condition for all: the trait's")]
use super::Isa;
use super::avx2::ymm;
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct AvxVnni;

// SAFETY: every instruction is of AVX2, FMA, F16C or AVX-VNNI, which `usable` asks for.
unsafe impl Isa for AvxVnni {
    ymm!();
    const TILE: usize = 4;
    const WIDE: i32 = 128;

    #[inline(always)]
    unsafe fn dot4(acc: __m256i, w: __m256i, x: i32) -> __m256i {
        _mm256_dpbusd_avx_epi32(acc, w, _mm256_set1_epi32(x))
    }
    #[inline(always)]
    unsafe fn dot4_wide(acc: __m256i, w: __m256i, x: i32) -> __m256i {
        Self::dot4(acc, w, x)
    }
}

super::tier!(
    /// The AVX-VNNI tier.
    KERNELS, AvxVnni, "avx-vnni",
    || is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("avxvnni"),
    "avx2,fma,f16c,avxvnni"
);
