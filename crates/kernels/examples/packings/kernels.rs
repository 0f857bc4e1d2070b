//! A kernel a packing, with AVX2 and with the byte dot product of AVX-512: 16 rows by a tile of
//! batch rows, whose weights are unpacked once a tile.
#![expect(unsafe_op_in_unsafe_fn, reason = "one condition for all: that of `Run`")]
#![expect(clippy::needless_range_loop, reason = "rows of a tile, several arrays each")]
use crate::packing::{BYTES, Packing, ROWS};
use rinfer_kernels::act::Block;
use std::arch::x86_64::*;

/// What a kernel multiplies.
#[derive(Clone, Copy)]
pub struct Operands {
    /// 16 rows.
    pub weights: *const u8,
    /// Block `b` of batch row `r` is the `b·R + r`th.
    pub x: *const Block,
    /// Blocks of 32 to a row.
    pub blocks: usize,
    /// A sum for each row of each of the tile's batch rows.
    pub out: *mut [f32; ROWS],
}

/// # Safety
/// The CPU has the tier; the operands have as many rows and blocks as they say, and the kernel's
/// tile.
pub type Run = unsafe fn(Operands);

/// A packing on a tier.
pub struct Kernel {
    pub name: &'static str,
    pub packing: Packing,
    pub tier: &'static str,
    /// For one batch row.
    pub one: Run,
    /// For a tile of them.
    pub many: Run,
    /// Its batch rows: as many as the registers hold.
    pub tile: usize,
}

/// All that this CPU can run.
pub fn usable() -> Vec<Kernel> {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let vnni = is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    let kernel =
        |(name, packing, tier, one, many, tile)| Kernel { name, packing, tier, one, many, tile };
    let mut all: Vec<Kernel> = Vec::new();
    if avx2 {
        all.extend(AVX2.map(kernel));
    }
    if avx2 && vnni {
        all.extend(VNNI.map(kernel));
    }
    all
}

/// Name, packing, tier, `one`, `many` and its tile.
type Entry = (&'static str, Packing, &'static str, Run, Run, usize);
const CANONICAL: &str = "canonical nibbles";
const SPLIT: &str = "split halves";
const EIGHT: &str = "8 rows interleaved";
const SIXTEEN: &str = "16 rows interleaved";

const AVX2: [Entry; 4] = [
    (CANONICAL, Packing::Canonical, "AVX2", avx2::canonical::<1, 1>, avx2::canonical::<1, 4>, 4),
    (SPLIT, Packing::Split, "AVX2", avx2::split::<1, 1>, avx2::split::<1, 4>, 4),
    (EIGHT, Packing::Eight, "AVX2", avx2::eight::<1, 1>, avx2::eight::<1, 4>, 4),
    (SIXTEEN, Packing::Sixteen, "AVX2", avx2::sixteen::<2, 1>, avx2::sixteen::<1, 4>, 4),
];
const VNNI: [Entry; 4] = [
    (CANONICAL, Packing::Canonical, "VNNI", vnni::canonical::<1, 1>, vnni::canonical::<1, 8>, 8),
    (SPLIT, Packing::Split, "VNNI", vnni::split::<1, 1>, vnni::split::<1, 8>, 8),
    (EIGHT, Packing::Eight, "VNNI", vnni::eight::<1, 1>, vnni::eight::<1, 8>, 8),
    (SIXTEEN, Packing::Sixteen, "VNNI", vnni::sixteen::<0, 1>, vnni::sixteen::<0, 8>, 8),
];

/// On AVX-512 for one batch row: what the order in which memory is read does.
pub const STREAMS: [(&str, Packing, Run); 6] = [
    ("16 rows interleaved", Packing::Sixteen, vnni::sixteen::<0, 1>),
    ("the same, prefetch 1 KiB ahead", Packing::Sixteen, vnni::sixteen::<1024, 1>),
    ("the same, prefetch 4 KiB ahead", Packing::Sixteen, vnni::sixteen::<4096, 1>),
    ("scales apart from codes", Packing::SixteenApart, vnni::apart::<0, 1>),
    ("split halves", Packing::Split, vnni::split::<1, 1>),
    ("the same, 4 rows at a time", Packing::Split, vnni::split::<4, 1>),
];

