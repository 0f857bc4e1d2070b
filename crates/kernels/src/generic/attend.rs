//! One page of attention, and the join of two pages' shares.
//!
//! Scores are `scale · Σ_d q[d]·k[d]` by fused multiply-adds in order of `d`, and values
//! `Σ_pos p[pos]·v[pos]` in order of position. A few queries go through a page together, so that
//! an element is loaded and widened once for all of them; each one's arithmetic is as if alone.
use super::act::capped;
use super::lanes::{self, Sixteen};
use super::math;
use crate::isa::Isa;
use crate::kv::{KvKind, MergeTask, PAGE, PageTask};

#[inline(always)]
pub(crate) unsafe fn page<S: Isa>(t: &PageTask<'_>) {
    // SAFETY: the caller's promise: the CPU has the set, pointers and shapes agree.
    unsafe {
        match t.kind {
            KvKind::F16 => queries::<S, Half>(t),
            KvKind::F32 => queries::<S, Single>(t),
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn merge<S: Isa>(t: MergeTask<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let join = join::<S, 1>([Some(&mut *t.stats)], [(t.page_stats[0], t.page_stats[1])]);
        for at in (0..t.values.len()).step_by(S::LANES) {
            let page = lanes::load::<S>(t.page_values, at, 0.0);
            put::<S>(t.values, at, page, join[0]);
        }
    }
}

/// How an element of a page is stored.
trait Element {
    /// Lanes from element `i` on.
    unsafe fn load<S: Isa>(p: *const u8, i: usize) -> S::F;
}
struct Half;
struct Single;

impl Element for Half {
    #[inline(always)]
    unsafe fn load<S: Isa>(p: *const u8, i: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_f16(p.cast::<u16>().add(i)) }
    }
}
impl Element for Single {
    #[inline(always)]
    unsafe fn load<S: Isa>(p: *const u8, i: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load(p.cast::<f32>().add(i)) }
    }
}

/// All queries of the task that see something of the page, up to three at a time.
#[inline(always)]
unsafe fn queries<S: Isa, E: Element>(t: &PageTask<'_>) {
    let sees = |row: &usize| {
        let (start, end) = t.sight.visible(*row);
        start < end
    };
    let first = (0..t.rows).find(sees).unwrap_or(t.rows);
    let end = first + (first..t.rows).take_while(sees).count();
    let (mut at, end) = (first * t.group, end * t.group);
    while at < end {
        // SAFETY: the caller's promise.
        at += unsafe {
            match end - at {
                1 => tile::<S, E, 1>(t, at),
                2 | 4 => tile::<S, E, 2>(t, at),
                _ => tile::<S, E, 3>(t, at),
            }
        };
    }
}

/// One query's place.
#[derive(Clone, Copy)]
struct Query {
    q: *const f32,
    start: usize,
    end: usize,
    /// Whether it has a share of earlier pages to join.
    joins: bool,
    stats: *mut f32,
    values: *mut f32,
}

impl Query {
    /// Query `i` of the task, counted through the group and then through the rows.
    #[inline(always)]
    unsafe fn new(t: &PageTask<'_>, i: usize) -> Query {
        let (row, head) = (i / t.group, i % t.group);
        let (start, end) = t.sight.visible(row);
        let share = row * t.out.heads + head;
        // SAFETY: the caller's promise.
        unsafe {
            Query {
                q: t.q.as_ptr().add((row * t.heads + head) * t.head_dim),
                start,
                end,
                joins: t.merge && !t.sight.first(row),
                stats: t.out.stats.add(2 * share),
                values: t.out.values.add(share * t.head_dim),
            }
        }
    }
}

/// Weights of the page's positions, one line a query.
type Weights<const Q: usize> = [[f32; PAGE]; Q];

/// `Q` queries from query `at` on; returns `Q`.
#[inline(always)]
unsafe fn tile<S: Isa, E: Element, const Q: usize>(t: &PageTask<'_>, at: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let queries: [Query; Q] = std::array::from_fn(|i| Query::new(t, at + i));
        let mut weights = [[f32::NEG_INFINITY; PAGE]; Q];
        scores::<S, E, Q>(t, &queries, &mut weights);
        let mut shares = [(0.0, 0.0); Q];
        for ((share, query), weights) in shares.iter_mut().zip(&queries).zip(&mut weights) {
            *share = softmax::<S>(weights, query.start, query.end);
        }
        let earlier = queries
            .map(|query| query.joins.then(|| std::slice::from_raw_parts_mut(query.stats, 2)));
        let joins = join::<S, Q>(earlier, shares);
        for (query, share) in queries.iter().zip(shares).filter(|(query, _)| !query.joins) {
            query.stats.write(share.0);
            query.stats.add(1).write(share.1);
        }
        values::<S, E, Q>(t, &queries, &weights, &joins);
    }
    Q
}

