//! The causal convolution.
use crate::generic::lanes::{load, store};
use crate::generic::math;
use crate::isa::Isa;
use crate::ops::ConvTask;

#[inline(always)]
pub(crate) unsafe fn conv<S: Isa>(t: &ConvTask<'_>) {
    let (width, channels) = (t.how.width, t.how.channels());
    for at in t.channels.clone().step_by(S::LANES) {
        let n = S::LANES.min(t.channels.end - at);
        // SAFETY: the caller's promise: the CPU has the set, shapes agree.
        unsafe {
            let bias = t.how.bias.map_or(S::splat(0.0), |b| load::<S>(&b[..at + n], at, 0.0));
            for r in 0..t.run.rows {
                let mut y = bias;
                for j in 0..width {
                    let w = &t.how.weights[j * channels..(j + 1) * channels];
                    y = S::fma(load::<S>(w, at, 0.0), input::<S>(t, r + j, at, n), y);
                }
                if t.how.silu {
                    y = math::silu::<S>(y);
                }
                if let Some((_, after)) = t.gates {
                    y = S::mul(y, load::<S>(after.row(t.run.row + r), at, 0.0));
                }
                store::<S>(t.out.part(t.run.row + r, at, n), 0, y);
            }
            if let Some(mark) = t.run.mark {
                keep::<S>(t, mark.cell, mark.after, at, n);
            }
            keep::<S>(t, t.run.cell, t.run.rows, at, n);
        }
    }
}

/// Input `i` of `n` channels, counted from the first that the state has.
#[inline(always)]
unsafe fn input<S: Isa>(t: &ConvTask<'_>, i: usize, at: usize, n: usize) -> S::F {
    let past = t.how.width - 1;
    // SAFETY: the caller's promise.
    unsafe {
        if i < past {
            let state = t.cells.part(t.run.cell, i * t.how.channels() + at, n);
            return load::<S>(state, 0, 0.0);
        }
        let row = t.run.row + i - past;
        let x = load::<S>(t.x.row(row), at, 0.0);
        match t.gates {
            None => x,
            Some((before, _)) => S::mul(load::<S>(before.row(row), at, 0.0), x),
        }
    }
}

/// Writes the state after `rows` rows to a cell. An input is moved towards the front, so those that
/// are still to be read are not overwritten.
#[inline(always)]
unsafe fn keep<S: Isa>(t: &ConvTask<'_>, cell: usize, rows: usize, at: usize, n: usize) {
    for i in 0..t.how.width - 1 {
        // SAFETY: the caller's promise.
        unsafe {
            let x = input::<S>(t, rows + i, at, n);
            store::<S>(t.cells.part(cell, i * t.how.channels() + at, n), 0, x);
        }
    }
}
