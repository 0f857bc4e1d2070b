//! What this machine can do at most, measured: the limits that the kernels are judged by.
//!
//! Time is what it measures, so it is the one part of the libraries that reads a clock.
//! Every figure is of the best among many short rounds, so what else runs lowers it little. A
//! measurement takes less than a second.
mod peak;
mod read;

use crate::Team;

pub use read::read_bandwidth;

/// 8-bit integer operations per second of the whole team, a multiplication and an addition being
/// two: dot products of registers with the best instruction the CPU has. `None` where it has none
/// that the tiers use.
pub fn dot_peak(team: &Team) -> Option<f64> {
    peak::best(team, peak::DOTS)
}

/// f32 operations per second of the whole team, a fused multiply-add being two, between registers
/// with the widest vectors the CPU has. `None` where it has none that the tiers use.
pub fn fma_peak(team: &Team) -> Option<f64> {
    peak::best(team, peak::FMAS)
}

/// Wakes the workers, so that a round that follows does not wait for them.
fn wake(team: &Team) {
    team.run(|worker| worker.phase(team.threads(), |_| {}));
}
