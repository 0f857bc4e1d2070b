//! Layouts of integers with one scale per 32: W8, W8F, W8Z, W8FZ, W2, W4, W4Z, W4B, W4L, W4E, W4M, W5, W5M; and with
//! one for each half of them: W8H, W4H, W4V.
use super::codes::{Form, dots, half_dots};
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::layout::Layout;
use crate::mat::MatmulTask;
use std::ops::Range;

/// One of these layouts, by its number.
struct Block<const LAYOUT: usize>;

macro_rules! block_layouts {
    ($($name:ident $layout:ident),*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
            // SAFETY: passed on.
            unsafe { panels::<S, Block<{ Layout::$layout as usize }>>(t, p) }
        }
    )*};
}
block_layouts!(w8 W8, w8f W8F, w8z W8Z, w8fz W8FZ, w8h W8H);
block_layouts!(w2 W2, w4 W4, w4z W4Z, w4b W4B, w4h W4H, w4l W4L, w4e W4E, w4v W4V);
block_layouts!(w4m W4M, w5 W5, w5m W5M);

impl<const LAYOUT: usize> Kernel for Block<LAYOUT> {
    #[inline(always)]
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(
        w: Panel,
        x: Input<R>,
    ) -> [[S::F; V]; R] {
        let layout = const { Layout::ALL[LAYOUT] };
        // SAFETY: the loop visits the blocks of the panel and the rows.
        unsafe {
            let mut y = [[S::splat(0.0); V]; R];
            // Group by group, so that a block's place in its group is a constant: 1 % of a prompt.
            let together = const { Layout::ALL[LAYOUT].together() };
            for first in (0..x.blocks()).step_by(together) {
                for b in first..first + together {
                    if b < x.blocks() && layout.halved() {
                        halves::<S, R, V>(layout, w, layout.place(b), (x, b), &mut y);
                    } else if b < x.blocks() {
                        block::<S, R, V>(layout, w, layout.place(b), (x, b), &mut y);
                    }
                }
            }
            y
        }
    }
}

/// Adds block `b`, whose scales and codes are at `head` and `codes`.
#[inline(always)]
unsafe fn block<S: Isa, const R: usize, const V: usize>(
    layout: Layout,
    w: Panel,
    (head, codes): (usize, usize),
    (x, b): (Input<R>, usize),
    y: &mut [[S::F; V]; R],
) {
    let form = Form::of(layout);
    // 8-bit values: the instruction set may subtract the offset itself.
    let offset = if form.value() == 8 { S::WIDE } else { layout.offset() };
    // SAFETY: the block is within the panel and the rows, by the caller's promise.
    unsafe {
        let mut acc = [[S::splat_i(0); V]; R];
        if layout.zeroed() {
            for v in 0..V {
                let zero = zeros::<S>(layout, w, head, (v, 0));
                for r in 0..R {
                    acc[r][v] = S::mul_i(zero, S::splat_i(x.minus(r, b)));
                }
            }
        } else if offset != 0 {
            for r in 0..R {
                acc[r] = [shifted::<S>(S::splat_i(x.minus(r, b)), offset); V];
            }
        }
        dots::<S, R, V>(form, (w, codes), (x, b), None, &mut acc);
        for v in 0..V {
            let (d, m) = scales::<S>(layout, w, head, v);
            for r in 0..R {
                let scale = S::mul(d, S::splat(x.scale(r, b)));
                y[r][v] = S::fma(S::float(acc[r][v]), scale, y[r][v]);
                if let Some(m) = m {
                    y[r][v] = S::fma(m, S::splat(x.fsum(r, b)), y[r][v]);
                }
            }
        }
    }
}

/// Adds block `b`, each half of which has a scale, and mostly a zero.
#[inline(always)]
unsafe fn halves<S: Isa, const R: usize, const V: usize>(
    layout: Layout,
    w: Panel,
    (head, codes): (usize, usize),
    (x, b): (Input<R>, usize),
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: the block is within the panel and the rows, by the caller's promise.
    unsafe {
        for h in 0..2 {
            let mut acc = [[S::splat_i(0); V]; R];
            if layout.offset() != 0 {
                for r in 0..R {
                    let minus = S::splat_i(x.minus_32(r, b, h) >> 5);
                    acc[r] = [shifted::<S>(minus, layout.offset()); V];
                }
            } else {
                for v in 0..V {
                    let zero = zeros::<S>(layout, w, head, (v, h));
                    for r in 0..R {
                        acc[r][v] = S::mul_i(zero, S::splat_i(x.minus_32(r, b, h) >> 5));
                    }
                }
            }
            half_dots::<S, R, V>(Form::of(layout), (w, codes), (x, b), h, &mut acc);
            for v in 0..V {
                let d = match layout {
                    Layout::W4V => S::load_f16(w.at::<S, 2>(head + 32 * h, v).cast()),
                    _ => S::load(w.at::<S, 4>(head + 64 * h, v).cast()),
                };
                for r in 0..R {
                    let scale = S::mul(d, S::splat(x.scale(r, b)));
                    y[r][v] = S::fma(S::float(acc[r][v]), scale, y[r][v]);
                }
            }
        }
    }
}

/// Scales and minima at `at`.
#[inline(always)]
unsafe fn scales<S: Isa>(layout: Layout, w: Panel, at: usize, v: usize) -> (S::F, Option<S::F>) {
    // SAFETY: a block's head.
    unsafe {
        match layout {
            Layout::W8F | Layout::W8FZ => (S::load(w.at::<S, 4>(at, v).cast()), None),
            Layout::W4B | Layout::W4E => (S::load_bf16(w.at::<S, 2>(at, v).cast()), None),
            Layout::W4M | Layout::W5M => (
                S::load_f16(w.at::<S, 2>(at, v).cast()),
                Some(S::load_f16(w.at::<S, 2>(at + 32, v).cast())),
            ),
            _ => (S::load_f16(w.at::<S, 2>(at, v).cast()), None),
        }
    }
}

/// What codes of half `h` are biased by, less what the instruction set takes off itself.
#[inline(always)]
unsafe fn zeros<S: Isa>(layout: Layout, w: Panel, at: usize, (v, h): (usize, usize)) -> S::I {
    // SAFETY: a block's head.
    unsafe {
        let at = match layout {
            Layout::W8FZ => at + 64,
            Layout::W8H => at + 128 + 32 * h,
            Layout::W4H => at + 128 + 16 * h,
            _ => at + 32,
        };
        if layout.bits() == 8 {
            let zero = S::round(S::load_f16(w.at::<S, 2>(at, v).cast()));
            S::add_i(zero, S::splat_i(S::WIDE - 128))
        } else {
            S::load_u8(w.at::<S, 1>(at, v))
        }
    }
}

/// `x` times an offset, which is a power of two.
#[inline(always)]
unsafe fn shifted<S: Isa>(x: S::I, offset: i32) -> S::I {
    // SAFETY: the CPU has `S`.
    unsafe {
        match offset {
            1 => x,
            8 => S::shl_i::<3>(x),
            16 => S::shl_i::<4>(x),
            _ => S::shl_i::<7>(x),
        }
    }
}
