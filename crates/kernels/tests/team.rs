//! The team under stress: every task once, phases in order, panics, late workers, nesting.
use rinfer_kernels::Team;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// A small generator, so that runs are reproducible.
struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn add(sum: &AtomicUsize, i: usize) {
    sum.fetch_add(i, Relaxed);
}

/// `runs` runs of random phases; every task must run once, after all tasks of the phase before.
fn check(threads: usize, runs: usize) {
    let team = Team::new(threads);
    let mut random = Random(threads as u64);
    let marks: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
    for run in 0..runs {
        let tasks: Vec<usize> = (0..1 + random.below(4)).map(|_| random.below(9)).collect();
        let finished = AtomicUsize::new(0);
        team.run(|worker| {
            assert!(worker.index() < threads);
            let mut before = 0;
            for &n in &tasks {
                worker.phase(n, |i| {
                    assert!(
                        finished.load(Relaxed) >= before,
                        "a phase began before the last ended"
                    );
                    marks[before + i].fetch_add(1, Relaxed);
                    finished.fetch_add(1, Relaxed);
                });
                before += n;
                assert!(finished.load(Relaxed) >= before, "a phase returned too early");
            }
        });
        let total: usize = tasks.iter().sum();
        for (i, mark) in marks.iter().enumerate() {
            assert_eq!(mark.swap(0, Relaxed), usize::from(i < total), "run {run}, task {i}");
        }
    }
}

#[test]
fn every_task_runs_once_in_its_phase() {
    for (threads, runs) in [(1, 1000), (2, 100_000), (3, 5_000), (5, 2_000), (8, 2_000)] {
        check(threads, runs);
    }
}

#[test]
fn workers_that_slept_wake_up() {
    let team = Team::new(3);
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(3));
        let sum = AtomicUsize::new(0);
        team.run(|w| w.phase(100, |i| add(&sum, i)));
        assert_eq!(sum.into_inner(), 4950);
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_team_survives() {
    for threads in 1..=4 {
        let team = Team::new(threads);
        for bad in 0..50 {
            let done = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                team.run(|w| {
                    w.phase(50, |i| {
                        assert!(i != bad, "task {i}");
                        done.fetch_add(1, Relaxed);
                    });
                });
            }));
            let panic = result.expect_err("the task panicked");
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("task {bad}")));
            let sum = AtomicUsize::new(0);
            team.run(|w| w.phase(10, |i| add(&sum, i)));
            assert_eq!(sum.into_inner(), 45);
        }
    }
}

#[test]
fn a_panic_between_phases_does_not_hang() {
    let team = Team::new(3);
    for culprit in 0..3 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            team.run(|w| {
                w.phase(5, |_| ());
                assert!(w.index() != culprit && culprit != 0, "between");
                w.phase(5, |_| ());
            });
        }));
        assert!(culprit != 0 || result.is_err());
        team.run(|w| w.phase(5, |_| ()));
    }
}

#[test]
fn too_many_phases_are_refused() {
    for threads in [1, 2] {
        let team = Team::new(threads);
        let result = catch_unwind(AssertUnwindSafe(|| {
            team.run(|w| (0..=rinfer_kernels::team::PHASES).for_each(|_| w.phase(1, |_| ())));
        }));
        assert!(result.is_err());
    }
}

#[test]
fn runs_may_nest_and_meet() {
    let team = Team::new(2);
    let sum = AtomicUsize::new(0);
    let sum_up = |team: &Team| team.run(|w| w.phase(10, |i| add(&sum, i)));
    team.run(|w| w.phase(4, |_| sum_up(&team)));
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| (0..1000).for_each(|_| sum_up(&team)));
        }
    });
    assert_eq!(sum.into_inner(), 45 * (4 + 3000));
}
