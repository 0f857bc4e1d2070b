//! One page of attention, and the join of two pages' shares.
//!
//! Scores are `scale · Σ_d q[d]·k[d]` by fused multiply-adds in order of `d`, and values
//! `Σ_pos p[pos]·v[pos]` in order of position. A few queries go through a page together, so that
//! an element is loaded and widened once for all of them; each one's arithmetic is as if alone.
use super::act::capped;
use super::element::{Element, Half, Single};
use super::lanes;
use super::math;
use crate::isa::Isa;
use crate::kv::{KvKind, MergeTask, PAGE, PageTask};
use std::ops::Range;

/// Queries whose weights are held at a time.
const BATCH: usize = 24;

#[inline(always)]
pub(crate) unsafe fn page<S: Isa>(t: &PageTask<'_>) {
    let mut row = 0;
    while row < t.rows {
        // Rows that see the same positions go together.
        let seen = t.sight.visible(row);
        let alike = (row..t.rows).take_while(|&row| t.sight.visible(row) == seen).count();
        let (mut query, end) = (row * t.group, (row + alike) * t.group);
        while query < end && seen.0 < seen.1 {
            let batch = query..end.min(query + BATCH);
            query = batch.end;
            // SAFETY: the caller's promise: the CPU has the set, pointers and shapes agree.
            unsafe { attend::<S>(t, batch, seen.0..seen.1) };
        }
        row += alike;
    }
}

#[inline(always)]
pub(crate) unsafe fn merge<S: Isa>(t: MergeTask<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let join = join::<S>(t.stats, (t.page_stats[0], t.page_stats[1]));
        for at in (0..t.values.len()).step_by(S::LANES) {
            let page = lanes::load::<S>(t.page_values, at, 0.0);
            put::<S>(t.values, at, page, Some(join));
        }
    }
}

/// What the values so far and the page's are multiplied by.
type Join = (f32, f32);

/// One query's line of a product of matrices.
#[derive(Clone, Copy)]
struct Line {
    x: *const f32,
    out: *mut f32,
    /// How the product joins what `out` holds, or none where it replaces that.
    join: Option<Join>,
}

/// The shares of some queries, counted through the group and then through the rows, which all see
/// the same positions.
#[inline(always)]
unsafe fn attend<S: Isa>(t: &PageTask<'_>, queries: Range<usize>, seen: Range<usize>) {
    let sixteens = seen.start / 16 * 16..seen.end.next_multiple_of(16);
    // SAFETY: the caller's promise; what is uninitialised is not read.
    unsafe {
        let mut weights = std::mem::MaybeUninit::<[[f32; PAGE]; BATCH]>::uninit();
        let weights = weights.as_mut_ptr().cast::<f32>();
        weights.write_bytes(0, queries.len() * PAGE);
        let mut lines = [Line { x: t.q.as_ptr(), out: weights, join: None }; BATCH];
        let lines = &mut lines[..queries.len()];
        for (i, (line, query)) in lines.iter_mut().zip(queries.clone()).enumerate() {
            let head = query / t.group * t.heads + query % t.group;
            (line.x, line.out) = (t.q.as_ptr().add(head * t.head_dim), weights.add(i * PAGE));
        }
        let keys = Matrix { data: t.keys, stride: PAGE, cols: PAGE, next: t.values };
        let stride = t.head_dim.next_multiple_of(16);
        let values = Matrix { data: t.values, stride, cols: t.head_dim, next: t.next };
        // A loop, so that there is one copy of the product.
        for m in [keys, values] {
            let (k, cols) = if m.data == t.keys {
                (0..t.head_dim, sixteens.clone())
            } else {
                weigh::<S>(t, lines, &queries, &sixteens, &seen);
                (seen.clone(), 0..t.head_dim)
            };
            match t.kind {
                KvKind::F16 => multiply::<S, Half>(lines, &m, k, cols),
                KvKind::F32 => multiply::<S, Single>(lines, &m, k, cols),
            }
        }
    }
}