/// Declares a tier's kernels.
macro_rules! tier {
    ($tier:ident, $features:literal: $($name:ident<$($n:ident),*> = $generic:expr;)*) => {
        mod $tier {
            use super::*;
            $(#[target_feature(enable = $features)]
            pub unsafe fn $name<$(const $n: usize),*>(t: Operands) {
                // SAFETY: the caller's promise is the same.
                unsafe { $generic(t) }
            })*
        }
    };
}
tier! { avx2, "avx2,fma,f16c":
    canonical<N, R> = rows::<false, false, N, R>;
    split<N, R> = rows::<false, true, N, R>;
    eight<V, R> = lanes8::<false, 8, V, R>;
    sixteen<V, R> = lanes8::<false, 16, V, R>;
}
tier! { vnni, "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni":
    canonical<N, R> = rows::<true, false, N, R>;
    split<N, R> = rows::<true, true, N, R>;
    eight<V, R> = lanes8::<true, 8, V, R>;
    sixteen<AHEAD, R> = lanes16::<false, AHEAD, R>;
    apart<AHEAD, R> = lanes16::<true, AHEAD, R>;
}

/// Rows one after another, `N` at a time: a block's 32 inputs in the lanes, which are added at a
/// row's end.
#[inline(always)]
unsafe fn rows<const VNNI: bool, const SPLIT: bool, const N: usize, const R: usize>(t: Operands) {
    for first in (0..ROWS).step_by(N) {
        let mut sum = [[_mm256_setzero_ps(); R]; N];
        // Lane 1 counts.
        let mut mins = [[_mm_setzero_ps(); R]; N];
        for b in 0..t.blocks {
            for n in 0..N {
                let block = t.weights.add(((first + n) * t.blocks + b) * BYTES);
                let affine = _mm_cvtph_ps(_mm_cvtsi32_si128(block.cast::<i32>().read_unaligned()));
                let q = codes::<SPLIT>(block.add(4));
                for r in 0..R {
                    let x = t.x.add(b * R + r);
                    let dots =
                        dot4::<VNNI>(_mm256_setzero_si256(), q, _mm256_loadu_si256(x.cast()));
                    let dots = if VNNI { dots } else { pairs(dots) };
                    let scales = _mm_loadl_epi64((&raw const (*x).scale).cast());
                    let both = _mm_mul_ps(affine, _mm_castsi128_ps(scales));
                    let scale = _mm256_broadcastss_ps(both);
                    sum[n][r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), scale, sum[n][r]);
                    mins[n][r] = _mm_add_ps(mins[n][r], both);
                }
            }
        }
        for n in 0..N {
            for r in 0..R {
                let min = _mm_cvtss_f32(_mm_movehdup_ps(mins[n][r]));
                (*t.out.add(r))[first + n] = across(sum[n][r]) + min;
            }
        }
    }
}

/// 32 codes, in order, of 16 bytes.
#[inline(always)]
unsafe fn codes<const SPLIT: bool>(p: *const u8) -> __m256i {
    let q = _mm_loadu_si128(p.cast());
    let (low, high) = if SPLIT {
        let q = _mm256_set_m128i(_mm_srli_epi16::<4>(q), q);
        (q, q)
    } else {
        // Each byte in a word of its own.
        let q = _mm256_cvtepu8_epi16(q);
        (q, _mm256_slli_epi16::<4>(q))
    };
    _mm256_and_si256(_mm256_or_si256(low, high), _mm256_set1_epi8(15))
}

/// The sum of all lanes.
#[inline(always)]
unsafe fn across(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
}

/// Adds products of bytes to 32-bit lanes, or, without the instruction, to 16-bit ones: a block of
/// 4-bit codes does not overflow them.
#[inline(always)]
unsafe fn dot4<const VNNI: bool>(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    if VNNI {
        _mm256_dpbusd_epi32(sum, w, x)
    } else {
        _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x))
    }
}

/// 16-bit lanes added in pairs.
#[inline(always)]
unsafe fn pairs(x: __m256i) -> __m256i {
    _mm256_madd_epi16(x, _mm256_set1_epi16(1))
}

