//! Threads that work together on one forward pass.
//!
//! Tasks are claimed from a counter and a phase ends when its *tasks* are done, so a worker that
//! the system never scheduled is not waited for. Waits spin about 10 µs and then sleep; between
//! runs the workers sleep after spinning a little, so an idle program uses no CPU.

/// A fixed set of threads, the caller's among them.
pub struct Team {
    threads: usize,
}

/// A thread's place in one run.
pub struct Worker<'a> {
    index: usize,
    team: &'a Team,
}

impl Team {
    /// A team of `threads`, the caller's included; at least one.
    pub fn new(threads: usize) -> Team {
        Team { threads: threads.max(1) }
    }
    /// Number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads
    }
    /// Has every thread run `work`, and returns when all tasks of all its phases are done and no
    /// other thread is inside `work`. `work` must claim the same phases in the same order on every
    /// thread. A panic in a task is passed on to the caller after the run.
    pub fn run(&self, work: impl Fn(&Worker<'_>) + Sync) {
        let _ = work;
        todo!()
    }
}

impl Worker<'_> {
    /// This thread's number in the team, the caller's being 0.
    pub fn index(&self) -> usize {
        self.index
    }
    /// Number of threads in the team.
    pub fn threads(&self) -> usize {
        self.team.threads
    }
    /// Claims tasks `0..tasks` one by one until none is left, then waits until all are done.
    /// What one phase's tasks wrote is visible to the next phase's.
    pub fn phase(&self, tasks: usize, task: impl Fn(usize)) {
        let _ = (tasks, task);
        todo!()
    }
}
