//! Attention over a page of 8 bits: both products are the weights', in whole numbers.
//!
//! A position's weight times the scale of its value is brought to 8 bits with one scale for the page,
//! of those positions that the query sees alone.
use super::{BATCH, EACH, Join, Lines, Query, Stats, joins, line, put, scores, seeing};
use crate::act::{ActRows, BLOCK, Block, QuantRow};
use crate::generic::{act, lanes, math};
use crate::isa::Isa;
use crate::kv::eight::Head;
use crate::kv::{Eight, KvShape, PAGE, PageTask};
use crate::layout::{Layout, PANEL, Panels};
use crate::mat::{Lent, MatmulTask, Shared, Store};
use std::slice::from_raw_parts;

/// Of a query's weights, to a page.
const BLOCKS: usize = PAGE / BLOCK;

#[inline(always)]
pub(super) unsafe fn page<S: Isa>(t: &PageTask<'_>, eight: &Eight<'_>) {
    let all = t.rows * t.group;
    for from in (0..all).step_by(BATCH) {
        let count = BATCH.min(all - from);
        let mut queries = [Query::NONE; BATCH];
        for (i, query) in queries[..count].iter_mut().enumerate() {
            *query = Query::of(t, (from + i) / t.group, (from + i) % t.group);
        }
        if queries[..count].iter().any(Query::sees) {
            let rows = eight.queries.some(from..from + count);
            // SAFETY: the caller's promise: the CPU has the set, pointers and shapes agree.
            unsafe { attend::<S>(t, eight, rows, &queries[..count]) };
        }
    }
}

/// The shares of some queries, whose 8-bit forms are `rows`.
#[inline(always)]
unsafe fn attend<S: Isa>(
    t: &PageTask<'_>,
    eight: &Eight<'_>,
    rows: ActRows<'_>,
    queries: &[Query],
) {
    let (heads, k_dim, v_dim) = (1, t.head_dim, t.v_dim);
    let head = Head::of(KvShape { heads, k_dim, v_dim });
    // SAFETY: the caller's promise; what is uninitialised is not read.
    unsafe {
        let (keys, values) =
            (from_raw_parts(t.keys, head.keys()), from_raw_parts(t.values, head.values()));
        let scales = from_raw_parts(t.values.add(head.values()).cast::<f32>(), PAGE);
        let mut scratch = std::mem::MaybeUninit::<Lines>::uninit();
        let weights = scratch.as_mut_ptr().cast::<f32>();
        let part = weights.add(BATCH * PAGE);
        let task = |weights, input, first, out| MatmulTask {
            weights,
            input,
            bias: None,
            store: Store::Set,
            first,
            out: Shared::over(out, queries.len(), PAGE),
        };
        fetch(t.values, head.values());
        let keys = Panels::new(Layout::W8, PAGE, head.key_inputs(), keys);
        (eight.product)(&task(keys, rows, 0, weights), 0..PAGE / PANEL);
        let (join, most) = weigh::<S>(t, queries, weights, scales.as_ptr());
        let mut blocks = std::mem::MaybeUninit::<[Block; BLOCKS * BATCH]>::uninit();
        let blocks = std::slice::from_raw_parts_mut(
            blocks.as_mut_ptr().cast::<Block>(),
            BLOCKS * queries.len(),
        );
        let lent = Lent::new(blocks);
        let (scale, inverse) = most.scales::<S>();
        for i in 0..queries.len() {
            let x = line(weights, i, PAGE);
            let out = QuantRow::of(&lent, (S::TILE, queries.len(), i), BLOCKS);
            act::quantise_by::<S>(x, (scale[i], inverse[i]), out);
        }
        fetch(t.next, head.keys());
        let values = Panels::new(Layout::W8, v_dim, PAGE, values);
        let weighted = ActRows::of_blocks(blocks, queries.len(), PAGE);
        for channel in (0..v_dim).step_by(PAGE) {
            let channels = PAGE.min(v_dim - channel);
            let panels = channel / PANEL..(channel + channels).div_ceil(PANEL);
            (eight.product)(&task(values, weighted, channel, part), panels);
            for (i, query) in seeing(queries) {
                let to = t.out.values.add(query.share * v_dim + channel);
                let to = std::slice::from_raw_parts_mut(to, channels);
                put::<S>(to, line(part, i, channels), query.joins.then_some(join.of(i)));
            }
        }
    }
}

/// Turns products of queries and keys to weights of positions times `scales`, whose largest it finds;
/// joins maxima and sums of the weights to the earlier pages'.
#[inline(always)]
unsafe fn weigh<S: Isa>(
    t: &PageTask<'_>,
    queries: &[Query],
    weights: *mut f32,
    scales: *const f32,
) -> (Join, Most) {
    let (mut page, mut most) = (Stats::ZERO, Most([0.0; EACH]));
    // SAFETY: the caller's promise.
    unsafe {
        scores::<S>(t, queries, weights, &mut page);
        for (i, query) in seeing(queries) {
            let x = line(weights, i, PAGE);
            let (mut sums, mut largest) = ([S::splat(0.0); 4], S::splat(0.0));
            for at in (0..PAGE).step_by(S::LANES) {
                let (x, scale) = (x.as_mut_ptr().add(at), S::load(scales.add(at)));
                let weight = math::exp::<S>(S::sub(S::load(x), S::splat(page.max[i])));
                let sum = &mut sums[at % 16 / S::LANES];
                *sum = S::add(*sum, weight);
                let scaled = S::mul(weight, scale);
                S::store(x, scaled);
                largest = S::max(largest, act::shown::<S>(scaled));
            }
            // What lies where nothing is seen may be no number.
            if query.hide(x, 0.0) {
                largest = act::largest::<S>(x);
            }
            page.sum[i] = S::sum_16(sums);
            most.0[i] = S::largest(largest);
        }
        (joins::<S>(t, queries, &page), most)
    }
}

/// The largest of each query's.
struct Most([f32; EACH]);

impl Most {
    /// What codes are multiplied by, and what makes them.
    #[inline(always)]
    unsafe fn scales<S: Isa>(&self) -> ([f32; EACH], [f32; EACH]) {
        let (mut scales, mut inverses) = ([0.0; EACH], [0.0; EACH]);
        for at in (0..EACH).step_by(S::LANES) {
            // SAFETY: the caller's promise; these are whole vectors.
            unsafe {
                let (scale, inverse) = act::scales::<S>(S::load(self.0.as_ptr().add(at)));
                S::store(scales.as_mut_ptr().add(at), scale);
                S::store(inverses.as_mut_ptr().add(at), inverse);
            }
        }
        (scales, inverses)
    }
}

/// Has what is read next brought into the cache.
#[inline(always)]
fn fetch(from: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        lanes::prefetch(from.wrapping_add(at));
    }
}