/// Scores of the positions that any of the queries sees, and of some beside them.
#[inline(always)]
unsafe fn scores<S: Isa, E: Element, const Q: usize>(
    t: &PageTask<'_>,
    queries: &[Query; Q],
    scores: &mut Weights<Q>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        // One query alone needs more vectors to hide the latency of the fused multiply-add.
        if Q == 1 && S::LANES <= 8 {
            score_blocks::<S, E, Q, 8>(t, queries, scores);
        } else {
            score_blocks::<S, E, Q, 4>(t, queries, scores);
        }
    }
}

/// [`scores`], `V` vectors of positions at a time.
#[inline(always)]
unsafe fn score_blocks<S: Isa, E: Element, const Q: usize, const V: usize>(
    t: &PageTask<'_>,
    queries: &[Query; Q],
    scores: &mut Weights<Q>,
) {
    let block = V * S::LANES;
    let start = queries.iter().map(|q| q.start).min().unwrap_or(0);
    let end = queries.iter().map(|q| q.end).max().unwrap_or(0);
    for at in (start / block * block..end).step_by(block) {
        // SAFETY: the caller's promise; a page is a whole number of blocks.
        unsafe {
            let mut sum = [[S::splat(0.0); V]; Q];
            for d in 0..t.head_dim {
                let k: [S::F; V] =
                    std::array::from_fn(|v| E::load::<S>(t.keys, d * PAGE + at + v * S::LANES));
                for (sum, query) in sum.iter_mut().zip(queries) {
                    let q = S::splat(*query.q.add(d));
                    for (sum, &k) in sum.iter_mut().zip(&k) {
                        *sum = S::fma(q, k, *sum);
                    }
                }
            }
            for (sum, scores) in sum.iter().zip(&mut *scores) {
                for (v, &sum) in sum.iter().enumerate() {
                    let score = S::mul(sum, S::splat(t.scale));
                    let score = t.softcap.map_or(score, |cap| capped::<S>(score, S::splat(cap)));
                    S::store(scores.as_mut_ptr().add(at + v * S::LANES), score);
                }
            }
        }
    }
}

/// Turns the scores `start..end` to `e^(score - max)`, and those around them to zero; returns the
/// maximum and the sum.
#[inline(always)]
unsafe fn softmax<S: Isa>(weights: &mut [f32; PAGE], start: usize, end: usize) -> (f32, f32) {
    // SAFETY: the caller's promise; sixteens are whole vectors.
    unsafe {
        let sixteens = start / 16 * 16..end.next_multiple_of(16);
        weights[sixteens.start..start].fill(f32::NEG_INFINITY);
        weights[end..sixteens.end].fill(f32::NEG_INFINITY);
        let weights = &mut weights[sixteens];
        let max = Sixteen::<S>::splat(f32::NEG_INFINITY)
            .gather(weights, 0.0, |a, x| S::max(a, x))
            .join(lanes::max);
        for vector in weights.chunks_exact_mut(S::LANES) {
            let x = S::sub(S::load(vector.as_ptr()), S::splat(max));
            S::store(vector.as_mut_ptr(), math::exp::<S>(x));
        }
        let sum =
            Sixteen::<S>::splat(0.0).gather(weights, 0.0, |a, x| S::add(a, x)).join(|a, b| a + b);
        (max, sum)
    }
}

/// What the values so far and the page's are multiplied by.
type Join = Option<(f32, f32)>;

