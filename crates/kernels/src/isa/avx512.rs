//! 512-bit x86 with a byte dot product (AVX-512 VNNI): Ice Lake server and Zen 4 onwards.
#![expect(unsafe_op_in_unsafe_fn, reason = "one condition for all: the trait's")]
use super::Isa;
use super::avx2::{largest_8, sum_8};
use std::arch::x86_64::*;

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

// SAFETY: every instruction is of the sets that `usable` asks for.
unsafe impl Isa for Avx512 {
    const LANES: usize = 16;
    const TILE: usize = 8;
    const WIDE: i32 = 128;
    const NARROW: bool = false;
    type F = __m512;
    type I = __m512i;
    type B = __m512i;
    type Sum = __m512i;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        _mm512_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        _mm512_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        _mm512_storeu_ps(p, v)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))
    }
    #[inline(always)]
    unsafe fn words(b: __m512i) -> __m512i {
        b
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        _mm512_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        _mm512_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        _mm512_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        _mm512_min_ps(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: __m512) -> __m512 {
        _mm512_abs_ps(a)
    }
    #[inline(always)]
    unsafe fn largest(a: __m512) -> f32 {
        largest_8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a)))
    }
    #[inline(always)]
    unsafe fn sum_16(x: [__m512; 4]) -> f32 {
        let eights = _mm256_add_ps(_mm512_castps512_ps256(x[0]), _mm512_extractf32x8_ps::<1>(x[0]));
        sum_8(eights)
    }
    #[inline(always)]
    unsafe fn total(a: __m512i) -> i32 {
        _mm512_reduce_add_epi32(a)
    }
    #[inline(always)]
    unsafe fn select_lt(a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x)
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512i {
        _mm512_cvtps_epi32(a)
    }
    #[inline(always)]
    unsafe fn float(a: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(a)
    }
    #[inline(always)]
    unsafe fn pick(table: &[f32; 16], i: __m512i) -> __m512 {
        _mm512_permutexvar_ps(i, _mm512_loadu_ps(table.as_ptr()))
    }
    #[inline(always)]
    unsafe fn from_bits(a: __m512i) -> __m512 {
        _mm512_castsi512_ps(a)
    }
    #[inline(always)]
    unsafe fn exp2i(n: __m512i) -> __m512 {
        let biased = _mm512_add_epi32(n, _mm512_set1_epi32(127));
        _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
    }

    #[inline(always)]
    unsafe fn splat_i(x: i32) -> __m512i {
        _mm512_set1_epi32(x)
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, v: __m512i) {
        _mm512_storeu_si512(p.cast(), v)
    }
    #[inline(always)]
    unsafe fn add_i(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }
    #[inline(always)]
    unsafe fn mul_i(a: __m512i, b: __m512i) -> __m512i {
        _mm512_mullo_epi32(a, b)
    }
    #[inline(always)]
    unsafe fn and_i(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }
    #[inline(always)]
    unsafe fn or_i(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }
    #[inline(always)]
    unsafe fn shr_i<const N: u32>(a: __m512i) -> __m512i {
        _mm512_srli_epi32::<N>(a)
    }
    #[inline(always)]
    unsafe fn shl_i<const N: u32>(a: __m512i) -> __m512i {
        _mm512_slli_epi32::<N>(a)
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m512i {
        _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> __m512i {
        _mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, v: __m512i) {
        _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(v))
    }

    #[inline(always)]
    unsafe fn load_b(p: *const u8) -> __m512i {
        _mm512_loadu_si512(p.cast())
    }
    #[inline(always)]
    unsafe fn splat_b(x: u8) -> __m512i {
        _mm512_set1_epi8(x as i8)
    }
    #[inline(always)]
    unsafe fn look_up(table: &[u8; 16], i: __m512i) -> __m512i {
        let table = _mm_loadu_si128(table.as_ptr().cast());
        _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), i)
    }
    #[inline(always)]
    unsafe fn and_b(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }
    #[inline(always)]
    unsafe fn or_b(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }
    #[inline(always)]
    unsafe fn shr_b(a: __m512i, n: u32) -> __m512i {
        _mm512_srl_epi32(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn shl_b(a: __m512i, n: u32) -> __m512i {
        _mm512_sll_epi32(a, _mm_cvtsi32_si128(n as i32))
    }

    #[inline(always)]
    unsafe fn open(acc: __m512i) -> __m512i {
        acc
    }
    #[inline(always)]
    unsafe fn dot4(sum: __m512i, w: __m512i, x: i32) -> __m512i {
        _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(x))
    }
    #[inline(always)]
    unsafe fn dot4_wide(sum: __m512i, w: __m512i, x: i32) -> __m512i {
        Self::dot4(sum, w, x)
    }
    #[inline(always)]
    unsafe fn close(sum: __m512i, _: __m512i) -> __m512i {
        sum
    }
    #[inline(always)]
    unsafe fn close_scaled(sum: __m512i, scale: __m512i, acc: __m512i) -> __m512i {
        Self::add_i(acc, Self::mul_i(sum, scale))
    }
    #[inline(always)]
    unsafe fn scale(s: __m512i) -> __m512i {
        s
    }
}

super::tier!(
    /// The AVX-512 VNNI tier.
    KERNELS, Avx512, "avx512-vnni",
    || is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c"),
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c"
);
