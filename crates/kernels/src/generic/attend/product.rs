//! Products of a few lines with a page's keys or values, in tiles that registers hold.
//!
//! An element is loaded and widened once for all lines of a tile, and each line's sums are begun
//! and ended where they would be alone.
use crate::generic::element::Element;
use crate::generic::lanes;
use crate::isa::Isa;
use crate::kv::PAGE;
use std::ops::Range;

/// Rows of a page, `stride` elements apart, in whole vectors.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) data: *const u8,
    pub(super) stride: usize,
    /// What will be read next.
    pub(super) next: *const u8,
}

/// What will be read next, brought into the cache meanwhile: each step fetches as much of it as
/// it reads itself.
#[derive(Clone, Copy)]
struct Ahead {
    data: *const u8,
    /// Whether to go on through it, or to stay where it is cached.
    live: bool,
}

/// `out[c] = Σ_k x[k]·m[k][c]` in order of `k`, for lines of `x` and `out` that are as long as a
/// page.
#[derive(Clone)]
pub(super) struct Product {
    pub(super) x: *const f32,
    pub(super) m: Matrix,
    /// From a whole vector on.
    pub(super) cols: Range<usize>,
    pub(super) out: *mut f32,
    /// Whether it replaces what `out` holds, instead of being added.
    pub(super) fresh: bool,
}

impl Product {
    /// All lines, each of which has some factors: as many at a time as the registers hold, and not
    /// one alone if possible.
    #[inline(always)]
    pub(super) unsafe fn run<S: Isa, E: Element>(mut self, mut factors: &[(usize, usize)]) {
        let mut ahead = Ahead { data: self.m.next, live: true };
        while !factors.is_empty() {
            let lines;
            (lines, factors) = factors.split_at(together::<S>(factors.len()));
            // What all have goes together, what is before and after it line by line.
            let (first, last) = (lines[0], lines[lines.len() - 1]);
            let k = last.0..first.1.max(last.0);
            // SAFETY: the caller's promise.
            unsafe {
                if first.0 < k.start {
                    self.alone::<S, E>(lines, first.0..k.start);
                }
                match lines.len() {
                    24 if const { S::TILE == 8 } => self.columns::<S, E, 24>(&k, ahead),
                    12 if const { S::TILE == 8 } => self.columns::<S, E, 12>(&k, ahead),
                    8 if const { S::TILE == 8 } => self.columns::<S, E, 8>(&k, ahead),
                    6 if const { S::TILE > 1 } => self.columns::<S, E, 6>(&k, ahead),
                    4 if const { S::TILE > 1 } => self.columns::<S, E, 4>(&k, ahead),
                    3 if const { S::TILE > 1 } => self.columns::<S, E, 3>(&k, ahead),
                    2 if const { S::TILE > 1 } => self.columns::<S, E, 2>(&k, ahead),
                    _ => self.columns::<S, E, 1>(&k, ahead),
                }
                if k.end < last.1 {
                    self.alone::<S, E>(lines, k.end..last.1);
                }
                self.x = self.x.add(lines.len() * PAGE);
                self.out = self.out.add(lines.len() * PAGE);
            }
            ahead.live = false;
        }
    }

    /// Adds what each line has of `k`.
    #[inline(always)]
    unsafe fn alone<S: Isa, E: Element>(&self, lines: &[(usize, usize)], k: Range<usize>) {
        let mut one = Product { fresh: false, ..self.clone() };
        let mut ahead = Ahead { data: self.m.next, live: false };
        for line in lines {
            let k = k.start.max(line.0)..k.end.min(line.1);
            // SAFETY: the caller's promise.
            unsafe {
                for at in self.cols.clone().step_by(S::LANES) {
                    one.tile::<S, E, 1, 1>(&k, at, &mut ahead);
                }
                one.x = one.x.add(PAGE);
                one.out = one.out.add(PAGE);
            }
        }
    }

    /// All columns of the first `Q` lines. The fewer the lines, the more vectors go together: that
    /// hides the latency of the fused multiply-add.
    #[inline(always)]
    unsafe fn columns<S: Isa, E: Element, const Q: usize>(&self, k: &Range<usize>, ahead: Ahead) {
        let (mut at, mut ahead) = (self.cols.start, ahead);
        let left = |at| self.cols.end.saturating_sub(at).div_ceil(S::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            while const { S::TILE > 1 && Q == 1 } && left(at) >= 8 {
                at += self.tile::<S, E, Q, 8>(k, at, &mut ahead);
            }
            while const { S::TILE > 1 && Q <= 2 } && left(at) >= 4 {
                at += self.tile::<S, E, Q, 4>(k, at, &mut ahead);
            }
            while const { S::TILE > 1 && Q == 3 } && left(at) >= 3 {
                at += self.tile::<S, E, Q, 3>(k, at, &mut ahead);
            }
            while const { S::TILE > 1 && Q <= 12 } && left(at) >= 2 {
                at += self.tile::<S, E, Q, 2>(k, at, &mut ahead);
            }
            while left(at) >= 1 {
                at += self.tile::<S, E, Q, 1>(k, at, &mut ahead);
            }
        }
    }

    /// `V` vectors from column `at` on of the first `Q` lines; returns the number of columns.
    #[inline(always)]
    unsafe fn tile<S: Isa, E: Element, const Q: usize, const V: usize>(
        &self,
        k: &Range<usize>,
        at: usize,
        ahead: &mut Ahead,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let step = usize::from(ahead.live) * V * S::LANES * E::BYTES;
            let (x, out) = (self.x, self.out.add(at));
            let mut sum = [[S::splat(0.0); V]; Q];
            if !self.fresh {
                for (i, sum) in sum.iter_mut().enumerate() {
                    for (v, sum) in sum.iter_mut().enumerate() {
                        *sum = S::load(out.add(i * PAGE + v * S::LANES));
                    }
                }
            }
            for k in k.clone() {
                for line in (0..const { V * S::LANES * E::BYTES }).step_by(64) {
                    lanes::prefetch(ahead.data.wrapping_add(line));
                }
                ahead.data = ahead.data.wrapping_add(step);
                let mut row = [S::splat(0.0); V];
                for (v, row) in row.iter_mut().enumerate() {
                    *row = E::load::<S>(self.m.data, k * self.m.stride + at + v * S::LANES);
                }
                for (i, sum) in sum.iter_mut().enumerate() {
                    let x = S::splat(*x.add(i * PAGE + k));
                    for (sum, &row) in sum.iter_mut().zip(&row) {
                        *sum = S::fma(x, row, *sum);
                    }
                }
            }
            for (i, sum) in sum.iter().enumerate() {
                for (v, &sum) in sum.iter().enumerate() {
                    S::store(out.add(i * PAGE + v * S::LANES), sum);
                }
            }
        }
        V * S::LANES
    }
}

/// How many of some lines go together.
#[inline(always)]
fn together<S: Isa>(lines: usize) -> usize {
    match lines {
        _ if S::TILE == 1 => 1,
        24.. if S::TILE == 8 => 24,
        12..24 if S::TILE == 8 => 12,
        8..12 if S::TILE == 8 => 8,
        1 => 1,
        2 => 2,
        3 | 5 => 3,
        4 | 7 | 8 => 4,
        _ => 6,
    }
}