/// Joins maxima and sums of pages to the earlier ones, where there are any.
#[inline(always)]
unsafe fn join<S: Isa, const Q: usize>(
    earlier: [Option<&mut [f32]>; Q],
    pages: [(f32, f32); Q],
) -> [Join; Q] {
    let mut powers = [0.0; 16];
    let mut maxima = [0.0; Q];
    for (i, (earlier, page)) in earlier.iter().zip(pages).enumerate() {
        let Some(earlier) = earlier else { continue };
        maxima[i] = lanes::max(earlier[0], page.0);
        powers[2 * i] = earlier[0] - maxima[i];
        powers[2 * i + 1] = page.0 - maxima[i];
    }
    for at in (0..2 * Q).step_by(S::LANES) {
        // SAFETY: the caller's promise; up to eight powers are filled up to 16.
        unsafe {
            let x = S::load(powers.as_ptr().add(at));
            S::store(powers.as_mut_ptr().add(at), math::exp::<S>(x));
        }
    }
    let mut i = 0;
    earlier.map(|earlier| {
        let (a, b, page, max) = (powers[2 * i], powers[2 * i + 1], pages[i], maxima[i]);
        i += 1;
        let earlier = earlier?;
        earlier[0] = max;
        earlier[1] = page.1.mul_add(b, earlier[1] * a);
        Some((a, b))
    })
}

/// Values weighted by the queries' weights.
#[inline(always)]
unsafe fn values<S: Isa, E: Element, const Q: usize>(
    t: &PageTask<'_>,
    queries: &[Query; Q],
    weights: &Weights<Q>,
    joins: &[Join; Q],
) {
    let vectors = t.head_dim.div_ceil(S::LANES);
    let mut at = 0;
    while at < vectors {
        let channel = at * S::LANES;
        // SAFETY: the caller's promise; a row of values is filled up to whole vectors.
        at += unsafe {
            match vectors - at {
                8.. if Q == 1 => mix::<S, E, Q, 8>(t, queries, weights, joins, channel),
                4.. => mix::<S, E, Q, 4>(t, queries, weights, joins, channel),
                2.. => mix::<S, E, Q, 2>(t, queries, weights, joins, channel),
                _ => mix::<S, E, Q, 1>(t, queries, weights, joins, channel),
            }
        };
    }
}

/// [`values`] of `V` vectors of channels; returns `V`.
#[inline(always)]
unsafe fn mix<S: Isa, E: Element, const Q: usize, const V: usize>(
    t: &PageTask<'_>,
    queries: &[Query; Q],
    weights: &Weights<Q>,
    joins: &[Join; Q],
    channel: usize,
) -> usize {
    let stride = t.head_dim.next_multiple_of(16);
    // What all see goes through together; the rest, before and after it, one by one.
    let start = queries.iter().map(|q| q.start).max().unwrap_or(0);
    let end = queries.iter().map(|q| q.end).min().unwrap_or(0);
    let (start, end) = if start < end { (start, end) } else { (PAGE, PAGE) };
    // SAFETY: the caller's promise.
    unsafe {
        let load = |pos: usize| -> [S::F; V] {
            std::array::from_fn(|v| E::load::<S>(t.values, pos * stride + channel + v * S::LANES))
        };
        let add = |sum: &mut [S::F; V], weight: f32, values: &[S::F; V]| {
            for (sum, &value) in sum.iter_mut().zip(values) {
                *sum = S::fma(S::splat(weight), value, *sum);
            }
        };
        let mut sum = [[S::splat(0.0); V]; Q];
        for ((sum, weights), query) in sum.iter_mut().zip(weights).zip(queries) {
            let before = query.start..query.end.min(start);
            before.for_each(|pos| add(sum, weights[pos], &load(pos)));
        }
        for pos in start..end {
            let values = load(pos);
            for (sum, weights) in sum.iter_mut().zip(weights) {
                add(sum, weights[pos], &values);
            }
        }
        for ((sum, weights), query) in sum.iter_mut().zip(weights).zip(queries) {
            let after = end.max(query.start)..query.end;
            after.for_each(|pos| add(sum, weights[pos], &load(pos)));
        }
        for ((sum, query), join) in sum.iter().zip(queries).zip(joins) {
            let out = std::slice::from_raw_parts_mut(query.values, t.head_dim);
            for (v, &sum) in sum.iter().enumerate() {
                put::<S>(out, channel + v * S::LANES, sum, *join);
            }
        }
    }
    V
}

/// Joins a vector of values to the earlier pages' in `out`, or replaces what is there.
#[inline(always)]
unsafe fn put<S: Isa>(out: &mut [f32], at: usize, page: S::F, join: Join) {
    // SAFETY: the caller's promise.
    unsafe {
        let value = match join {
            None => page,
            Some((a, b)) => {
                let earlier = S::mul(lanes::load::<S>(out, at, 0.0), S::splat(a));
                S::fma(page, S::splat(b), earlier)
            }
        };
        lanes::store::<S>(out, at, value);
    }
}
