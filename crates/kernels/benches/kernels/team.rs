//! What it costs to send the threads off and to wait for them: runs of tasks that do nothing.
use super::threads;
use divan::Bencher;
use rinfer_kernels::Team;

#[divan::bench(args = [1, 2, 4], sample_size = 10, sample_count = 500)]
fn phases_of_8_tasks(bencher: Bencher, phases: usize) {
    let team = Team::new(threads().pop().unwrap_or(1));
    bencher.bench_local(|| team.run(|worker| (0..phases).for_each(|_| worker.phase(8, |_| ()))));
}
