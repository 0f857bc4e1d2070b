//! One page of attention, and the join of two pages' shares.
//!
//! Scores are `scale · Σ_d q[d]·k[d]` by fused multiply-adds in order of `d`, and values
//! `Σ_pos p[pos]·v[pos]` in order of position. Many queries go through a page together, so that
//! an element is loaded and widened once for all of them; each one's arithmetic is as if alone.
mod eight;
mod product;

use super::act::capped;
use super::element::{Half, Single};
use super::lanes;
use super::math;
use crate::isa::Isa;
use crate::kv::{KvKind, MergeTask, PAGE, PageTask};
use product::{Matrix, Product};

/// Queries that go through a page together.
const BATCH: usize = 24;
/// Whole vectors of one number to a query.
const EACH: usize = BATCH.next_multiple_of(16);
/// From a vector's first lane to each.
const RAMP: [f32; 16] = {
    let (mut ramp, mut i) = ([0.0; 16], 0);
    while i < 16 {
        ramp[i] = i as f32;
        i += 1;
    }
    ramp
};
/// As many numbers to a query as a page has positions, twice: none of their vectors is in two lines
/// of the cache.
#[repr(align(64))]
struct Lines {
    _numbers: [[[f32; PAGE]; BATCH]; 2],
}

/// A query on a page.
#[derive(Clone, Copy)]
struct Query {
    at: *const f32,
    /// First and one past the last position that it sees.
    seen: (usize, usize),
    /// Which of these.
    mask: u64,
    /// The number of its share.
    share: usize,
    /// Whether that joins the share of the pages before.
    joins: bool,
}

impl Query {
    const NONE: Query =
        Query { at: std::ptr::null(), seen: (0, 0), mask: 0, share: 0, joins: false };

    /// Head `head` of the group's in row `row`.
    #[inline(always)]
    fn of(t: &PageTask<'_>, row: usize, head: usize) -> Query {
        Query {
            at: t.q[(row * t.heads + head) * t.head_dim..].as_ptr(),
            seen: t.sight.visible(row),
            mask: t.sight.mask(row),
            share: row * t.out.heads + head,
            joins: t.merge && !t.sight.first(row),
        }
    }
    /// Whether it sees any position.
    #[inline(always)]
    fn sees(&self) -> bool {
        self.seen.0 < self.seen.1
    }
    /// Overwrites what belongs to positions that it does not see; says whether there are any.
    #[inline(always)]
    fn hide(&self, x: &mut [f32], by: f32) -> bool {
        let Query { seen, mask, .. } = *self;
        if seen == (0, PAGE) && mask == u64::MAX {
            return false;
        }
        x[..seen.0].fill(by);
        x[seen.1..].fill(by);
        if mask != u64::MAX {
            let hidden = x.iter_mut().enumerate().filter(|(i, _)| mask >> i & 1 == 0);
            hidden.for_each(|(_, x)| *x = by);
        }
        true
    }
}