/// Rows in 8 lanes, `PANEL` of them interleaved and `V` vectors at a time.
#[inline(always)]
unsafe fn lanes8<const VNNI: bool, const PANEL: usize, const V: usize, const R: usize>(
    t: Operands,
) {
    let low = _mm256_set1_epi8(15);
    for first in (0..2).step_by(V) {
        let mut sum = [[_mm256_setzero_ps(); V]; R];
        let mut mins = [[_mm256_setzero_ps(); V]; R];
        for b in 0..t.blocks {
            let mut dots = [[_mm256_setzero_si256(); V]; R];
            // Of vector `v`: its block, where vectors of a panel lie side by side.
            let place = |v: usize| match PANEL {
                8 => t.weights.add(((first + v) * t.blocks + b) * 8 * BYTES),
                _ => t.weights.add(b * ROWS * BYTES),
            };
            let side = |v: usize| if PANEL == 8 { 0 } else { first + v };
            for j in 0..4 {
                for v in 0..V {
                    let q = place(v).add(4 * PANEL + 4 * PANEL * j + 32 * side(v));
                    let q = _mm256_loadu_si256(q.cast());
                    for i in 0..2 {
                        let q = if i == 0 { q } else { _mm256_srli_epi32::<4>(q) };
                        let q = _mm256_and_si256(q, low);
                        for r in 0..R {
                            let x = _mm256_set1_epi32(word(t.x.add(b * R + r), 2 * j + i));
                            dots[r][v] = dot4::<VNNI>(dots[r][v], q, x);
                        }
                    }
                }
            }
            for v in 0..V {
                let head = place(v).add(16 * side(v));
                let d = _mm256_cvtph_ps(_mm_loadu_si128(head.cast()));
                let m = _mm256_cvtph_ps(_mm_loadu_si128(head.add(2 * PANEL).cast()));
                for r in 0..R {
                    let x = &*t.x.add(b * R + r);
                    let dots = if VNNI { dots[r][v] } else { pairs(dots[r][v]) };
                    let scale = _mm256_mul_ps(d, _mm256_set1_ps(x.scale));
                    sum[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), scale, sum[r][v]);
                    mins[r][v] = _mm256_fmadd_ps(m, _mm256_set1_ps(x.fsum), mins[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                let out = t.out.add(r).cast::<f32>().add(8 * (first + v));
                _mm256_storeu_ps(out, _mm256_add_ps(sum[r][v], mins[r][v]));
            }
        }
    }
}

/// Group `g` of a block's codes.
#[inline(always)]
unsafe fn word(x: *const Block, g: usize) -> i32 {
    *x.cast::<i32>().add(g)
}

/// Rows in 16 lanes. With `AHEAD`, memory is asked for that many bytes before they are used.
#[inline(always)]
unsafe fn lanes16<const APART: bool, const AHEAD: usize, const R: usize>(t: Operands) {
    let low = _mm512_set1_epi8(15);
    let mut sum = [_mm512_setzero_ps(); R];
    let mut mins = [_mm512_setzero_ps(); R];
    for b in 0..t.blocks {
        let (head, codes) = match APART {
            true => (64 * b, 64 * t.blocks + 256 * b),
            false => (ROWS * BYTES * b, ROWS * BYTES * b + 64),
        };
        if AHEAD > 0 {
            for line in (head..codes + 256).step_by(64) {
                _mm_prefetch::<_MM_HINT_T0>(t.weights.wrapping_add(line + AHEAD).cast());
            }
        }
        let mut dots = [_mm512_setzero_si512(); R];
        for j in 0..4 {
            let q = _mm512_loadu_si512(t.weights.add(codes + 64 * j).cast());
            for i in 0..2 {
                let q = if i == 0 { q } else { _mm512_srli_epi32::<4>(q) };
                let q = _mm512_and_si512(q, low);
                for r in 0..R {
                    let x = _mm512_set1_epi32(word(t.x.add(b * R + r), 2 * j + i));
                    dots[r] = _mm512_dpbusd_epi32(dots[r], q, x);
                }
            }
        }
        let head = t.weights.add(head);
        let d = _mm512_cvtph_ps(_mm256_loadu_si256(head.cast()));
        let m = _mm512_cvtph_ps(_mm256_loadu_si256(head.add(32).cast()));
        for r in 0..R {
            let x = &*t.x.add(b * R + r);
            let scale = _mm512_mul_ps(d, _mm512_set1_ps(x.scale));
            sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), scale, sum[r]);
            mins[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(x.fsum), mins[r]);
        }
    }
    for r in 0..R {
        let out = t.out.add(r).cast::<f32>();
        _mm512_storeu_ps(out, _mm512_add_ps(sum[r], mins[r]));
    }
}
