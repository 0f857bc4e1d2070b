//! F32, F16 and BF16.
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::mat::MatmulTask;
use std::ops::Range;

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
    /// Even and odd inputs are summed apart: that hides the latency of the fused multiply-add where
    /// rows are few.
    #[inline(always)]
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(
        w: Panel,
        x: Input<R>,
    ) -> [[S::F; V]; R] {
        // SAFETY: the loops visit the inputs of the panel and the rows.
        unsafe {
            let mut even = [[S::splat(0.0); V]; R];
            let mut odd = even;
            let pairs = x.cols() / 2 * 2;
            for k in (0..pairs).step_by(2) {
                input::<S, E, R, V>(w, x, k, &mut even);
                input::<S, E, R, V>(w, x, k + 1, &mut odd);
            }
            if pairs < x.cols() {
                input::<S, E, R, V>(w, x, pairs, &mut even);
            }
            for r in 0..R {
                for v in 0..V {
                    even[r][v] = S::add(even[r][v], odd[r][v]);
                }
            }
            even
        }
    }
}

/// Adds the products of input `k`.
#[inline(always)]
unsafe fn input<S: Isa, E: Element, const R: usize, const V: usize>(
    w: Panel,
    x: Input<R>,
    k: usize,
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: the input is within the panel and the rows, by the caller's promise.
    unsafe {
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
                y[r][v] = S::fma(weights[v], x, y[r][v]);
            }
        }
    }
}
