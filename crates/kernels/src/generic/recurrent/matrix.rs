//! States that are a matrix a head, `[keys, values]`: a few vectors of values at a time, so that
//! what one row leaves is still in the nearest cache when the next comes.
use crate::generic::lanes::{load, store};
use crate::isa::Isa;
use crate::ops::{DeltaTask, LinearStateTask};
use std::ops::Range;

#[inline(always)]
pub(crate) unsafe fn linear<S: Isa>(t: &LinearStateTask<'_>) {
    let stride = t.how.values.next_multiple_of(16);
    let floats = t.how.keys * stride;
    let state = t.cells.at(t.run.cell, t.head * floats, floats);
    for (rows, copy) in t.run.parts() {
        // SAFETY: the caller's promise: the CPU has the set, shapes agree.
        unsafe {
            let mut at = 0;
            while at + 4 * S::LANES <= stride {
                linear_columns::<S, 4>(t, rows.clone(), at, state.add(at));
                at += 4 * S::LANES;
            }
            while at < stride {
                linear_columns::<S, 1>(t, rows.clone(), at, state.add(at));
                at += S::LANES;
            }
            if let Some(cell) = copy {
                let to = t.cells.at(cell, t.head * floats, floats);
                to.copy_from_nonoverlapping(state, floats);
            }
        }
    }
}

/// `V` vectors of a head's values from `at` on, whose state begins at `state`.
#[inline(always)]
unsafe fn linear_columns<S: Isa, const V: usize>(
    t: &LinearStateTask<'_>,
    rows: Range<usize>,
    at: usize,
    state: *mut f32,
) {
    let (how, head) = (t.how, t.head);
    let (keys, stride) = (how.keys, how.values.next_multiple_of(16));
    let group = head / (how.heads / how.groups) * keys;
    let skip = how.skip.map_or(0.0, |skip| skip[head]);
    for r in rows {
        // SAFETY: the caller's promise.
        unsafe {
            let values = &t.input.values.row(r)[head * how.values..(head + 1) * how.values];
            let write = &t.input.write.row(r)[group..group + keys];
            let read = &t.input.read.row(r)[group..group + keys];
            let step = match t.input.step {
                Some(step) => step.row(r)[head],
                None => 1.0,
            };
            let decay = match t.input.decay {
                Ok(decay) => decay.row(r)[head],
                Err(fixed) => fixed[head],
            };
            let decay = S::splat(decay);
            let (mut taken, mut out) = ([S::splat(0.0); V], [S::splat(0.0); V]);
            for v in 0..V {
                let x = load::<S>(values, at + v * S::LANES, 0.0);
                taken[v] = S::mul(S::splat(step), x);
                out[v] = S::mul(S::splat(skip), x);
            }
            let mut p = state;
            for (w, r) in write.iter().zip(read) {
                let (w, r) = (S::splat(*w), S::splat(*r));
                for v in 0..V {
                    let p = p.add(v * S::LANES);
                    let new = S::fma(w, taken[v], S::mul(decay, S::load(p)));
                    S::store(p, new);
                    out[v] = S::fma(r, new, out[v]);
                }
                p = p.wrapping_add(stride);
            }
            put::<S, V>(t.out.part(r, head * how.values, how.values), at, out);
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn delta<S: Isa>(t: &DeltaTask<'_>) {
    let stride = t.how.v_dim.next_multiple_of(16);
    let floats = t.how.k_dim * stride;
    let state = t.cells.at(t.run.cell, t.head * floats, floats);
    for (rows, copy) in t.run.parts() {
        // SAFETY: the caller's promise: the CPU has the set, shapes agree.
        unsafe {
            let mut at = 0;
            while at + 4 * S::LANES <= stride {
                delta_columns::<S, 4>(t, rows.clone(), at, state.add(at));
                at += 4 * S::LANES;
            }
            while at < stride {
                delta_columns::<S, 1>(t, rows.clone(), at, state.add(at));
                at += S::LANES;
            }
            if let Some(cell) = copy {
                let to = t.cells.at(cell, t.head * floats, floats);
                to.copy_from_nonoverlapping(state, floats);
            }
        }
    }
}

/// `V` vectors of a head's values from `at` on, whose state begins at `state`.
#[inline(always)]
unsafe fn delta_columns<S: Isa, const V: usize>(
    t: &DeltaTask<'_>,
    rows: Range<usize>,
    at: usize,
    state: *mut f32,
) {
    let (how, head) = (t.how, t.head);
    let (k_dim, v_dim) = (how.k_dim, how.v_dim);
    let stride = v_dim.next_multiple_of(16);
    let key = how.key_head(head) * k_dim;
    // A head's one factor is read again and again.
    let (decays, next) = if how.per_channel { (k_dim, 1) } else { (1, 0) };
    for r in rows {
        // SAFETY: the caller's promise.
        unsafe {
            let q = &t.input.q.row(r)[key..key + k_dim];
            let k = &t.input.k.row(r)[key..key + k_dim];
            let v = &t.input.v.row(r)[head * v_dim..(head + 1) * v_dim];
            let decay = &t.input.decay.row(r)[head * decays..(head + 1) * decays];
            let beta = t.input.beta.row(r)[head];
            let mut known = [S::splat(0.0); V];
            for (i, k) in k.iter().enumerate() {
                let k = S::splat(*k * decay[i * next]);
                for (v, known) in known.iter_mut().enumerate() {
                    *known = S::fma(k, S::load(state.add(i * stride + v * S::LANES)), *known);
                }
            }
            let (mut taken, mut out) = ([S::splat(0.0); V], [S::splat(0.0); V]);
            for (j, taken) in taken.iter_mut().enumerate() {
                let x = S::sub(load::<S>(v, at + j * S::LANES, 0.0), known[j]);
                *taken = S::mul(S::splat(beta), x);
            }
            for (i, (k, q)) in k.iter().zip(q).enumerate() {
                let (k, q, decay) = (S::splat(*k), S::splat(*q), S::splat(decay[i * next]));
                for v in 0..V {
                    let p = state.add(i * stride + v * S::LANES);
                    let new = S::fma(k, taken[v], S::mul(decay, S::load(p)));
                    S::store(p, new);
                    out[v] = S::fma(q, new, out[v]);
                }
            }
            put::<S, V>(t.out.part(r, head * v_dim, v_dim), at, out);
        }
    }
}

/// Writes vectors to `out` from `at` on, as far as it goes.
#[inline(always)]
unsafe fn put<S: Isa, const V: usize>(out: &mut [f32], at: usize, x: [S::F; V]) {
    for (v, x) in x.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { store::<S>(out, at + v * S::LANES, x) };
    }
}