#[inline(always)]
pub(crate) unsafe fn page<S: Isa>(t: &PageTask<'_>) {
    if let Some(eight) = &t.eight {
        // SAFETY: the caller's promise.
        return unsafe { eight::page::<S>(t, eight) };
    }
    let (mut queries, mut count) = ([Query::NONE; BATCH], 0);
    for row in 0..t.rows {
        for head in 0..t.group {
            let query = Query::of(t, row, head);
            if query.sees() {
                queries[count] = query;
                count += 1;
            }
            let last = row + 1 == t.rows && head + 1 == t.group;
            if count == BATCH || last && count > 0 {
                // SAFETY: the caller's promise: the CPU has the set, pointers and shapes agree.
                unsafe { attend::<S>(t, &queries[..count]) };
                count = 0;
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn merge<S: Isa>(t: MergeTask<'_>) {
    let (mut stats, mut page) = (Stats::ZERO, Stats::ZERO);
    (stats.max[0], stats.sum[0]) = (t.stats[0], t.stats[1]);
    (page.max[0], page.sum[0]) = (t.page_stats[0], t.page_stats[1]);
    // SAFETY: the caller's promise.
    unsafe {
        let join = stats.join::<S>(&page, 1);
        (t.stats[0], t.stats[1]) = (stats.max[0], stats.sum[0]);
        put::<S>(t.values, t.page_values, Some(join.of(0)));
    }
}

/// The shares of some queries, counted through the group and then through the rows.
#[inline(always)]
unsafe fn attend<S: Isa>(t: &PageTask<'_>, queries: &[Query]) {
    let (first, last) = (queries[0].seen, queries[queries.len() - 1].seen);
    let stride = t.v_dim.next_multiple_of(16);
    let (of_keys, of_values) = (t.head_dim.div_ceil(PAGE), t.v_dim.div_ceil(PAGE));
    // SAFETY: the caller's promise; what is uninitialised is not read.
    unsafe {
        let mut scratch = std::mem::MaybeUninit::<Lines>::uninit();
        let weights = scratch.as_mut_ptr().cast::<f32>();
        // Channels of the queries, and later of the values.
        let part = weights.add(BATCH * PAGE);
        let (mut factors, mut join) = ([(0, 0); BATCH], Join::NONE);
        // A loop, so that there is one copy of the product: some channels of the keys at a time,
        // and then of the values.
        for chunk in 0..of_keys + of_values {
            let keys = chunk < of_keys;
            let (chunk, dim) = if keys { (chunk, t.head_dim) } else { (chunk - of_keys, t.v_dim) };
            let channel = chunk * PAGE;
            let channels = PAGE.min(dim - channel);
            let bytes = channel * t.kind.bytes();
            let product = if keys {
                for (i, query) in queries.iter().enumerate() {
                    let q = std::slice::from_raw_parts(query.at.add(channel), channels);
                    put::<S>(line(part, i, channels), q, None);
                    factors[i] = (0, channels);
                }
                let (data, next) = (t.keys.add(bytes * PAGE), t.values.wrapping_add(bytes * PAGE));
                let m = Matrix { data, stride: PAGE, next };
                let cols = first.0 / 16 * 16..last.1;
                Product { x: part, m, cols, out: weights, fresh: channel == 0 }
            } else {
                if channel == 0 {
                    join = weigh::<S>(t, queries, weights);
                    factors.iter_mut().zip(queries).for_each(|(k, query)| *k = query.seen);
                }
                let fresh = first.0 == last.0;
                if !fresh {
                    part.write_bytes(0, BATCH * PAGE);
                }
                let next = t.next.wrapping_add(bytes * PAGE);
                let m = Matrix { data: t.values.add(bytes), stride, next };
                Product { x: weights, m, cols: 0..channels, out: part, fresh }
            };
            match t.kind {
                KvKind::F16 => product.run::<S, Half>(&factors[..queries.len()]),
                _ => product.run::<S, Single>(&factors[..queries.len()]),
            }
            for (i, query) in queries.iter().enumerate().filter(|_| !keys) {
                let to = t.out.values.add(query.share * t.v_dim + channel);
                let to = std::slice::from_raw_parts_mut(to, channels);
                put::<S>(to, line(part, i, channels), query.joins.then_some(join.of(i)));
            }
        }
    }
}

/// The first `len` numbers of query `i`'s line.
#[inline(always)]
unsafe fn line<'a>(lines: *mut f32, i: usize, len: usize) -> &'a mut [f32] {
    // SAFETY: the caller's promise: the lines are there and nobody else's, and `len` at most PAGE.
    unsafe { std::slice::from_raw_parts_mut(lines.add(i * PAGE), len) }
}

/// Turns products of queries and keys to weights of positions, and joins their maxima and sums to
/// the earlier pages'.
#[inline(always)]
unsafe fn weigh<S: Isa>(t: &PageTask<'_>, queries: &[Query], weights: *mut f32) -> Join {
    let mut page = Stats::ZERO;
    // SAFETY: the caller's promise.
    unsafe {
        // All maxima and then all exponentials, so that one line's wait is hidden by the others.
        scores::<S>(t, queries, weights, &mut page);
        for (i, _) in seeing(queries) {
            let x = line(weights, i, PAGE);
            for at in (0..PAGE).step_by(S::LANES) {
                let x = x.as_mut_ptr().add(at);
                S::store(x, math::exp::<S>(S::sub(S::load(x), S::splat(page.max[i]))));
            }
            page.sum[i] = lanes::sum::<S>(x);
        }
        joins::<S>(t, queries, &page)
    }
}

/// Those that see any position.
#[inline(always)]
fn seeing(queries: &[Query]) -> impl Iterator<Item = (usize, &Query)> {
    queries.iter().enumerate().filter(|(_, query)| query.sees())
}

/// Turns products to scores, and finds their maxima.
#[inline(always)]
unsafe fn scores<S: Isa>(
    t: &PageTask<'_>,
    queries: &[Query],
    products: *mut f32,
    page: &mut Stats,
) {
    for (i, query) in seeing(queries) {
        // SAFETY: the caller's promise.
        page.max[i] = unsafe { score::<S>(t, query, line(products, i, PAGE)) };
    }
}

/// Joins a page's maxima and sums to the earlier pages'.
#[inline(always)]
unsafe fn joins<S: Isa>(t: &PageTask<'_>, queries: &[Query], page: &Stats) -> Join {
    let mut stats = Stats::ZERO;
    // SAFETY: the caller's promise.
    unsafe {
        for (i, query) in seeing(queries).filter(|(_, query)| query.joins) {
            let earlier = t.out.stats.add(2 * query.share);
            (stats.max[i], stats.sum[i]) = (*earlier, *earlier.add(1));
        }
        let join = stats.join::<S>(page, queries.len());
        for (i, query) in seeing(queries) {
            let of = if query.joins { &stats } else { page };
            let out = t.out.stats.add(2 * query.share);
            (*out, *out.add(1)) = (of.max[i], of.sum[i]);
        }
        join
    }
}

/// Turns a page's products to scores, minus infinity where they are not seen; returns the maximum.
#[inline(always)]
unsafe fn score<S: Isa>(t: &PageTask<'_>, query: &Query, x: &mut [f32]) -> f32 {
    // SAFETY: the caller's promise; a page is whole vectors.
    unsafe {
        let scale = match t.slopes {
            None => t.scale,
            Some(slopes) => {
                lean::<S>(t, slopes, query, x);
                1.0
            }
        };
        let mut largest = S::splat(f32::NEG_INFINITY);
        for at in (0..PAGE).step_by(S::LANES) {
            let x = x.as_mut_ptr().add(at);
            let mut score = S::mul(S::load(x), S::splat(scale));
            if let Some(cap) = t.softcap {
                score = capped::<S>(score, S::splat(cap));
            }
            S::store(x, score);
            largest = S::max(largest, score);
        }
        if query.hide(x, f32::NEG_INFINITY) {
            largest = S::splat(f32::NEG_INFINITY);
            for at in (0..PAGE).step_by(S::LANES) {
                largest = S::max(largest, S::load(x.as_ptr().add(at)));
            }
        }
        S::largest(largest)
    }
}

/// Scales a page's products and adds the query's slope times the distance to each position.
#[inline(always)]
unsafe fn lean<S: Isa>(t: &PageTask<'_>, slopes: &[f32], query: &Query, x: &mut [f32]) {
    let (row, head) = (query.share / t.out.heads, query.share % t.out.heads);
    let to_page = t.sight.page as f32 - (t.sight.pos + row) as f32;
    for at in (0..PAGE).step_by(S::LANES) {
        // SAFETY: the caller's promise; a page is whole vectors.
        unsafe {
            let x = x.as_mut_ptr().add(at);
            let distance = S::add(S::load(RAMP.as_ptr()), S::splat(to_page + at as f32));
            let score = S::mul(S::load(x), S::splat(t.scale));
            S::store(x, S::fma(S::splat(slopes[head]), distance, score));
        }
    }
}

/// Maxima and sums of exponentials.
struct Stats {
    max: [f32; EACH],
    sum: [f32; EACH],
}

/// What the values so far and the page's are multiplied by.
struct Join {
    earlier: [f32; EACH],
    page: [f32; EACH],
}

impl Join {
    const NONE: Join = Join { earlier: [0.0; EACH], page: [0.0; EACH] };

    #[inline(always)]
    fn of(&self, i: usize) -> (f32, f32) {
        (self.earlier[i], self.page[i])
    }
}

impl Stats {
    const ZERO: Stats = Stats { max: [0.0; EACH], sum: [0.0; EACH] };

    /// Joins the first `count` of a page.
    #[inline(always)]
    unsafe fn join<S: Isa>(&mut self, page: &Stats, count: usize) -> Join {
        let mut join = Join::NONE;
        for at in (0..count).step_by(S::LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                let load = lanes::load::<S>;
                let (earlier, later) = (load(&self.max, at, 0.0), load(&page.max, at, 0.0));
                let max = S::max(earlier, later);
                let a = math::exp::<S>(S::sub(earlier, max));
                let b = math::exp::<S>(S::sub(later, max));
                let sum = S::mul(load(&self.sum, at, 0.0), a);
                let sum = S::fma(load(&page.sum, at, 0.0), b, sum);
                lanes::store::<S>(&mut self.max, at, max);
                lanes::store::<S>(&mut self.sum, at, sum);
                lanes::store::<S>(&mut join.earlier, at, a);
                lanes::store::<S>(&mut join.page, at, b);
            }
        }
        join
    }
}

/// Joins a page's values to the earlier ones, or replaces these.
#[inline(always)]
unsafe fn put<S: Isa>(out: &mut [f32], page: &[f32], join: Option<(f32, f32)>) {
    let whole = out.len() / S::LANES * S::LANES;
    // SAFETY: the caller's promise; `page` is as long as `out`.
    unsafe {
        for at in (0..whole).step_by(S::LANES) {
            let (to, page) = (out.as_mut_ptr().add(at), S::load(page.as_ptr().add(at)));
            S::store(to, joined::<S>(page, join, S::load(to)));
        }
        if whole < out.len() {
            let page = lanes::load::<S>(page, whole, 0.0);
            let earlier = lanes::load::<S>(out, whole, 0.0);
            lanes::store::<S>(out, whole, joined::<S>(page, join, earlier));
        }
    }
}

/// A vector of values joined to the `earlier` pages', or itself where it replaces these.
#[inline(always)]
unsafe fn joined<S: Isa>(page: S::F, join: Option<(f32, f32)>, earlier: S::F) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        match join {
            None => page,
            Some((a, b)) => S::fma(page, S::splat(b), S::mul(earlier, S::splat(a))),
        }
    }
}
