//! States of a few numbers a channel.
use crate::generic::lanes::{load, store};
use crate::generic::math;
use crate::isa::Isa;
use crate::ops::{RgLruTask, SelectiveTask};

#[inline(always)]
pub(crate) unsafe fn selective<S: Isa>(t: &SelectiveTask<'_>) {
    let (channels, count) = (t.how.skip.len(), t.how.state);
    for at in t.channels.clone().step_by(S::LANES) {
        let n = S::LANES.min(t.channels.end - at);
        for (rows, copy) in t.run.parts() {
            for r in rows {
                // SAFETY: the caller's promise: the CPU has the set, shapes agree.
                unsafe {
                    let (write, read) = (t.input.write.row(r), t.input.read.row(r));
                    let x = load::<S>(t.input.x.row(r), at, 0.0);
                    let step = load::<S>(t.input.step.row(r), at, 0.0);
                    let taken = S::mul(step, x);
                    let mut y = S::mul(load::<S>(t.how.skip, at, 0.0), x);
                    for i in 0..count {
                        let rates = &t.how.rates[i * channels..(i + 1) * channels];
                        let decay = math::exp::<S>(S::mul(step, load::<S>(rates, at, 0.0)));
                        let h = t.cells.part(t.run.cell, i * channels + at, n);
                        let new = S::mul(taken, S::splat(write[i]));
                        let new = S::fma(decay, load::<S>(h, 0, 0.0), new);
                        store::<S>(h, 0, new);
                        y = S::fma(new, S::splat(read[i]), y);
                    }
                    store::<S>(t.out.part(r, at, n), 0, y);
                }
            }
            if let Some(cell) = copy {
                for i in 0..count {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let from = t.cells.part(t.run.cell, i * channels + at, n);
                        t.cells.part(cell, i * channels + at, n).copy_from_slice(from);
                    }
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn rg_lru<S: Isa>(t: &RgLruTask<'_>) {
    for at in t.channels.clone().step_by(S::LANES) {
        let n = S::LANES.min(t.channels.end - at);
        // SAFETY: the caller's promise: the CPU has the set, shapes agree.
        unsafe {
            let bound = load::<S>(t.input.bound, at, 0.0);
            let state = t.cells.part(t.run.cell, at, n);
            let mut h = load::<S>(state, 0, 0.0);
            for (rows, copy) in t.run.parts() {
                for r in rows {
                    let forget = math::sigmoid::<S>(load::<S>(t.input.forget.row(r), at, 0.0));
                    let take = math::sigmoid::<S>(load::<S>(t.input.take.row(r), at, 0.0));
                    let log = S::mul(bound, forget);
                    let square = math::exp::<S>(S::add(log, log));
                    let first = t.run.past == 0 && r == t.run.row;
                    let root = match first {
                        true => S::splat(1.0),
                        false => S::sqrt(S::sub(S::splat(1.0), square)),
                    };
                    let x = S::mul(root, S::mul(take, load::<S>(t.input.x.row(r), at, 0.0)));
                    h = S::fma(math::exp::<S>(log), h, x);
                    store::<S>(t.out.part(r, at, n), 0, h);
                }
                if let Some(cell) = copy {
                    store::<S>(t.cells.part(cell, at, n), 0, h);
                }
            }
            store::<S>(state, 0, h);
        }
    }
}