/// Turns the products of queries and keys, which the lines' `out` are, to weights of positions,
/// joins their maxima and sums to the earlier pages', and sets the lines up for the values.
#[inline(always)]
unsafe fn weigh<S: Isa>(
    t: &PageTask<'_>,
    lines: &mut [Line],
    queries: &Range<usize>,
    sixteens: &Range<usize>,
    seen: &Range<usize>,
) {
    for (line, query) in lines.iter_mut().zip(queries.clone()) {
        // SAFETY: the caller's promise.
        unsafe {
            let weights = std::slice::from_raw_parts_mut(line.out, PAGE);
            let page = softmax::<S>(t, &mut weights[sixteens.clone()], sixteens.start, seen);
            let (row, head) = (query / t.group, query % t.group);
            let share = row * t.out.heads + head;
            let stats = std::slice::from_raw_parts_mut(t.out.stats.add(2 * share), 2);
            if t.merge && !t.sight.first(row) {
                line.join = Some(join::<S>(stats, page));
            } else {
                (stats[0], stats[1]) = page;
            }
            (line.x, line.out) = (line.out, t.out.values.add(share * t.head_dim));
        }
    }
}

/// Turns products to scores and these to `e^(score - max)`, zero where they are not seen; returns
/// the maximum and the sum. `x` begins at position `start`; both ends are whole sixteens.
#[inline(always)]
unsafe fn softmax<S: Isa>(
    t: &PageTask<'_>,
    x: &mut [f32],
    start: usize,
    seen: &Range<usize>,
) -> (f32, f32) {
    // SAFETY: the caller's promise; sixteens are whole vectors.
    unsafe {
        for at in (0..x.len()).step_by(S::LANES) {
            let x = x.as_mut_ptr().add(at);
            let mut score = S::mul(S::load(x), S::splat(t.scale));
            if let Some(cap) = t.softcap {
                score = capped::<S>(score, S::splat(cap));
            }
            S::store(x, score);
        }
        x[..seen.start - start].fill(f32::NEG_INFINITY);
        x[seen.end - start..].fill(f32::NEG_INFINITY);
        let mut largest = S::splat(f32::NEG_INFINITY);
        for at in (0..x.len()).step_by(S::LANES) {
            largest = S::max(largest, S::load(x.as_ptr().add(at)));
        }
        let max = S::largest(largest);
        for at in (0..x.len()).step_by(S::LANES) {
            let x = x.as_mut_ptr().add(at);
            S::store(x, math::exp::<S>(S::sub(S::load(x), S::splat(max))));
        }
        (max, lanes::sum::<S>(x))
    }
}

/// Joins a page's maximum and sum to the earlier ones.
#[inline(always)]
unsafe fn join<S: Isa>(stats: &mut [f32], page: (f32, f32)) -> Join {
    let max = lanes::max(stats[0], page.0);
    let mut x = [0.0; 16];
    (x[0], x[1]) = (stats[0] - max, page.0 - max);
    // SAFETY: the caller's promise.
    unsafe { S::store(x.as_mut_ptr(), math::exp::<S>(S::load(x.as_ptr()))) };
    let (a, b) = (x[0], x[1]);
    stats[0] = max;
    stats[1] = page.1.mul_add(b, stats[1] * a);
    (a, b)
}

/// Rows of a page, `stride` elements apart; reading on to whole vectors after `cols` is allowed.
struct Matrix {
    data: *const u8,
    stride: usize,
    cols: usize,
    /// What will be read next.
    next: *const u8,
}

/// What will be read next, brought into the cache meanwhile: each step fetches as much of it as
/// it reads itself.
#[derive(Clone, Copy)]
struct Ahead {
    data: *const u8,
    /// Whether to go on through it, or to stay where it is cached.
    live: bool,
}

/// Each line's `out[c] = Σ_k x[k]·m[k][c]` in order of `k`, for the columns `cols` from a whole
/// vector on: as many lines at a time as the registers hold, and not one alone if possible.
#[inline(always)]
unsafe fn multiply<S: Isa, E: Element>(
    mut lines: &[Line],
    m: &Matrix,
    k: Range<usize>,
    cols: Range<usize>,
) {
    let mut ahead = Ahead { data: m.next, live: true };
    while !lines.is_empty() {
        let (k, cols) = (k.clone(), cols.clone());
        // SAFETY: the caller's promise.
        let done = unsafe {
            if const { S::TILE == 1 } {
                columns::<S, E, 1>(lines, m, k, cols, ahead)
            } else {
                match lines.len() {
                    12.. if const { S::TILE == 8 } => columns::<S, E, 12>(lines, m, k, cols, ahead),
                    8..12 if const { S::TILE == 8 } => columns::<S, E, 8>(lines, m, k, cols, ahead),
                    1 => columns::<S, E, 1>(lines, m, k, cols, ahead),
                    2 => columns::<S, E, 2>(lines, m, k, cols, ahead),
                    3 | 5 => columns::<S, E, 3>(lines, m, k, cols, ahead),
                    4 | 7 | 8 => columns::<S, E, 4>(lines, m, k, cols, ahead),
                    _ => columns::<S, E, 6>(lines, m, k, cols, ahead),
                }
            }
        };
        lines = &lines[done..];
        ahead.live = false;
    }
}

