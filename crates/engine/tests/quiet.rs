//! What the threads cost the machine: no system call while they work, nothing while they wait; and
//! what they lose to others' work is in proportion.
#![expect(clippy::unwrap_used, reason = "tests")]
mod rig;

use rig::{NATIVE, Rig, goldens};
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Span, TokenId, Want};
use rinfer_kernels::Kernels;
use std::hint::spin_loop;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Held by the test that measures.
static ALONE: Mutex<()> = Mutex::new(());

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Decodes `steps` tokens, one by one.
fn decode(rig: &mut Rig, steps: usize) {
    let slot = rig.open();
    let (mut batch, mut out) = (Batch::default(), Logits::default());
    for past in 0..steps {
        assert!(rig.executor.state().reserve(slot, past + 1), "no room");
        batch.rows.clear();
        batch.seqs.clear();
        batch.rows.push(Row::Token(TokenId(past as u32 + 3)));
        batch.seqs.push(Span { slot, len: 1, past, want: Want::Last });
        rig.executor.forward(&batch, &mut out).unwrap();
    }
    rig.close(slot);
}

/// Runs one after another, as a forward makes them, keep the threads awake.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_work_do_not_sleep() {
    use rinfer_kernels::team::{Team, Worker};
    use std::sync::atomic::AtomicUsize;

    const RUNS: usize = 10;
    const TASKS: usize = 16;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let team = Team::new(processors().min(4));
    let micros = |n: u64| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(n) {}
    };
    let window = || {
        let shared = AtomicUsize::new(0);
        let work = |worker: &Worker<'_>| {
            worker.phase(TASKS, |_| {
                micros(2);
                shared.fetch_add(worker.index().min(1), Relaxed);
            });
        };
        let (sleeps, ()) = proc::switches_in(|| {
            for _ in 0..RUNS {
                team.run(|worker| (0..2).for_each(|_| work(worker)));
                micros(5);
            }
        });
        (sleeps, shared.into_inner())
    };
    // Whatever else runs may take a processor, and then the other threads do sleep, or do it all:
    // looked for is a window in which the others did half of their share of the two phases, or
    // more. At its end, workers fall asleep.
    let part = RUNS * TASKS * (team.threads() - 1) / team.threads();
    let awake = |(sleeps, shared)| shared >= part && sleeps < team.threads() as u64;
    let (mut seen, start) = (Vec::new(), Instant::now());
    while seen.last().is_none_or(|last| !awake(*last)) {
        let some = &seen[..seen.len().min(50)];
        let time = start.elapsed() < Duration::from_secs(30);
        assert!(time, "sleeps, and shared tasks where {part} are wanted: {some:?}");
        // Who has slept is let in at once.
        std::thread::sleep(Duration::from_millis(2));
        seen.push(window());
    }
    println!("{:?} sleeps and shared tasks in window {}", seen[seen.len() - 1], seen.len());
}

/// Beside sleeping and waking, which the above looks at, a step calls the system for nothing.
#[test]
fn a_warm_step_makes_no_system_call() {
    let strace = |to: &Path| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(to);
        strace
    };
    let tried = strace(Path::new("/dev/null")).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return println!("without strace: system calls are not counted");
    }
    let calls = |test: &str| -> usize {
        let to = std::env::temp_dir().join(format!("rinfer-calls-{}-{test}", std::process::id()));
        let mut strace = strace(&to);
        strace.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--ignored"]);
        let output = strace.output().unwrap();
        let report = std::fs::read_to_string(&to);
        let _ = std::fs::remove_file(to);
        assert!(output.status.success(), "{test}: {output:?}");
        let call = |line: &str| {
            let (calls, name) = line.trim().split_once(' ')?;
            let counts = !["futex", "total"].contains(&name.trim());
            calls.parse::<usize>().ok().filter(|_| counts)
        };
        let sum = report.unwrap().lines().filter_map(call).sum();
        assert!(sum > 0, "{test}: no calls in the report");
        sum
    };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (few, many) = (calls("decode_few"), calls("decode_many"));
    println!("{few} system calls in all with {FEW} steps, {many} with {MANY}");
    assert!(many < few + (MANY - FEW) / 10, "{few} calls in {FEW} steps, {many} in {MANY}");
}

const FEW: usize = 100;
const MANY: usize = 2100;

#[test]
#[ignore = "run by another test, which counts its system calls"]
fn decode_few() {
    decode_alone(FEW);
}

#[test]
#[ignore = "run by another test, which counts its system calls"]
fn decode_many() {
    decode_alone(MANY);
}

