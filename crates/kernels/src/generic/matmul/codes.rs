//! Codes in registers: the integer dots of 32 inputs. See `layout/codes.rs` for where bits lie.
use super::tile::{Input, Panel};
use crate::isa::{Isa, run};
use crate::layout::Layout;
use crate::layout::tables::Values;

/// Bytes to a vector of a panel.
const VECTOR: usize = 64;

/// What is read and what is multiplied.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Bits to a code.
    code: usize,
    /// What codes stand for, where that is in a table.
    table: Option<&'static Values>,
    /// Bits to what is multiplied.
    value: usize,
}

impl Form {
    #[inline(always)]
    pub const fn of(layout: Layout) -> Form {
        let (code, table) = (layout.bits(), layout.values());
        let value = if let Some(values) = table { values.bits } else { code };
        Form { code, table, value }
    }
    /// Bits to what is multiplied.
    #[inline(always)]
    pub const fn value(self) -> usize {
        self.value
    }
}

/// Evaluates the body for each group of 32 inputs, with `$g` a constant.
macro_rules! each_group {
    ($g:ident => $body:block) => {
        each_group!(@ $g $body 0 1 2 3 4 5 6 7)
    };
    (@ $g:ident $body:block $($n:literal)*) => {
        $({ const $g: usize = $n; $body })*
    };
}

/// Adds the dots of block `b`'s 32 inputs, whose codes lie at `at`, to `acc`. With `scales`, the dots of
/// the block's two halves are first multiplied by theirs; values of 5 to 7 bits then count as biased
/// by half of their range.
#[inline(always)]
pub(super) unsafe fn dots<S: Isa, const R: usize, const V: usize>(
    form: Form,
    (w, at): (Panel, usize),
    (x, b): (Input<R>, usize),
    scales: Option<[[S::I; 2]; V]>,
    acc: &mut [[S::I; V]; R],
) {
    // SAFETY: the block is within the panel and the rows, by the caller's promise.
    unsafe {
        let bits = form.value();
        let length = if scales.is_some() { run::<S>(bits).min(4) } else { run::<S>(bits) };
        let zero = S::open(S::splat_i(0));
        let mut sums = [[zero; V]; R];
        each_group!(G => {
            for v in 0..V {
                let codes = group::<S>(form, w.at::<S, 4>(at, v), G);
                for r in 0..R {
                    let (sum, acc) = (&mut sums[r][v], &mut acc[r][v]);
                    if G.is_multiple_of(length) {
                        *sum = if scales.is_some() { zero } else { S::open(*acc) };
                    }
                    if let (Some(scales), 5.., 0) = (scales, bits, G % 4) {
                        let minus = x.minus_32(r, b, G / 4);
                        if S::NARROW {
                            // 16 bits hold no more than 32 times a half's sum.
                            let offset = S::offset(if bits == 5 { minus / 2 } else { minus });
                            let times = if bits == 7 { 2 } else { 1 };
                            for _ in 0..times {
                                *acc = S::close_scaled(offset, scales[v][G / 4], *acc);
                            }
                        } else {
                            *sum = S::offset(minus << (bits - 5) >> 1);
                        }
                    }
                    let word = x.word(r, b, G);
                    *sum = match bits {
                        8 => S::dot4_wide(*sum, codes, word),
                        _ => S::dot4(*sum, codes, word),
                    };
                    if G % length == length - 1 {
                        *acc = match scales {
                            Some(scales) => S::close_scaled(*sum, scales[v][G / 4], *acc),
                            None => S::close(*sum, *acc),
                        };
                    }
                }
            }
        });
    }
}

/// Adds the dots of half `h` of block `b`'s inputs, as [`dots`] without scales.
#[inline(always)]
pub(super) unsafe fn half_dots<S: Isa, const R: usize, const V: usize>(
    form: Form,
    (w, at): (Panel, usize),
    (x, b): (Input<R>, usize),
    h: usize,
    acc: &mut [[S::I; V]; R],
) {
    // SAFETY: the block is within the panel and the rows, by the caller's promise.
    unsafe {
        let bits = form.value();
        let length = run::<S>(bits).min(4);
        let mut sums = [[S::open(S::splat_i(0)); V]; R];
        each_group!(G => {
            if G / 4 == h {
                for v in 0..V {
                    let codes = group::<S>(form, w.at::<S, 4>(at, v), G);
                    for r in 0..R {
                        let (sum, acc) = (&mut sums[r][v], &mut acc[r][v]);
                        if G.is_multiple_of(length) {
                            *sum = S::open(*acc);
                        }
                        let word = x.word(r, b, G);
                        *sum = match bits {
                            8 => S::dot4_wide(*sum, codes, word),
                            _ => S::dot4(*sum, codes, word),
                        };
                        if G % length == length - 1 {
                            *acc = S::close(*sum, *acc);
                        }
                    }
                }
            }
        });
    }
}

/// The values of group `g`.
#[inline(always)]
unsafe fn group<S: Isa>(form: Form, q: *const u8, g: usize) -> S::B {
    // SAFETY: as in `codes`.
    unsafe {
        let codes = codes::<S>(form.code, q, g);
        match form.table {
            Some(values) => S::look_up(&values.biased, codes),
            None => codes,
        }
    }
}

/// The codes of group `g`.
#[inline(always)]
unsafe fn codes<S: Isa>(bits: usize, q: *const u8, g: usize) -> S::B {
    // SAFETY: within the `64·bits` bytes of 32 inputs, by the caller's promise.
    unsafe {
        match bits {
            8 => S::load_b(q.add(VECTOR * g)),
            4 => nibble::<S>(q, g / 2, g),
            5 => S::or_b(nibble::<S>(q, 1 + g / 2, g), high::<S>(q, g, 4, 1)),
            6 => {
                let first = 3 * (g / 4);
                let pairs = q.add(VECTOR * first);
                let low = nibble::<S>(q, first + 1 + g / 2 % 2, g);
                S::or_b(low, high::<S>(pairs, 2 * (g % 4), 4, 3))
            }
            3 => {
                let pairs = q.add(VECTOR * (1 + g / 4));
                S::or_b(high::<S>(pairs, 2 * (g % 4), 0, 3), high::<S>(q, g, 2, 1))
            }
            _ => high::<S>(q.add(VECTOR * (g / 4)), 2 * (g % 4), 0, 3),
        }
    }
}

/// Group `g`'s nibbles, which are half of those in vector `vector`.
#[inline(always)]
unsafe fn nibble<S: Isa>(q: *const u8, vector: usize, g: usize) -> S::B {
    // SAFETY: as in `group`.
    unsafe {
        let pair = S::load_b(q.add(VECTOR * vector));
        S::and_b(if g.is_multiple_of(2) { pair } else { S::shr_b(pair, 4) }, S::splat_b(15))
    }
}

/// The bits of `mask` from bit `from` on of each byte, moved to bit `to`.
#[inline(always)]
unsafe fn high<S: Isa>(q: *const u8, from: usize, to: usize, mask: u8) -> S::B {
    // SAFETY: as in `group`.
    unsafe {
        let plane = S::load_b(q);
        let moved = if from > to {
            S::shr_b(plane, (from - to) as u32)
        } else if from < to {
            S::shl_b(plane, (to - from) as u32)
        } else {
            plane
        };
        S::and_b(moved, S::splat_b(mask << to))
    }
}
