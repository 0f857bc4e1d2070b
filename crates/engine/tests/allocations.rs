//! I7: a forward that has warmed up allocates nothing, on any thread.
mod rig;

use rig::{LIMITS, NATIVE, Rig, goldens};
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Slot, Span, TokenId, Want};
use rinfer_kernels::Kernels;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
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

fn counted(work: impl FnOnce()) -> usize {
    COUNT.store(0, SeqCst);
    ARMED.store(true, SeqCst);
    work();
    ARMED.store(false, SeqCst);
    COUNT.load(SeqCst)
}

/// A decoding step beside a chunk of a prompt.
fn batch(rig: &mut Rig, decoding: Slot, prompt: Slot, chunk: usize) -> Batch {
    let mut batch = Batch::default();
    for (slot, len) in [(decoding, 1), (prompt, chunk)] {
        let past = rig.executor.state().len(slot);
        assert!(rig.executor.state().reserve(slot, past + len), "no room");
        batch.rows.extend((0..len).map(|i| Row::Token(TokenId(i as u32 + 3))));
        batch.seqs.push(Span { slot, len, past, want: Want::Last });
    }
    batch
}

#[test]
fn a_warm_forward_allocates_nothing() {
    for golden in goldens() {
        for (limits, threads) in [(LIMITS, 1), (NATIVE, 2)] {
            let mut rig = Rig::golden_on(&golden, &limits, threads, Kernels::best());
            // The worker's own start is no part of a forward.
            std::thread::sleep(Duration::from_millis(50 * (threads as u64 - 1)));
            let (decoding, prompt) = (rig.open(), rig.open());
            let mut out = Logits::default();
            // Positions 0 to 90: over the border of a page.
            for step in 0..9 {
                let batch = batch(&mut rig, decoding, prompt, 10);
                let count = counted(|| rig.executor.forward(&batch, &mut out).expect("a forward"));
                assert!(step == 0 || count == 0, "{}: {count} in step {step}", golden.name);
            }
        }
    }
}
