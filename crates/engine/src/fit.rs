//! What a load takes beside what there is, and the largest context that there is room for.
use crate::backend::Limits;
use crate::size::{self, Memory};
use crate::spec::ModelSpec;
use rinfer_formats::Weights;
use rinfer_kernels::kv::PAGE;

/// A default context is not made smaller than this to fit in memory.
const LEAST_CONTEXT: usize = 512;

/// What a load takes, and what there is.
#[derive(Debug, Clone)]
pub struct Fit {
    /// What an executor is sized for. Where there is no room for it, a default context is the
    /// largest that there is room for, if that is 512 or more.
    pub limits: Limits,
    /// What that takes.
    pub takes: Memory,
    /// Bytes that the model may take; none if nobody says.
    pub room: Option<usize>,
    /// The largest context that they are enough for, at most the model's own, in whole pages; none
    /// if not even a page is.
    pub most: Option<usize>,
}

impl Fit {
    /// Of `spec` with `weights` within the limits `asked`, whose context is a default one if it is
    /// `free`, on `threads` threads.
    pub fn of(
        spec: &ModelSpec,
        weights: &dyn Weights,
        asked: Limits,
        free: bool,
        room: Option<usize>,
        threads: usize,
    ) -> Fit {
        let held = size::weights(spec, weights, &asked);
        let takes = |limits: &Limits| Memory {
            weights: held,
            state: size::state(spec, limits),
            scratch: size::scratch(spec, weights, limits, threads),
        };
        // What a pass writes on the way is made to be measured, and never beside a state beyond all room.
        let fits = |room: usize, limits: &Limits| {
            held + size::state(spec, limits) <= room && takes(limits).total() <= room
        };
        let most = match room {
            None => Some(spec.context),
            Some(room) => largest(spec.context, |context| fits(room, &at(&asked, context))),
        };
        let smaller = most.filter(|most| free && (LEAST_CONTEXT..asked.context).contains(most));
        let limits = smaller.map_or(asked.clone(), |most| at(&asked, most));
        Fit { takes: takes(&limits), limits, room, most }
    }
    /// Whether there is room for it.
    pub fn fits(&self) -> bool {
        self.room.is_none_or(|room| self.takes.total() <= room)
    }
}

/// The same with another context. Positions follow it, unless there are more than one context's.
fn at(asked: &Limits, context: usize) -> Limits {
    let (own, more) = (context.next_multiple_of(PAGE), asked.context.next_multiple_of(PAGE));
    let positions = if asked.positions > more { asked.positions.max(own) } else { own };
    Limits { context, positions, ..asked.clone() }
}

/// The largest number of positions up to `most` that `fits`, in whole pages unless it is `most`. What
/// is larger than what does not fit is taken not to fit either.
fn largest(most: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let positions = |pages: usize| (pages * PAGE).min(most);
    let (mut low, mut high) = (0, most.div_ceil(PAGE) + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        let half = if fits(positions(middle)) { &mut low } else { &mut high };
        *half = middle;
    }
    (low > 0).then(|| positions(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits() {
        let check = |most: usize, room: usize, expect: Option<usize>| {
            assert_eq!(largest(most, |n| n <= room), expect, "{most}, {room}");
        };
        check(4096, 4096, Some(4096));
        check(4096, 1 << 30, Some(4096));
        check(4096, 4095, Some(4032));
        check(4096, 64, Some(64));
        check(4096, 63, None);
        check(100, 100, Some(100));
        check(100, 99, Some(64));
        check(10, 10, Some(10));
        check(10, 9, None);
        check(1, 0, None);
    }
}
