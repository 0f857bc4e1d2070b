//! A run against what the machine can do: bytes of weights against what its threads read from
//! memory, operations against what its multipliers do between registers.
use super::measure::{Measured, Run, median};
use rinfer_engine::profile::{Kind, Work};
use rinfer_kernels::Team;
use rinfer_kernels::machine::{dot_peak, fma_peak, read_bandwidth};

/// Of all threads together. The multipliers' are none where the CPU has no instruction for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes per second from memory.
    pub read: f64,
    /// 8-bit operations per second, a multiply-add being two.
    pub dot: Option<f64>,
    /// f32 operations per second, likewise.
    pub fma: Option<f64>,
}

/// More than caches hold.
const READ: usize = 256 << 20;

impl Limits {
    /// Takes less than a second.
    pub fn measure(team: &Team) -> Limits {
        Limits { read: read_bandwidth(team, READ), dot: dot_peak(team), fma: fma_peak(team) }
    }
    /// The better of both.
    pub fn or(self, other: Limits) -> Limits {
        let better = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b));
        Limits {
            read: self.read.max(other.read),
            dot: better(self.dot, other.dot),
            fma: better(self.fma, other.fma),
        }
    }
    /// The least time that the operations can take.
    fn least(&self, work: &Work) -> Option<f64> {
        let seconds = |products: u64, peak: Option<f64>| match products {
            0 => Some(0.0),
            n => peak.map(|peak| 2.0 * n as f64 / peak),
        };
        Some(seconds(work.q8, self.dot)? + seconds(work.f32, self.fma)?)
    }
}

/// A figure of a run.
pub struct Figure {
    /// In JSON, where its unit has no prefix.
    pub key: &'static str,
    /// Over its column.
    pub header: &'static str,
    /// The unit there.
    pub unit: f64,
    of: fn(&Run, &Limits) -> Option<f64>,
}

impl Figure {
    /// The median of the runs, if there is one for each.
    pub fn median(&self, measured: &Measured) -> Option<f64> {
        let of = |run: &Run| (self.of)(run, run.limits.as_ref()?).filter(|x| x.is_finite());
        measured.runs.iter().map(of).collect::<Option<_>>().map(median)
    }
}

/// All figures, in the order of their columns.
pub const FIGURES: [Figure; 9] = [
    figure("read_bytes_per_s", "read GB/s", 1e9, |_, limits| Some(limits.read)),
    figure("weight_bytes_per_token", "weights MB/token", 1e6, |run, _| {
        Some(total(run).bytes as f64 / run.tokens as f64)
    }),
    figure("weight_bytes_per_s", "weights GB/s", 1e9, |run, _| {
        Some(total(run).bytes as f64 / run.seconds)
    }),
    figure("percent_of_read", "% of read", 1.0, |run, limits| {
        Some(100.0 * total(run).bytes as f64 / run.seconds / limits.read)
    }),
    figure("peak_ops_per_s", "peak TOP/s", 1e12, |run, limits| {
        Some(operations(&total(run)) / limits.least(&total(run))?)
    }),
    figure("matmul_ops_per_s", "matmul TOP/s", 1e12, |run, _| {
        let matmul = matmul(run);
        Some(operations(&matmul) / matmul.seconds)
    }),
    figure("matmul_percent_of_peak", "% of peak", 1.0, |run, limits| {
        let matmul = matmul(run);
        Some(100.0 * limits.least(&matmul)? / matmul.seconds)
    }),
    figure("ops_per_s", "whole TOP/s", 1e12, |run, _| Some(operations(&total(run)) / run.seconds)),
    figure("percent_of_peak", "% of peak", 1.0, |run, limits| {
        Some(100.0 * limits.least(&total(run))? / run.seconds)
    }),
];

const fn figure(
    key: &'static str,
    header: &'static str,
    unit: f64,
    of: fn(&Run, &Limits) -> Option<f64>,
) -> Figure {
    Figure { key, header, unit, of }
}

fn total(run: &Run) -> Work {
    run.profile.total()
}

/// Products of layers: those of all rows, and those of experts.
fn matmul(run: &Run) -> Work {
    [Kind::Projections, Kind::Experts].into_iter().map(|kind| run.profile[kind]).sum()
}

fn operations(work: &Work) -> f64 {
    2.0 * (work.q8 + work.f32) as f64
}

#[cfg(test)]
mod tests {
    use super::super::measure::Test;
    use super::*;
    use rinfer_engine::profile::Profile;

    const LIMITS: Limits = Limits { read: 1e10, dot: Some(4e12), fma: Some(5e11) };

    /// The figures of a run of a second and 10 tokens.
    fn check(limits: Limits, projections: Work, head: Work, expect: [Option<f64>; 9]) {
        let mut profile = Profile::default();
        profile[Kind::Projections] = projections;
        profile[Kind::Head] = head;
        let run = Run { tokens: 10, seconds: 1.0, profile, limits: Some(limits) };
        let test = Test { name: "prefill", short: "pp", tokens: 10, depth: 0 };
        let measured = Measured { test, runs: vec![run] };
        for (figure, expect) in FIGURES.iter().zip(expect) {
            let found = figure.median(&measured);
            let near = found.zip(expect).map(|(a, b)| (a - b).abs() <= 1e-9 * b.abs());
            assert!(near.unwrap_or(found == expect), "{}: {found:?}, {expect:?}", figure.key);
        }
    }

    #[test]
    fn percents() {
        let codes = Work { seconds: 0.5, q8: 500e9 as u64, f32: 0, bytes: 1_500_000_000 };
        let head = Work { seconds: 0.1, q8: 100e9 as u64, f32: 0, bytes: 500_000_000 };
        // 1 TOP in half a second and 1.2 in all, of 4 a second; 2 GB of 10.
        let of = [1e10, 2e8, 2e9, 20.0, 4e12, 2e12, 50.0, 1.2e12, 30.0].map(Some);
        check(LIMITS, codes, head, of);
        // Floats against the floats' peak: 0.1 of 0.5; both: each its own time.
        let floats = Work { seconds: 0.4, q8: 0, f32: 50e9 as u64, bytes: 0 };
        let of = [1e10, 0.0, 0.0, 0.0, 5e11, 2.5e11, 50.0, 1e11, 20.0].map(Some);
        check(LIMITS, floats, Work::default(), of);
        let both = [codes, floats].into_iter().sum::<Work>();
        let of = [1e10, 1.5e8, 1.5e9, 15.0, 1.1e12 / 0.45, 1.1e12 / 0.9, 50.0, 1.1e12, 45.0];
        check(LIMITS, both, Work::default(), of.map(Some));
        // Without a peak there is no share of it.
        let none = Limits { dot: None, ..LIMITS };
        let mut of = [1e10, 2e8, 2e9, 20.0, 0.0, 2e12, 0.0, 1.2e12, 0.0].map(Some);
        (of[4], of[6], of[8]) = (None, None, None);
        check(none, codes, head, of);
    }

    #[test]
    fn the_better_limit_counts() {
        let slow = Limits { read: 2e10, dot: Some(1e12), fma: None };
        let both = Limits { read: 2e10, dot: Some(4e12), fma: None };
        assert_eq!((LIMITS.or(slow), slow.or(LIMITS)), (both, both));
    }
}
