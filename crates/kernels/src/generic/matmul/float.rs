//! F32, F16 and BF16.
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::mat::MatmulTask;
use std::ops::Range;

/// Inputs whose products are summed by themselves before they join the row's sum.
const RUN: usize = 32;

/// How a float layout stores an element.
trait Element {
    const BYTES: usize;
    unsafe fn load<S: Isa>(p: *const u8) -> S::F;
}
/// A layout of these.
struct Float<E>(E);
struct F32;
struct F16;
struct Bf16;

macro_rules! float_layouts {
    ($($name:ident $element:ident $bytes:literal $load:ident),*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
            // SAFETY: passed on.
            unsafe { panels::<S, Float<$element>>(t, p) }
        }
        impl Element for $element {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn load<S: Isa>(p: *const u8) -> S::F {
                // SAFETY: passed on.
                unsafe { S::$load(p.cast()) }
            }
        }
    )*};
}
float_layouts!(f32 F32 4 load, f16 F16 2 load_f16, bf16 Bf16 2 load_bf16);

impl<E: Element> Kernel for Float<E> {
    // No integer sums beside those of floats.
    const FIT: usize = 2;

    /// Few rows take several runs of inputs side by side, which hides the latency of the fused
    /// multiply-add. Their sums join in order, as if one by one.
    #[inline(always)]
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(
        w: Panel,
        x: Input<R>,
    ) -> [[S::F; V]; R] {
        // SAFETY: the loops visit the inputs of the panel and the rows.
        unsafe {
            let mut y = [[S::splat(0.0); V]; R];
            let mut k = 0;
            while R * V <= 2 && x.cols() - k >= 4 * RUN {
                runs::<S, E, R, V, 4>(w, x, (k, RUN), &mut y);
                k += 4 * RUN;
            }
            while x.cols() - k >= RUN {
                runs::<S, E, R, V, 1>(w, x, (k, RUN), &mut y);
                k += RUN;
            }
            if k < x.cols() {
                runs::<S, E, R, V, 1>(w, x, (k, x.cols() - k), &mut y);
            }
            y
        }
    }
}

/// `N` runs of `len` inputs from `from` on.
#[inline(always)]
unsafe fn runs<S: Isa, E: Element, const R: usize, const V: usize, const N: usize>(
    w: Panel,
    x: Input<R>,
    (from, len): (usize, usize),
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: the runs are within the panel and the rows, by the caller's promise.
    unsafe {
        let mut sums = [[[S::splat(0.0); V]; R]; N];
        for i in 0..len {
            for n in 0..N {
                let k = from + n * len + i;
                let mut weights = [S::splat(0.0); V];
                for v in 0..V {
                    weights[v] = match E::BYTES {
                        2 => E::load::<S>(w.at::<S, 2>(32 * k, v)),
                        _ => E::load::<S>(w.at::<S, 4>(64 * k, v)),
                    };
                }
                for r in 0..R {
                    let x = S::splat(x.f32(r, k));
                    for v in 0..V {
                        sums[n][r][v] = S::fma(weights[v], x, sums[n][r][v]);
                    }
                }
            }
        }
        for sums in sums {
            for r in 0..R {
                for v in 0..V {
                    y[r][v] = S::add(y[r][v], sums[r][v]);
                }
            }
        }
    }
}
