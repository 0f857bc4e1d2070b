//! 256 inputs to a block of scales: W4K and W5K, W2K, W6K; and of tables' values W3K, W3I1, W3I2, W4I3 and W4I3S, W4I4.
use super::codes::{Form, dots};
use super::tile::{Input, Kernel, Panel, panels};
use crate::isa::Isa;
use crate::layout::Layout;
use crate::mat::MatmulTask;
use std::mem::MaybeUninit;
use std::ops::Range;

/// One of these layouts, by its number.
struct Superblock<const LAYOUT: usize>;

macro_rules! superblock_layouts {
    ($($name:ident $layout:ident),*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<S: Isa>(t: &MatmulTask<'_>, p: Range<usize>) {
            // SAFETY: passed on.
            unsafe { panels::<S, Superblock<{ Layout::$layout as usize }>>(t, p) }
        }
    )*};
}
superblock_layouts!(w2k W2K, w4k W4K, w5k W5K, w6k W6K, w3k W3K);
superblock_layouts!(w3i1 W3I1, w3i2 W3I2, w4i3 W4I3, w4i3s W4I3S, w4i4 W4I4);

impl<const LAYOUT: usize> Kernel for Superblock<LAYOUT> {
    #[inline(always)]
    unsafe fn tile<S: Isa, const R: usize, const V: usize>(
        w: Panel,
        x: Input<R>,
    ) -> [[S::F; V]; R] {
        let layout = const { Layout::ALL[LAYOUT] };
        // SAFETY: the loops visit the blocks of the panel and the rows.
        unsafe {
            let mut y = [[S::splat(0.0); V]; R];
            for at in 0..x.blocks() / 8 {
                superblock::<S, R, V>(layout, w, x, at, &mut y);
            }
            y
        }
    }
}

/// Adds superblock `at`.
#[inline(always)]
unsafe fn superblock<S: Isa, const R: usize, const V: usize>(
    layout: Layout,
    w: Panel,
    x: Input<R>,
    at: usize,
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: the superblock is within the panel and the rows, by the caller's promise.
    unsafe {
        let (head, codes) = layout.place(at);
        let head = Head::<S, V>::load(layout, w, head);
        let block = |j: usize| ((w, codes + 64 * layout.bits() * j), (x, 8 * at + j));
        match layout {
            Layout::W4K | Layout::W5K => {
                for i in 0..4 {
                    let (even, odd) = (block(2 * i), block(2 * i + 1));
                    w45k_block::<S, R, V, 0>(layout, &head, i, even, y);
                    w45k_block::<S, R, V, 1>(layout, &head, i, odd, y);
                }
            }
            Layout::W2K => {
                for j in 0..8 {
                    w2k_block(&head, j, block(j), y);
                }
            }
            Layout::W4I4 => {
                for j in 0..8 {
                    w4i4_block(&head, j, block(j), y);
                }
            }
            _ => {
                for j in 0..8 {
                    halves_block(layout, &head, j, block(j), y);
                }
            }
        }
    }
}

/// A block's codes, and its inputs.
type Block<const R: usize> = ((Panel, usize), (Input<R>, usize));

/// Bytes of the longest head.
const HEAD: usize = 320;

/// The scales of a superblock.
struct Head<S: Isa, const V: usize> {
    /// All of it, read at once: a product that comes back to its scales again and again would have
    /// two streams from memory instead of one.
    bytes: MaybeUninit<[u8; HEAD]>,
    lane: usize,
    d: [S::F; V],
    /// Where the layout has minima.
    m: [S::F; V],
}

impl<S: Isa, const V: usize> Head<S, V> {
    #[inline(always)]
    unsafe fn load(layout: Layout, w: Panel, at: usize) -> Head<S, V> {
        // SAFETY: the superblock's head.
        unsafe {
            let mut bytes = MaybeUninit::<[u8; HEAD]>::uninit();
            w.data().add(at).copy_to_nonoverlapping(bytes.as_mut_ptr().cast(), layout.head());
            let (mut d, mut m) = ([S::splat(0.0); V], [S::splat(0.0); V]);
            for v in 0..V {
                d[v] = S::load_f16(w.at::<S, 2>(at, v).cast());
                if let Some(unit) = layout.odd() {
                    d[v] = S::mul(d[v], S::splat(unit));
                }
                if matches!(layout, Layout::W2K | Layout::W4K | Layout::W5K) {
                    m[v] = S::load_f16(w.at::<S, 2>(at + 32, v).cast());
                }
            }
            Head { bytes, lane: w.lane(), d, m }
        }
    }
    /// Where the tile's bytes of the vector at `offset` are.
    #[inline(always)]
    fn at(&self, offset: usize, v: usize) -> *const u8 {
        // SAFETY: within the head.
        unsafe { self.bytes.as_ptr().cast::<u8>().add(offset + self.lane + v * S::LANES) }
    }
    /// Unsigned bytes at `offset`.
    #[inline(always)]
    unsafe fn bytes(&self, offset: usize, v: usize) -> S::I {
        // SAFETY: within the head.
        unsafe { S::load_u8(self.at(offset, v)) }
    }
}

