//! F32, F16 and BF16.
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::mat::MatmulTask;
use std::ops::Range;

struct F32;
struct F16;
struct Bf16;

macro_rules! float_layouts {
    ($($name:ident $layout:ident $bytes:literal $load:ident),*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
            // SAFETY: passed on.
            unsafe { panels::<S, $layout>(t, p) }
        }
        impl Kernel for $layout {
            // No integer sums beside those of floats.
            const FIT: usize = 2;

            #[inline(always)]
            unsafe fn tile<S: Isa, const R: usize, const V: usize>(
                w: Panel,
                x: Input<R>,
            ) -> [[S::F; V]; R] {
                // SAFETY: the loop visits the inputs of the panel and the rows.
                unsafe {
                    let mut y = [[S::splat(0.0); V]; R];
                    for k in 0..x.cols() {
                        w.codes_ahead::<S>(16 * $bytes * k, 1);
                        let mut weights = [S::splat(0.0); V];
                        for v in 0..V {
                            let at = w.codes::<S, $bytes>(16 * $bytes * k, v);
                            weights[v] = S::$load(at.cast());
                        }
                        for r in 0..R {
                            let x = S::splat(x.f32(r, k));
                            for v in 0..V {
                                y[r][v] = S::fma(weights[v], x, y[r][v]);
                            }
                        }
                    }
                    y
                }
            }
        }
    )*};
}
float_layouts!(f32 F32 4 load, f16 F16 2 load_f16, bf16 Bf16 2 load_bf16);
