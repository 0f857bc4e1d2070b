//! Weights of few bits with f32 activations. W8X's are an f16 scale times an integer, which is exact in f32,
//! W8E's, W4N's and W4P's an f32 scale times a float, rounded; so the numbers are those of the F32 layout.
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::layout::{Layout, tables};
use crate::mat::MatmulTask;
use std::ops::Range;

/// One of these layouts, by its number.
struct Wide<const LAYOUT: usize>;

macro_rules! wide_layouts {
    ($($name:ident $layout:ident),*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
            // SAFETY: passed on.
            unsafe { panels::<S, Wide<{ Layout::$layout as usize }>>(t, p) }
        }
    )*};
}
wide_layouts!(w8x W8X, w8e W8E, w4n W4N, w4p W4P);

impl<const LAYOUT: usize> Kernel for Wide<LAYOUT> {
    #[inline(always)]
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(
        w: Panel,
        x: Input<R>,
    ) -> [[S::F; V]; R] {
        let layout = const { Layout::ALL[LAYOUT] };
        // SAFETY: the loops visit the blocks of the panel and the rows.
        unsafe {
            let mut sums = [[[S::splat(0.0); V]; R]; 2];
            for b in 0..x.blocks() {
                let (head, codes) = layout.place(b);
                let mut d = [S::splat(0.0); V];
                for v in 0..V {
                    d[v] = match layout {
                        Layout::W8X => S::load_f16(w.at::<S, 2>(head, v).cast()),
                        _ => S::load(w.at::<S, 4>(head, v).cast()),
                    };
                }
                for g in 0..8 {
                    // Of 4 bits, two groups are in a vector.
                    let (at, high) =
                        if layout.bits() == 4 { (g / 2, g % 2 == 1) } else { (g, false) };
                    let (w, x) = ((w, codes + 64 * at), (x, 32 * b + 4 * g));
                    group::<S, R, V>((layout, high), w, &d, x, &mut sums);
                }
            }
            let [mut even, odd] = sums;
            for r in 0..R {
                for v in 0..V {
                    even[r][v] = S::add(even[r][v], odd[r][v]);
                }
            }
            even
        }
    }
}

/// Adds the products of the four inputs from `k` on, whose codes lie at `at`, or in the high halves of
/// what does.
#[inline(always)]
unsafe fn group<S: Isa, const R: usize, const V: usize>(
    (layout, high): (Layout, bool),
    (w, at): (Panel, usize),
    d: &[S::F; V],
    (x, k): (Input<R>, usize),
    sums: &mut [[[S::F; V]; R]; 2],
) {
    // SAFETY: the group is within the panel and the rows, by the caller's promise.
    unsafe {
        let mut codes = [S::splat_i(0); V];
        for v in 0..V {
            codes[v] = S::words(S::load_b(w.at::<S, 4>(at, v)));
            if high {
                codes[v] = S::shr_i::<4>(codes[v]);
            }
        }
        for i in 0..4 {
            let mut weights = *d;
            for v in 0..V {
                let value = match layout {
                    Layout::W8E => e4m3::<S>(codes[v]),
                    Layout::W4N => S::pick(&tables::NF4, S::and_i(codes[v], S::splat_i(15))),
                    Layout::W4P => S::pick(&tables::FP4, S::and_i(codes[v], S::splat_i(15))),
                    _ => {
                        let code = S::float(S::and_i(codes[v], S::splat_i(255)));
                        S::sub(code, S::splat(128.0))
                    }
                };
                weights[v] = S::mul(value, d[v]);
                codes[v] = S::shr_i::<8>(codes[v]);
            }
            for r in 0..R {
                let x = S::splat(x.f32(r, k + i));
                for v in 0..V {
                    sums[i % 2][r][v] = S::fma(weights[v], x, sums[i % 2][r][v]);
                }
            }
        }
    }
}

/// The E4M3 in the lowest byte of each lane. Its bits, moved to where a f32 has its own, are of the same
/// number but for the exponents' bias. One without a leading 1 is taken as if it had it, which then is
/// taken off.
#[inline(always)]
unsafe fn e4m3<S: Isa>(codes: S::I) -> S::F {
    /// The smallest with a leading 1.
    const LEAST: i32 = (127 - 6) << 23;
    // SAFETY: the caller's promise: the CPU has the set.
    unsafe {
        let sign = S::shl_i::<24>(S::and_i(codes, S::splat_i(0x80)));
        let size = S::shl_i::<20>(S::and_i(codes, S::splat_i(0x7f)));
        let plain = S::add_i(size, S::splat_i(LEAST - (1 << 23)));
        let plain = S::from_bits(S::or_i(sign, plain));
        let least = S::from_bits(S::or_i(sign, S::splat_i(LEAST)));
        let small = S::from_bits(S::or_i(sign, S::add_i(size, S::splat_i(LEAST))));
        S::select_lt(S::abs(plain), S::abs(least), S::sub(small, least), plain)
    }
}