fn decode_alone(steps: usize) {
    let mut rig = Rig::golden_on(&goldens()[0], &NATIVE, 2, Kernels::best());
    (0..steps / 100).for_each(|_| decode(&mut rig, 100));
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_that_waits_takes_no_processor_time() {
    use rinfer_engine::generation::Generation;
    use rinfer_engine::language::{Language, NoTemplate};
    use rinfer_engine::model::Model;
    use rinfer_engine::sample::Sampling;
    use rinfer_text::template::DateTime;
    use rinfer_text::tokenizer::Tokenizer;

    const WAIT: Duration = Duration::from_millis(300);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let rig = Rig::golden_on(&goldens()[0], &NATIVE, processors().max(2), Kernels::best());
    let tokenizer = rinfer_testkit::chat::tokenizer_json().to_string();
    let tokenizer = Tokenizer::from_json(tokenizer.as_bytes()).unwrap();
    let language = Language::new(tokenizer, Err(NoTemplate::None), Generation::default());
    let (executor, now) = (Box::new(rig.executor), || DateTime::from_unix(0));
    let model = Model::new(executor, NATIVE, rig.vocab, language, now).unwrap();
    let sampling = Sampling { max_tokens: Some(20), ..Sampling::greedy() };
    assert!(model.generate(vec![TokenId(3)], &sampling).unwrap().count() > 1);
    // The workers spin for a little while before they sleep.
    std::thread::sleep(WAIT / 3);
    let (switches, time) = proc::switches_in(|| proc::time_in(|| std::thread::sleep(WAIT)));
    assert!(time < WAIT / 60, "{time:?} of processor time in {WAIT:?}");
    assert!(switches < 5, "something woke up {switches} times in {WAIT:?}");
}

/// Half as many others as processors that take all they get: a fair scheduler leaves the team two
/// thirds of the machine, which the team must make use of. Where threads wait for one that is not
/// running, nothing is left of it.
#[test]
fn others_take_no_more_than_their_share() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (threads, others) = (processors(), processors().div_ceil(2));
    let share = threads as f64 / (threads + others) as f64;
    let mut rig = Rig::golden_on(&goldens()[0], &NATIVE, threads, Kernels::best());
    let mut rate = || {
        let (start, mut steps) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(100) {
            decode(&mut rig, 100);
            steps += 100;
        }
        f64::from(steps) / start.elapsed().as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..11).map(|_| rate() / beside(others, &mut rate)).collect();
    ratios.sort_by(f64::total_cmp);
    let left = 1.0 / ratios[ratios.len() / 2];
    println!("{left:.2} of the speed beside {others} others on {threads} processors");
    assert!(left > share * 2.0 / 3.0, "{left:.2} of the speed is left, {share:.2} would be fair");
}

/// What `work` gives while `others` threads do nothing but spin.
fn beside(others: usize, work: impl FnOnce() -> f64) -> f64 {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    spin_loop();
                }
            });
        }
        // Until the scheduler has noticed.
        std::thread::sleep(Duration::from_millis(20));
        let result = work();
        over.store(true, Relaxed);
        result
    })
}

/// What Linux says of the threads of this process.
#[cfg(target_os = "linux")]
mod proc {
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// By thread.
    type Counts = BTreeMap<std::ffi::OsString, u64>;

    fn each(file: &str, value: impl Fn(&str) -> u64) -> Counts {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap);
        // A thread may end while this looks.
        let text = |t: &std::fs::DirEntry| std::fs::read_to_string(t.path().join(file)).ok();
        threads.filter_map(|t| Some((t.file_name(), value(&text(&t)?)))).collect()
    }

    /// By how much the threads that are still there grew.
    fn growth(before: &Counts, after: &Counts) -> u64 {
        after.iter().filter_map(|(thread, n)| Some(n - before.get(thread)?)).sum()
    }

    fn switches() -> Counts {
        each("status", |text| {
            let count = text.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
            count.unwrap().trim().parse().unwrap()
        })
    }

    fn times() -> Counts {
        each("schedstat", |text| text.split(' ').next().unwrap().parse().unwrap())
    }

    /// How often a thread gave its processor up during `work`, and what that gives.
    pub fn switches_in<T>(work: impl FnOnce() -> T) -> (u64, T) {
        let before = switches();
        let result = work();
        (growth(&before, &switches()), result)
    }

    /// The processor time that `work` took.
    pub fn time_in(work: impl FnOnce()) -> Duration {
        let before = times();
        work();
        Duration::from_nanos(growth(&before, &times()))
    }
}
