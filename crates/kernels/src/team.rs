//! Threads that work together on one forward pass.
//!
//! Each thread claims the tasks of its own share in order, so that it reads memory from front to
//! back, and then what others have left of theirs. A phase ends when its *tasks* are done, so a worker
//! that the system never scheduled is not waited for. Waits spin about 10 µs and then sleep; between
//! runs the workers sleep after spinning a little, so an idle program uses no CPU.
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Phases that one run may have.
pub const PHASES: usize = 64;

/// Pauses before a wait inside a run sleeps: 4 to 15 µs, depending on the CPU's pause.
const SPINS: u32 = 300;
/// Pauses before a worker between two runs sleeps: a forward is hundreds of runs back to back.
const IDLE_SPINS: u32 = 2000;

/// A fixed set of threads, the caller's among them.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// A thread's place in one run.
pub struct Worker<'a> {
    index: usize,
    /// Phases passed so far.
    phase: Cell<usize>,
    shared: &'a Shared,
    /// Whether no other thread takes part.
    alone: bool,
}

impl Team {
    /// A team of `threads`, the caller's included; at least one, and fewer where the system
    /// refuses to start that many.
    pub fn new(threads: usize) -> Team {
        let shared = Arc::new(Shared::new(threads.max(1)));
        let start = |index| {
            let shared = Arc::clone(&shared);
            Builder::new().name(format!("worker {index}")).spawn(move || shared.serve(index)).ok()
        };
        let workers = (1..threads).map_while(start).collect();
        Team { shared, workers }
    }

    /// Number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs so far that other threads were let into.
    pub fn runs(&self) -> u64 {
        self.shared.gate.load(Relaxed) / RUN
    }

    /// Has every thread run `work`, and returns when all tasks of all its phases are done and no
    /// other thread is inside `work`. `work` must claim the same phases in the same order on every
    /// thread. A run that starts while another is going on is done by its caller alone.
    ///
    /// # Panics
    /// With the first panic of a task, after the run; the team stays usable.
    pub fn run(&self, work: impl Fn(&Worker<'_>) + Sync) {
        self.run_any(&work);
    }

    /// What runs phases on the caller's thread alone.
    pub(crate) fn alone(&self) -> Worker<'_> {
        Worker { index: 0, phase: Cell::new(0), shared: &self.shared, alone: true }
    }

    /// One copy for all work: between weights that stream through the caches, code is slow to come.
    fn run_any(&self, work: &(dyn Fn(&Worker<'_>) + Sync)) {
        let shared = &*self.shared;
        let alone = self.workers.is_empty() || shared.running.swap(true, Acquire);
        let me = Worker { index: 0, phase: Cell::new(0), shared, alone };
        if alone {
            return work(&me);
        }
        shared.open(work);
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&me)));
        shared.close();
        // A worker may have come further than a caller that panicked between phases.
        let used = if outcome.is_ok() { me.phase.get() } else { PHASES };
        shared.phases[..used].iter().for_each(|phase| phase.reset());
        let panicked = shared.panic.take();
        shared.running.store(false, Release);
        if let Some(panic) = outcome.err().or(panicked) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.gate.fetch_or(QUIT, SeqCst);
        self.shared.start.ring();
        for worker in self.workers.drain(..) {
            // A worker catches what its tasks throw, so it has nothing to report.
            let _ = worker.join();
        }
    }
}

impl Worker<'_> {
    /// This thread's number in the team, the caller's being 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads in the team, the caller's included.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// What runs phases on this thread alone, within a task.
    pub(crate) fn alone(&self) -> Worker<'_> {
        Worker { index: self.index, phase: Cell::new(0), shared: self.shared, alone: true }
    }

    /// Claims tasks of `0..tasks` one by one until none is left, then waits until all are done.
    /// What one phase's tasks wrote is visible to the next phase's.
    ///
    /// # Panics
    /// At more than [`PHASES`] phases in a run, or more than 2³¹ tasks in one.
    pub fn phase(&self, tasks: usize, task: impl Fn(usize)) {
        self.phase_of(tasks, &task);
    }

    /// One copy for all tasks, as of runs.
    fn phase_of(&self, tasks: usize, task: &dyn Fn(usize)) {
        let at = self.phase.replace(self.phase.get() + 1);
        assert!(at < PHASES, "a run has at most {PHASES} phases");
        // Claims are counted in 32 bits, some of them beyond the last task.
        assert!(tasks <= 1 << 31, "a phase of {tasks} tasks");
        if self.alone {
            return (0..tasks).for_each(task);
        }
        let phase = &self.shared.phases[at];
        let mut mine = 0;
        let threads = self.shared.threads;
        for owner in (self.index..threads).chain(0..self.index) {
            let (from, until) = (owner * tasks / threads, (owner + 1) * tasks / threads);
            while let Some(i) = phase.claim(owner, until - from) {
                // A task that panics is done too, or the others would wait for it.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(from + i))) {
                    self.shared.panic.put(panic);
                }
                mine += 1;
            }
        }
        if phase.done.fetch_add(mine, SeqCst) + mine == tasks {
            self.shared.finish.ring();
        } else {
            self.shared.finish.wait(SPINS, || phase.done.load(SeqCst) == tasks);
        }
    }
}

/// Bits of the gate: how many workers are inside the run, whether it may be entered, whether the
/// team is ending; the rest is the run's number.
const INSIDE: u64 = (1 << 16) - 1;
const OPEN: u64 = 1 << 16;
const QUIT: u64 = 1 << 17;
const RUN: u64 = 1 << 18;

