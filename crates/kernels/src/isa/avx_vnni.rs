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
    const TILE: usize = 6;
    const WIDE: i32 = 128;
    const NARROW: bool = false;

    #[inline(always)]
    unsafe fn open(acc: __m256i) -> __m256i {
        acc
    }
    #[inline(always)]
    unsafe fn dot4(sum: __m256i, w: __m256i, x: i32) -> __m256i {
        _mm256_dpbusd_avx_epi32(sum, w, _mm256_set1_epi32(x))
    }
    #[inline(always)]
    unsafe fn dot4_wide(sum: __m256i, w: __m256i, x: i32) -> __m256i {
        Self::dot4(sum, w, x)
    }
    #[inline(always)]
    unsafe fn close(sum: __m256i, _: __m256i) -> __m256i {
        sum
    }
    #[inline(always)]
    unsafe fn close_scaled(sum: __m256i, scale: __m256i, acc: __m256i) -> __m256i {
        Self::add_i(acc, Self::mul_i(sum, scale))
    }
    #[inline(always)]
    unsafe fn scale(s: __m256i) -> __m256i {
        s
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
