//! Attention over a page of 8 bits: both products are the weights', in whole numbers.
//!
//! A position's weight times the scale of its value is brought to 8 bits with a scale per 32
//! positions, of those that the query sees alone.
use super::{BATCH, Lines, Query, line, put, weigh};
use crate::act::{ActRows, BLOCK, Block, QuantRow};
use crate::generic::{act, lanes};
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
        let mut scratch = std::mem::MaybeUninit::<[Lines; 2]>::uninit();
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
        let join = weigh::<S>(t, queries, weights);
        let mut blocks = [Block::default(); BLOCKS * BATCH];
        let lent = Lent::new(&mut blocks);
        for (i, query) in queries.iter().enumerate().filter(|(_, query)| query.sees()) {
            let x = line(weights, i, PAGE);
            for at in (0..PAGE).step_by(S::LANES) {
                let x = x.as_mut_ptr().add(at);
                S::store(x, S::mul(S::load(x), S::load(scales.as_ptr().add(at))));
            }
            query.hide(x, 0.0);
            act::quantise::<S>(x, QuantRow::of(&lent, (S::TILE, queries.len(), i), BLOCKS));
        }
        fetch(t.next, head.keys());
        let values = Panels::new(Layout::W8, v_dim, PAGE, values);
        let weighted = ActRows::of_blocks(&blocks, queries.len(), PAGE);
        for channel in (0..v_dim).step_by(PAGE) {
            let channels = PAGE.min(v_dim - channel);
            let panels = channel / PANEL..(channel + channels).div_ceil(PANEL);
            (eight.product)(&task(values, weighted, channel, part), panels);
            for (i, query) in queries.iter().enumerate().filter(|(_, query)| query.sees()) {
                let to = t.out.values.add(query.share * v_dim + channel);
                let to = std::slice::from_raw_parts_mut(to, channels);
                put::<S>(to, line(part, i, channels), query.joins.then_some(join.of(i)));
            }
        }
    }
}

/// Has what is read next brought into the cache.
#[inline(always)]
fn fetch(from: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        lanes::prefetch(from.wrapping_add(at));
    }
}