/// W4K and W5K: sub-blocks of 32, of which this is `2i + ODD`.
#[inline(always)]
unsafe fn w45k_block<S: Isa, const R: usize, const V: usize, const ODD: usize>(
    layout: Layout,
    head: &Head<S, V>,
    i: usize,
    (w, (x, b)): Block<R>,
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: block `b` of the panel and the rows.
    unsafe {
        let mut acc = [[S::splat_i(0); V]; R];
        dots::<S, R, V>(Form::of(layout), w, (x, b), None, &mut acc);
        for v in 0..V {
            let st = head.bytes(64 + 16 * (2 * i + ODD), v);
            let low = head.bytes(192 + 16 * i, v);
            let low = if ODD == 0 { S::and_i(low, S::splat_i(15)) } else { S::shr_i::<4>(low) };
            let s = S::and_i(st, S::splat_i(63));
            let t = S::or_i(S::shl_i::<4>(S::shr_i::<6>(st)), low);
            let minus = S::mul(head.m[v], S::splat(-1.0));
            let (ds, mt) = (S::mul(head.d[v], S::float(s)), S::mul(minus, S::float(t)));
            for r in 0..R {
                let scale = S::mul(ds, S::splat(x.scale(r, b)));
                y[r][v] = S::fma(S::float(acc[r][v]), scale, y[r][v]);
                y[r][v] = S::fma(mt, S::splat(x.fsum(r, b)), y[r][v]);
            }
        }
    }
}

/// W2K: sub-blocks of 16, of which these are `2j` and `2j + 1`. Their scaled dots, and their
/// minima times the activations' sums, are added as integers.
#[inline(always)]
unsafe fn w2k_block<S: Isa, const R: usize, const V: usize>(
    head: &Head<S, V>,
    j: usize,
    (w, (x, b)): Block<R>,
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: block `b` of the panel and the rows.
    unsafe {
        let (mut s, mut t) = ([[S::splat_i(0); 2]; V], [[S::splat_i(0); 2]; V]);
        for v in 0..V {
            let (a, b) = (head.bytes(64 + 32 * j, v), head.bytes(80 + 32 * j, v));
            let low = S::splat_i(15);
            s[v] = [S::scale(S::and_i(a, low)), S::scale(S::and_i(b, low))];
            t[v] = [S::shr_i::<4>(a), S::shr_i::<4>(b)];
        }
        let mut acc = [[S::splat_i(0); V]; R];
        dots::<S, R, V>(Form::of(Layout::W2K), w, (x, b), Some(s), &mut acc);
        for v in 0..V {
            let m = S::mul(head.m[v], S::splat(1.0 / 32.0));
            for r in 0..R {
                let xs = S::splat(x.scale(r, b));
                let (a, b) = (S::splat_i(x.minus_32(r, b, 0)), S::splat_i(x.minus_32(r, b, 1)));
                let minus = S::add_i(S::mul_i(t[v][0], a), S::mul_i(t[v][1], b));
                y[r][v] = S::fma(S::float(acc[r][v]), S::mul(head.d[v], xs), y[r][v]);
                y[r][v] = S::fma(S::float(minus), S::mul(m, xs), y[r][v]);
            }
        }
    }
}

/// W6K, W3K and those with odd scales: sub-blocks of 16, of which these are `2j` and `2j + 1`. Their scaled
/// dots are added as integers: at most 2·16·32·127·128, which an f32 holds; and 2·16·62·127·31.
#[inline(always)]
unsafe fn halves_block<S: Isa, const R: usize, const V: usize>(
    layout: Layout,
    head: &Head<S, V>,
    j: usize,
    (w, (x, b)): Block<R>,
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: block `b` of the panel and the rows.
    unsafe {
        let mut s = [[S::splat_i(0); 2]; V];
        let mut acc = [[S::splat_i(0); V]; R];
        for v in 0..V {
            s[v] = if layout.odd().is_some() {
                let both = head.bytes(32 + 16 * j, v);
                let one = S::splat_i(1);
                // Their lowest bits are 1.
                let a = S::or_i(S::shl_i::<1>(S::and_i(both, S::splat_i(15))), one);
                let b = S::or_i(S::shl_i::<1>(S::shr_i::<4>(both)), one);
                [S::scale(a), S::scale(b)]
            } else {
                let a = S::load_i8(head.at(32 + 32 * j, v).cast());
                let b = S::load_i8(head.at(48 + 32 * j, v).cast());
                [S::scale(a), S::scale(b)]
            };
        }
        dots::<S, R, V>(Form::of(layout), w, (x, b), Some(s), &mut acc);
        for v in 0..V {
            for r in 0..R {
                let scale = S::mul(head.d[v], S::splat(x.scale(r, b)));
                y[r][v] = S::fma(S::float(acc[r][v]), scale, y[r][v]);
            }
        }
    }
}

/// W4I4: sub-blocks of 32, of which this is `j`.
#[inline(always)]
unsafe fn w4i4_block<S: Isa, const R: usize, const V: usize>(
    head: &Head<S, V>,
    j: usize,
    (w, (x, b)): Block<R>,
    y: &mut [[S::F; V]; R],
) {
    // SAFETY: block `b` of the panel and the rows.
    unsafe {
        let mut acc = [[S::splat_i(0); V]; R];
        if S::WIDE != 0 {
            for r in 0..R {
                acc[r] = [S::shl_i::<7>(S::splat_i(x.minus(r, b))); V];
            }
        }
        dots::<S, R, V>(Form::of(Layout::W4I4), w, (x, b), None, &mut acc);
        for v in 0..V {
            let s = S::load_i8(head.at(32 + 16 * j, v).cast());
            let d = S::mul(head.d[v], S::float(s));
            for r in 0..R {
                let scale = S::mul(d, S::splat(x.scale(r, b)));
                y[r][v] = S::fma(S::float(acc[r][v]), scale, y[r][v]);
            }
        }
    }
}
