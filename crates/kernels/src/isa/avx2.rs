//! 256-bit x86 with fused multiply-add and no byte dot product: Haswell and Zen onwards.
#![expect(unsafe_op_in_unsafe_fn, reason = "one condition for all: the trait's")]
use super::Isa;
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

/// The methods of [`Isa`] that every 256-bit token shares: all but the dot products.
macro_rules! ymm {
    () => {
        const LANES: usize = 8;
        type F = __m256;
        type I = __m256i;
        type B = __m256i;
        type Sum = __m256i;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            _mm256_set1_ps(x)
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m256 {
            _mm256_loadu_ps(p)
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m256) {
            _mm256_storeu_ps(p, v)
        }
        #[inline(always)]
        unsafe fn load_f16(p: *const u16) -> __m256 {
            _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
        }
        #[inline(always)]
        unsafe fn words(b: __m256i) -> __m256i {
            b
        }
        #[inline(always)]
        unsafe fn load_bf16(p: *const u16) -> __m256 {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn sub(a: __m256, b: __m256) -> __m256 {
            _mm256_sub_ps(a, b)
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            _mm256_mul_ps(a, b)
        }
        #[inline(always)]
        unsafe fn div(a: __m256, b: __m256) -> __m256 {
            _mm256_div_ps(a, b)
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
        #[inline(always)]
        unsafe fn max(a: __m256, b: __m256) -> __m256 {
            _mm256_max_ps(a, b)
        }
        #[inline(always)]
        unsafe fn min(a: __m256, b: __m256) -> __m256 {
            _mm256_min_ps(a, b)
        }
        #[inline(always)]
        unsafe fn abs(a: __m256) -> __m256 {
            _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
        }
        #[inline(always)]
        unsafe fn largest(a: __m256) -> f32 {
            $crate::isa::avx2::largest_8(a)
        }
        #[inline(always)]
        unsafe fn sum_16(x: [__m256; 4]) -> f32 {
            $crate::isa::avx2::sum_8(_mm256_add_ps(x[0], x[1]))
        }
        #[inline(always)]
        unsafe fn total(a: __m256i) -> i32 {
            let x = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            let x = _mm_add_epi32(x, _mm_shuffle_epi32::<0b_11_10_11_10>(x));
            _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32::<1>(x)))
        }
        #[inline(always)]
        unsafe fn select_lt(a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
            _mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
        }
        #[inline(always)]
        unsafe fn round(a: __m256) -> __m256i {
            _mm256_cvtps_epi32(a)
        }
        #[inline(always)]
        unsafe fn float(a: __m256i) -> __m256 {
            _mm256_cvtepi32_ps(a)
        }
        #[inline(always)]
        unsafe fn pick(table: &[f32; 16], i: __m256i) -> __m256 {
            // Each half by the three low bits; the fourth, moved to the sign, says which.
            let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), i);
            let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), i);
            _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(i)))
        }
        #[inline(always)]
        unsafe fn from_bits(a: __m256i) -> __m256 {
            _mm256_castsi256_ps(a)
        }
        #[inline(always)]
        unsafe fn exp2i(n: __m256i) -> __m256 {
            let biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }

        #[inline(always)]
        unsafe fn splat_i(x: i32) -> __m256i {
            _mm256_set1_epi32(x)
        }
        #[inline(always)]
        unsafe fn store_i(p: *mut i32, v: __m256i) {
            _mm256_storeu_si256(p.cast(), v)
        }
        #[inline(always)]
        unsafe fn add_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi32(a, b)
        }
        #[inline(always)]
        unsafe fn mul_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_mullo_epi32(a, b)
        }
        #[inline(always)]
        unsafe fn and_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_and_si256(a, b)
        }
        #[inline(always)]
        unsafe fn or_i(a: __m256i, b: __m256i) -> __m256i {
            _mm256_or_si256(a, b)
        }
        #[inline(always)]
        unsafe fn shr_i<const N: u32>(a: __m256i) -> __m256i {
            _mm256_srl_epi32(a, _mm_cvtsi32_si128(N as i32))
        }
        #[inline(always)]
        unsafe fn shl_i<const N: u32>(a: __m256i) -> __m256i {
            _mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32))
        }
        #[inline(always)]
        unsafe fn load_u8(p: *const u8) -> __m256i {
            _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()))
        }
        #[inline(always)]
        unsafe fn load_i8(p: *const i8) -> __m256i {
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))
        }
        #[inline(always)]
        unsafe fn store_i8(p: *mut i8, v: __m256i) {
            let (low, high) = (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let words = _mm_packs_epi32(low, high);
            _mm_storel_epi64(p.cast(), _mm_packs_epi16(words, words));
        }

        #[inline(always)]
        unsafe fn load_b(p: *const u8) -> __m256i {
            _mm256_loadu_si256(p.cast())
        }
        #[inline(always)]
        unsafe fn splat_b(x: u8) -> __m256i {
            _mm256_set1_epi8(x as i8)
        }
        #[inline(always)]
        unsafe fn look_up(table: &[u8; 16], i: __m256i) -> __m256i {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), i)
        }
        #[inline(always)]
        unsafe fn and_b(a: __m256i, b: __m256i) -> __m256i {
            _mm256_and_si256(a, b)
        }
        #[inline(always)]
        unsafe fn or_b(a: __m256i, b: __m256i) -> __m256i {
            _mm256_or_si256(a, b)
        }
        #[inline(always)]
        unsafe fn shr_b(a: __m256i, n: u32) -> __m256i {
            _mm256_srl_epi32(a, _mm_cvtsi32_si128(n as i32))
        }
        #[inline(always)]
        unsafe fn shl_b(a: __m256i, n: u32) -> __m256i {
            _mm256_sll_epi32(a, _mm_cvtsi32_si128(n as i32))
        }
    };
}
pub(super) use ymm;

