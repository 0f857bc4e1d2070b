//! I7: a forward that has warmed up allocates nothing, on any thread, and an engine's step little.
mod rig;

use rig::{LIMITS, NATIVE, Rig, goldens};
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Slot, Span, TokenId, Want};
use rinfer_engine::engine::Engine;
use rinfer_engine::request::Request;
use rinfer_engine::sample::Sampling;
use rinfer_kernels::Kernels;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The system's allocator, counting.
struct Counting;

static ARMED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is the system allocator's; counting neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The main thread is the test harness's, which may do as it likes.
        if ARMED.load(SeqCst) && std::thread::current().name() != Some("main") {
            COUNT.fetch_add(1, SeqCst);
        }
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the test that counts.
static ALONE: Mutex<()> = Mutex::new(());

fn counted(work: impl FnOnce()) -> usize {
    COUNT.store(0, SeqCst);
    ARMED.store(true, SeqCst);
    work();
    ARMED.store(false, SeqCst);
    COUNT.load(SeqCst)
}

/// A step as the engine makes it: pages for a decoding row beside a chunk of a prompt, and a pass.
fn step(rig: &mut Rig, slots: &[Slot], chunk: usize, batch: &mut Batch, out: &mut Logits) {
    batch.rows.clear();
    batch.seqs.clear();
    for (slot, len) in slots.iter().copied().zip([1, chunk]) {
        let past = rig.executor.state().len(slot);
        assert!(rig.executor.state().reserve(slot, past + len), "no room");
        batch.rows.extend((0..len).map(|i| Row::Token(TokenId(i as u32 + 3))));
        batch.seqs.push(Span { slot, len, past, want: Want::Last });
    }
    rig.executor.forward(batch, out).expect("a forward");
}

#[test]
fn a_warm_forward_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for golden in goldens() {
        for (limits, threads) in [(LIMITS, 1), (LIMITS, 2), (NATIVE, 1), (NATIVE, 2)] {
            let mut rig = Rig::golden_on(&golden, &limits, threads, Kernels::best());
            // The worker's own start is no part of a forward.
            std::thread::sleep(Duration::from_millis(50 * (threads as u64 - 1)));
            // Nor does counting allocate.
            rig.executor.profile(threads > 1);
            let slots = [rig.open(), rig.open()];
            let (mut batch, mut out) = (Batch::default(), Logits::default());
            batch.rows.reserve(20);
            // The prompt's positions 0 to 99, then the decoding row's to 70: both pass the border
            // of a page. One step has 20 rows: MLPs compute so many in another way.
            for i in 0..70 {
                let chunk = match i {
                    4 => 19,
                    0..9 => 10,
                    _ => 0,
                };
                let spans = if chunk == 0 { &slots[..1] } else { &slots[..] };
                let count = counted(|| step(&mut rig, spans, chunk, &mut batch, &mut out));
                assert!(i == 0 || count == 0, "{}: {count} in step {i}", golden.name);
            }
        }
    }
}

/// Beside the forward, a token costs the engine its part of a block of the channel to whoever asked.
#[test]
fn a_step_of_the_engine_allocates_blocks_of_events() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const STEPS: usize = 90;
    for sampling in [Sampling::greedy(), Sampling::default()] {
        for (golden, sequences) in goldens().iter().zip([1, 3, 2].into_iter().cycle()) {
            let rig = Rig::golden_on(golden, &NATIVE, 1, Kernels::best());
            let mut engine = Engine::new(Box::new(rig.executor), NATIVE, rig.vocab);
            let events: Vec<_> = (0..sequences)
                .map(|i| {
                    let sampling = Sampling { max_tokens: Some(120), ..sampling.clone() };
                    let (prompt, end) = (vec![TokenId(i + 3); 4], [].into());
                    let (constraint, until, logprobs) = (None, None, None);
                    engine.submit(Request { prompt, sampling, end, constraint, until, logprobs })
                })
                .collect();
            let steps = |engine: &mut Engine, n| (0..n).for_each(|_| assert!(engine.step()));
            steps(&mut engine, 8);
            let count = counted(|| steps(&mut engine, STEPS));
            // 31 events to a block; and the list of tokens doubles.
            let may = sequences as usize * (STEPS / 31 + 1 + 4);
            assert!(count <= may, "{}: {count} in {STEPS} steps", golden.name);
            drop(events);
        }
    }
}