type Work = dyn Fn(&Worker<'_>) + Sync;

/// What the threads of a team share.
struct Shared {
    /// Shares that a phase's tasks are cut into.
    threads: usize,
    gate: Line<AtomicU64>,
    phases: [Line<Phase>; PHASES],
    /// Where workers wait for a run.
    start: Line<Bell>,
    /// Where threads wait for a phase, and the caller for the workers to leave.
    finish: Line<Bell>,
    /// Held by the thread that opened the gate.
    running: Line<AtomicBool>,
    panic: Panic,
    /// Written while the gate is closed and nobody is inside; read only inside.
    work: UnsafeCell<Option<*const Work>>,
}
// SAFETY: `work` is the only field that is not Sync by itself. `running` admits one writer, which
// writes while no other thread is inside; the gate's release and acquire order write and reads.
// What it points to is Sync and outlives the run.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn new(threads: usize) -> Shared {
        Shared {
            threads,
            gate: Line::default(),
            phases: std::array::from_fn(|_| Line(Phase::new(threads))),
            start: Line::default(),
            finish: Line::default(),
            running: Line::default(),
            panic: Panic::default(),
            work: UnsafeCell::default(),
        }
    }

    /// Lets the workers into `work`. The caller must [close](Shared::close) before it ends.
    fn open(&self, work: &(dyn Fn(&Worker<'_>) + Sync)) {
        let work: *const (dyn Fn(&Worker<'_>) + Sync + '_) = work;
        // SAFETY: only the lifetime changes. The pointer is followed inside the gate only, and
        // `run` lets `work` end only after the gate is closed and everyone has left.
        let work = unsafe {
            std::mem::transmute::<*const (dyn Fn(&Worker<'_>) + Sync + '_), *const Work>(work)
        };
        // SAFETY: this thread holds `running` and nobody is inside.
        unsafe { *self.work.get() = Some(work) };
        self.gate.store((self.gate.load(Relaxed) | OPEN) + RUN, SeqCst);
        self.start.ring();
    }

    /// Keeps late workers out and waits until those inside have left.
    fn close(&self) {
        self.gate.fetch_and(!OPEN, SeqCst);
        self.finish.wait(SPINS, || self.gate.load(SeqCst) & INSIDE == 0);
    }

    /// A worker's life.
    fn serve(&self, index: usize) {
        let mut last = 0;
        loop {
            let fresh = |gate: u64| gate & OPEN != 0 && gate / RUN != last;
            self.start.wait(IDLE_SPINS, || {
                let gate = self.gate.load(SeqCst);
                gate & QUIT != 0 || fresh(gate)
            });
            let entered = self.gate.fetch_update(SeqCst, SeqCst, |g| fresh(g).then_some(g + 1));
            match entered {
                Ok(gate) => last = gate / RUN,
                Err(gate) if gate & QUIT != 0 => return,
                Err(_) => continue,
            }
            let me = Worker { index, phase: Cell::new(0), shared: self, alone: false };
            // SAFETY: this thread is inside, so the pointer is set and what it points to is alive.
            let work = unsafe { (*self.work.get()).map(|work| &*work) };
            if let Some(Err(panic)) = work.map(|work| catch_unwind(AssertUnwindSafe(|| work(&me))))
            {
                self.panic.put(panic);
            }
            if self.gate.fetch_sub(1, SeqCst) & INSIDE == 1 {
                self.finish.ring();
            }
        }
    }
}

/// Progress of a phase; all zeros between runs.
struct Phase {
    done: AtomicUsize,
    /// By thread: how many tasks of its share are handed out, and one more for every thread that
    /// found none left. Sixteen to a line: they are few, and are reset after every run.
    claimed: Box<[Line<[AtomicU32; 16]>]>,
}

impl Phase {
    fn new(threads: usize) -> Phase {
        let lines = (0..threads.div_ceil(16)).map(|_| Line::default());
        Phase { done: AtomicUsize::new(0), claimed: lines.collect() }
    }
    /// The next task of a thread's share of `len`.
    fn claim(&self, owner: usize, len: usize) -> Option<usize> {
        let claimed = &self.claimed[owner / 16][owner % 16];
        // A share that is used up is left alone.
        let left = |claimed: u32| (claimed as usize) < len;
        let left_now = left(claimed.load(Relaxed));
        left_now.then(|| claimed.fetch_add(1, Relaxed)).filter(|i| left(*i)).map(|i| i as usize)
    }
    fn reset(&self) {
        self.done.store(0, Relaxed);
        self.claimed.iter().flat_map(|line| line.iter()).for_each(|c| c.store(0, Relaxed));
    }
}

/// Where threads wait for a condition: they spin, then sleep until somebody rings.
///
/// Whoever makes a condition true does so by a `SeqCst` operation and rings after it. If `ring`
/// then sees no sleeper, a later sleeper sees the condition before it sleeps.
#[derive(Default)]
struct Bell {
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    fn wait(&self, spins: u32, ready: impl Fn() -> bool) {
        for _ in 0..spins {
            if ready() {
                return;
            }
            spin_loop();
        }
        self.sleepers.fetch_add(1, SeqCst);
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.rung.wait_while(guard, |()| !ready()));
        self.sleepers.fetch_sub(1, SeqCst);
    }

    fn ring(&self) {
        if self.sleepers.load(SeqCst) > 0 {
            // A sleeper that has looked at its condition and not slept yet holds the lock.
            drop(self.lock.lock());
            self.rung.notify_all();
        }
    }
}

/// The first panic of a run.
#[derive(Default)]
struct Panic {
    some: AtomicBool,
    first: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Panic {
    fn put(&self, panic: Box<dyn Any + Send>) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        self.some.store(true, Release);
    }
    fn take(&self) -> Option<Box<dyn Any + Send>> {
        let some = self.some.swap(false, Acquire);
        if some { self.first.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None }
    }
}

/// Alone on two cache lines, which the hardware fetches together.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
