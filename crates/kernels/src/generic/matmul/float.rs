//! F32, F16 and BF16.
use super::tile::{Input, Kernel, Panel, panels};
use crate::generic::element::{Brain, Element, Half, Single};
use crate::isa::Isa;
use crate::layout::PANEL;
use crate::mat::MatmulTask;
use std::ops::Range;

/// A layout of elements.
struct Float<E>(E);

macro_rules! float_layouts {
    ($($name:ident $element:ident),*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
            // SAFETY: passed on.
            unsafe { panels::<S, Float<$element>>(t, p) }
        }
    )*};
}
float_layouts!(f32 Single, f16 Half, bf16 Brain);

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
            weights[v] = E::load::<S>(w.data(), PANEL * k + w.lane() + v * S::LANES);
        }
        for r in 0..R {
            let x = S::splat(x.f32(r, k));
            for v in 0..V {
                y[r][v] = S::fma(weights[v], x, y[r][v]);
            }
        }
    }
}