/// The largest lane.
#[inline(always)]
pub(super) unsafe fn largest_8(x: __m256) -> f32 {
    let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps::<1>(x, x)))
}
/// The sum of all lanes: those four apart are added first, then those two and one apart.
#[inline(always)]
pub(super) unsafe fn sum_8(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps::<1>(x, x)))
}

// SAFETY: every instruction is of AVX2, FMA or F16C, which `usable` asks for.
unsafe impl Isa for Avx2 {
    ymm!();
    const TILE: usize = 6;
    const WIDE: i32 = 0;
    const NARROW: bool = true;

    #[inline(always)]
    unsafe fn open(_: __m256i) -> __m256i {
        _mm256_setzero_si256()
    }
    #[inline(always)]
    unsafe fn dot4(sum: __m256i, w: __m256i, x: i32) -> __m256i {
        _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, _mm256_set1_epi32(x)))
    }
    #[inline(always)]
    unsafe fn dot4_wide(sum: __m256i, w: __m256i, x: i32) -> __m256i {
        // |q - 128| times x with the sign moved over.
        let signed = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
        let moved = _mm256_sign_epi8(_mm256_set1_epi32(x), signed);
        _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(signed), moved))
    }
    #[inline(always)]
    unsafe fn close(sum: __m256i, acc: __m256i) -> __m256i {
        _mm256_add_epi32(acc, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)))
    }
    #[inline(always)]
    unsafe fn close_scaled(sum: __m256i, scale: __m256i, acc: __m256i) -> __m256i {
        _mm256_add_epi32(acc, _mm256_madd_epi16(sum, scale))
    }
    #[inline(always)]
    unsafe fn scale(s: __m256i) -> __m256i {
        // Both halves.
        _mm256_or_si256(_mm256_slli_epi32::<16>(s), _mm256_and_si256(s, _mm256_set1_epi32(0xffff)))
    }
    #[inline(always)]
    unsafe fn offset(x: i32) -> __m256i {
        // Half of it in each of a pair.
        _mm256_set1_epi16((x / 2) as i16)
    }
}

super::tier!(
    /// The AVX2 tier.
    KERNELS, Avx2, "avx2",
    || is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c"),
    "avx2,fma,f16c"
);
