//! W8X: 8-bit weights with f32 activations. A weight is an f16 scale times an 8-bit integer, which is
//! exact in f32, so the numbers are those of the F32 layout.
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::layout::Layout;
use crate::mat::MatmulTask;
use std::ops::Range;

/// The layout.
struct Wide;

#[inline(always)]
pub(crate) unsafe fn w8x<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
    // SAFETY: passed on.
    unsafe { panels::<S, Wide>(t, p) }
}

impl Kernel for Wide {
    #[inline(always)]
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(
        w: Panel,
        x: Input<R>,
    ) -> [[S::F; V]; R] {
        // SAFETY: the loops visit the blocks of the panel and the rows.
        unsafe {
            let mut sums = [[[S::splat(0.0); V]; R]; 2];
            for b in 0..x.blocks() {
                let (head, codes) = Layout::W8X.place(b);
                let mut d = [S::splat(0.0); V];
                for v in 0..V {
                    d[v] = S::load_f16(w.at::<S, 2>(head, v).cast());
                }
                for g in 0..8 {
                    group::<S, R, V>(w, codes + 64 * g, &d, (x, 32 * b + 4 * g), &mut sums);
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

/// Adds the products of the four inputs from `k` on, whose codes lie at `at`.
#[inline(always)]
unsafe fn group<S: Isa, const R: usize, const V: usize>(
    w: Panel,
    at: usize,
    d: &[S::F; V],
    (x, k): (Input<R>, usize),
    sums: &mut [[[S::F; V]; R]; 2],
) {
    // SAFETY: the group is within the panel and the rows, by the caller's promise.
    unsafe {
        let mut codes = [S::splat_i(0); V];
        for v in 0..V {
            codes[v] = S::words(S::load_b(w.at::<S, 4>(at, v)));
        }
        for i in 0..4 {
            let mut weights = *d;
            for v in 0..V {
                let code = S::float(S::and_i(codes[v], S::splat_i(255)));
                weights[v] = S::mul(S::sub(code, S::splat(128.0)), d[v]);
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