/// All columns of the first `Q` lines; returns `Q`. The fewer the lines, the more vectors go
/// together: that hides the latency of the fused multiply-add.
#[inline(always)]
unsafe fn columns<S: Isa, E: Element, const Q: usize>(
    lines: &[Line],
    m: &Matrix,
    k: Range<usize>,
    cols: Range<usize>,
    mut ahead: Ahead,
) -> usize {
    let mut at = cols.start;
    let left = |at| cols.end.saturating_sub(at).div_ceil(S::LANES);
    // SAFETY: the caller's promise.
    unsafe {
        while const { S::TILE > 1 && Q == 1 } && left(at) >= 8 {
            at += tile::<S, E, Q, 8>(lines, m, k.clone(), at, &mut ahead);
        }
        while const { S::TILE > 1 && Q <= 2 } && left(at) >= 4 {
            at += tile::<S, E, Q, 4>(lines, m, k.clone(), at, &mut ahead);
        }
        while const { S::TILE > 1 && Q == 3 } && left(at) >= 3 {
            at += tile::<S, E, Q, 3>(lines, m, k.clone(), at, &mut ahead);
        }
        while const { S::TILE > 1 } && left(at) >= 2 {
            at += tile::<S, E, Q, 2>(lines, m, k.clone(), at, &mut ahead);
        }
        while left(at) >= 1 {
            at += tile::<S, E, Q, 1>(lines, m, k.clone(), at, &mut ahead);
        }
    }
    Q
}

/// `V` vectors from column `at` on of the first `Q` lines; returns the number of columns.
#[inline(always)]
unsafe fn tile<S: Isa, E: Element, const Q: usize, const V: usize>(
    lines: &[Line],
    m: &Matrix,
    k: Range<usize>,
    at: usize,
    ahead: &mut Ahead,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let mut fetch = ahead.data;
        let step = usize::from(ahead.live) * V * S::LANES * E::BYTES;
        let mut sum = [[S::splat(0.0); V]; Q];
        let mut x = [lines[0].x; Q];
        for (x, line) in x.iter_mut().zip(lines) {
            *x = line.x;
        }
        for k in k {
            for line in (0..const { V * S::LANES * E::BYTES }).step_by(64) {
                lanes::prefetch(fetch.wrapping_add(line));
            }
            fetch = fetch.wrapping_add(step);
            let mut row = [S::splat(0.0); V];
            for (v, row) in row.iter_mut().enumerate() {
                *row = E::load::<S>(m.data, k * m.stride + at + v * S::LANES);
            }
            for (sum, x) in sum.iter_mut().zip(x) {
                let x = S::splat(*x.add(k));
                for (sum, &row) in sum.iter_mut().zip(&row) {
                    *sum = S::fma(x, row, *sum);
                }
            }
        }
        ahead.data = fetch;
        // Through memory, so that there is one copy of what follows.
        let sums = sum;
        for (sums, line) in sums.iter().zip(lines) {
            for (v, &sum) in sums.iter().enumerate() {
                let at = at + v * S::LANES;
                if at + S::LANES <= m.cols {
                    let out = line.out.add(at);
                    S::store(out, joined::<S>(sum, line.join, S::load(out)));
                } else {
                    let out = std::slice::from_raw_parts_mut(line.out, m.cols);
                    put::<S>(out, at, sum, line.join);
                }
            }
        }
    }
    V * S::LANES
}

/// A vector of values joined to the `earlier` pages', or itself where it replaces these.
#[inline(always)]
unsafe fn joined<S: Isa>(page: S::F, join: Option<Join>, earlier: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        match join {
            None => page,
            Some((a, b)) => S::fma(page, S::splat(b), S::mul(earlier, S::splat(a))),
        }
    }
}

/// Joins what there is of a vector from `at` on to `out`.
#[inline(always)]
unsafe fn put<S: Isa>(out: &mut [f32], at: usize, page: S::F, join: Option<Join>) {
    // SAFETY: the caller's promise.
    unsafe {
        let earlier = lanes::load::<S>(out, at, 0.0);
        lanes::store::<S>(out, at, joined::<S>(page, join, earlier));
    }
}
