//! State: sharing, going back, saving; what comes after has the bits of a cold run.
mod rig;

use rig::{EIGHT, LIMITS, NATIVE, Rig, assert_bits, goldens};
use rinfer_engine::backend::{Executor, Limits};
use rinfer_engine::batch::{Slot, TokenId};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::engine::Engine;
use rinfer_engine::request::{Event, Request};
use rinfer_engine::sample::Sampling;
use rinfer_engine::spec::Op;
use rinfer_engine::weights::Checkpoint;
use rinfer_testkit::Golden;

fn golden(name: &str) -> Golden {
    Golden::load(&rinfer_testkit::shared::goldens().join(name))
}

/// Ids in the vocabulary, `n` of them.
fn noise(n: usize) -> Vec<i32> {
    (0..n as i32).map(|i| (i * 37 + 11) % 251).collect()
}

/// Where a sequence can be cut that was fed a prompt of 80: anywhere, or at the copies of its recurrent
/// states.
fn reached(g: &Golden, rig: &mut Rig, slot: Slot, len: usize) -> usize {
    let reached = rig.executor.state().reach(slot, len);
    let copies = match len {
        80.. => 80,
        79 => 79,
        _ => 0,
    };
    let expected = if recurrent(g) { copies } else { len };
    assert_eq!(reached, expected, "{} at {len}", g.name);
    assert!(reached == len || !rig.executor.state().truncate(slot, len), "{}", g.name);
    reached
}

fn recurrent(g: &Golden) -> bool {
    let weights = rig::Memory(g.weights.clone());
    let config = Config::new(g.config.clone(), Source::HuggingFace);
    let spec = Checkpoint::open(config, &weights).expect("a model").spec;
    let stateless =
        |op: &Op| matches!(op, Op::Mlp(_) | Op::Moe(_) | Op::Laurel(_) | Op::InputGate(_));
    spec.ops().any(|op| !stateless(op) && !matches!(op, Op::Attention(_) | Op::Mla(_)))
}

/// What `slot` answers to `ids` is what a new sequence of `before` and `ids` answers, that began with
/// a prompt as long.
fn check(rig: &mut Rig, slot: Slot, before: &[i32], ids: &[i32], what: &str) {
    assert_eq!(rig.executor.state().len(slot), before.len(), "{what}");
    let found = rig.feed(slot, ids, 5);
    let all = [before, ids].concat();
    let fresh = rig.begin(PROMPT);
    let cold = rig.feed(fresh, &all, 64);
    rig.close(fresh);
    assert_bits(&found, &cold[before.len() * rig.vocab..], rig.vocab, what);
}

/// Tokens that sequences begin with.
const PROMPT: usize = 80;

#[test]
fn what_is_kept_is_a_cold_run() {
    let ids = noise(100);
    for g in goldens() {
        for limits in [LIMITS, NATIVE, EIGHT] {
            let rig = &mut Rig::golden(&g, &limits);
            let slot = rig.begin(PROMPT);
            for to in [64, PROMPT] {
                rig.feed(slot, &ids[to - 16 - if to == 64 { 48 } else { 0 }..to], 64);
                rig.keep(slot, &ids[..to]);
            }
            let other = &mut Rig::golden(&g, &limits);
            assert_eq!(other.executor.state().restore(&mut &rig.save(None)[..]), Ok(PROMPT));
            let single = &mut Rig::golden(&g, &limits);
            let of_one = rig.save(Some(&ids[..79]));
            assert_eq!(single.executor.state().restore(&mut &of_one[..]), Ok(79));
            for len in [80, 79, 64, 63, 17] {
                let (last, copy) = (len.min(79), if len < 79 { 0 } else { 79 });
                for (rig, what) in
                    [(&mut *rig, "shared"), (&mut *other, "restored"), (&mut *single, "one of all")]
                {
                    let what = format!("{} {what} at {len}", g.name);
                    let (fork, found) = rig.resume(PROMPT, &ids[..len]);
                    let whole = if what.contains(" one of all") { last } else { len };
                    assert_eq!(found, if recurrent(&g) { copy } else { whole }, "{what}");
                    check(rig, fork, &ids[..found], &ids[found..100], &what);
                    rig.close(fork);
                }
            }
            check(rig, slot, &ids[..80], &ids[80..83], &format!("{}, whose it was", g.name));
            assert_eq!(rig.executor.state().kept(), PROMPT);
        }
    }
}

#[test]
fn sequences_go_back() {
    let ids = noise(100);
    for g in goldens() {
        for limits in [LIMITS, NATIVE, EIGHT] {
            let rig = &mut Rig::golden(&g, &limits);
            let slot = rig.begin(PROMPT);
            rig.feed(slot, &ids[..PROMPT], 64);
            for len in [80, 79, 70, 64, 3, 0] {
                let len = reached(&g, rig, slot, len);
                assert!(rig.executor.state().truncate(slot, len));
                let next = &ids[len..len + 3];
                check(rig, slot, &ids[..len], next, &format!("{} cut to {len}", g.name));
                let back = rig.executor.state().reach(slot, len);
                assert!(rig.executor.state().truncate(slot, back));
            }
        }
    }
}

/// LongRoPE has other positions for prompts beyond the original length, here 34: a kept state serves
/// prompts of its own kind alone, and an answer is that of a cold run.
#[test]
fn kept_states_serve_their_kind() {
    let g = golden("phi3_longrope");
    let rig = Rig::golden(&g, &LIMITS);
    let mut engine = Engine::new(Box::new(rig.executor), LIMITS, rig.vocab);
    let mut ask = |prompt: &[i32]| {
        let request = Request {
            prompt: prompt.iter().map(|id| TokenId(*id as u32)).collect(),
            sampling: Sampling { max_tokens: Some(8), ..Sampling::greedy() },
            end: [].into(),
            constraint: None,
            until: None,
            logprobs: None,
        };
        let events = engine.submit(request).expect("a request that can run");
        while engine.step() {}
        let (mut answer, mut cached) = (Vec::new(), 0);
        for event in events {
            match event {
                Event::Started { cached: n } => cached = n,
                Event::Token(chosen) => answer.push(chosen.id.0 as i32),
                Event::Done(..) => break,
                Event::Failed(e) => panic!("{e}"),
            }
        }
        assert_eq!(answer, Rig::golden(&g, &LIMITS).greedy(prompt, 8));
        cached
    };
    let ids = noise(60);
    assert_eq!(ask(&ids[..20]), 0);
    assert_eq!(ask(&ids[..34]), 20);
    assert_eq!(ask(&ids[..35]), 0, "a longer prompt has other positions");
    assert_eq!(ask(&ids[..60]), 35);
    assert_eq!(ask(&ids[..30]), 29, "the shorter one's are still there");
}

/// A page that two sequences share is written by neither.
#[test]
fn shared_pages_are_copied() {
    let rig = &mut Rig::golden(&golden("llama3"), &LIMITS);
    let ids = noise(100);
    let a = rig.begin(PROMPT);
    rig.feed(a, &ids[..PROMPT], 64);
    rig.keep(a, &ids[..80]);
    let (b, c) = (rig.resume(PROMPT, &ids[..10]), rig.resume(PROMPT, &ids[..70]));
    assert_eq!((b.1, c.1), (10, 70));
    rig.feed(b.0, &noise(70)[40..], 64);
    rig.feed(c.0, &noise(70)[40..], 64);
    check(rig, a, &ids[..80], &ids[80..], "the other's page");
    rig.close(a);
    let (d, kept) = rig.resume(PROMPT, &ids);
    check(rig, d, &ids[..kept], &ids[kept..], "what was kept");
}

#[test]
fn room_is_counted() {
    let limits = Limits { slots: 3, context: 200, positions: 256, ..LIMITS };
    let rig = &mut Rig::golden(&golden("llama3"), &limits);
    let state = rig.executor.state();
    assert_eq!(state.room(), 256);
    let a = state.open().unwrap();
    assert!(!state.reserve(a, 201), "beyond the context");
    assert!(state.reserve(a, 130) && state.reserve(a, 1));
    assert_eq!(state.room(), 64);
    let b = state.open().unwrap();
    assert!(!state.reserve(b, 65), "beyond the pages");
    assert!(state.reserve(b, 64));
    assert_eq!(state.room(), 0);
    let c = state.open().unwrap();
    assert!(state.open().is_none() && !state.reserve(c, 1));
    state.close(a);
    assert_eq!(state.room(), 192);
    assert!(state.truncate(b, 0));
    assert_eq!(state.room(), 256);
}

/// Layers with a window give back what no query sees any more, and a sequence may grow far beyond
/// what they hold.
#[test]
fn windows_forget() {
    let ids = noise(900);
    let limits = Limits { slots: 2, context: 1024, positions: 2048, batch: 16, ..LIMITS };
    for name in ["mistral", "gemma3_text", "gemma3n_text", "gemma4_e2b"] {
        let g = golden(name);
        let rig = &mut Rig::golden(&g, &limits);
        let (a, b) = (rig.begin(836), rig.open());
        // A window of 8 reaches from here into the page before.
        rig.feed(a, &ids[..836], 16);
        rig.feed(b, &ids[..700], 16);
        rig.close(b);
        rig.keep(a, &ids[..836]);
        rig.close(a);
        let roomy = Limits { batch: 64, ..limits.clone() };
        let expect = Rig::golden(&g, &roomy).run(&ids, 64);
        let other = &mut Rig::golden(&g, &limits);
        assert_eq!(other.executor.state().restore(&mut &rig.save(None)[..]), Ok(836));
        for rig in [&mut *rig, other] {
            let (short, found) = rig.resume(836, &ids[..300]);
            assert_eq!(found, 0, "{name}: the window's pages are gone");
            rig.close(short);
            let (slot, found) = rig.resume(836, &ids);
            assert_eq!(found, 836, "{name}");
            let tail = rig.feed(slot, &ids[836..], 16);
            assert_bits(&tail, &expect[836 * rig.vocab..], rig.vocab, name);
            rig.close(slot);
        }
        // What is kept as it is computed has them, as long as nobody needs the room.
        let rig = &mut Rig::golden(&g, &limits);
        let slot = rig.begin(300);
        for to in (16..=300).step_by(16).chain([300]) {
            let from = rig.executor.state().len(slot);
            rig.feed(slot, &ids[from..to], 16);
            rig.keep(slot, &ids[..to]);
        }
        let (fork, found) = rig.resume(300, &ids[..290]);
        assert_eq!(found, 290, "{name}");
        let tail = rig.feed(fork, &ids[290..320], 16);
        assert_bits(&tail, &expect[290 * rig.vocab..320 * rig.vocab], rig.vocab, name);
        rig.feed(slot, &ids[300..600], 16);
        rig.feed(fork, &ids[320..600], 16);
        let tail = rig.feed(slot, &ids[600..700], 16);
        assert_bits(&tail, &expect[600 * rig.vocab..700 * rig.vocab], rig.vocab, name);
        let state = rig.executor.state();
        assert!(state.truncate(slot, 690), "a few positions can be taken back");
        assert!(!state.truncate(slot, 40), "what is forgotten");
        assert_eq!(state.len(slot), 690);
        assert!(state.truncate(slot, 0), "a new start is always possible");
    }
}

/// Whoever asks the same again, or goes on from the same prompt, goes on from its recurrent states. Where
/// two prompts part, the second leaves a state for the third.
#[test]
fn recurrent_prefixes_are_reused() {
    let request = |prompt: &[i32]| Request {
        prompt: prompt.iter().map(|id| TokenId(*id as u32)).collect(),
        sampling: Sampling { max_tokens: Some(6), ..Sampling::greedy() },
        end: [].into(),
        constraint: None,
        until: None,
        logprobs: None,
    };
    let answer = |engine: &mut Engine, prompt: &[i32]| {
        let events = engine.submit(request(prompt)).expect("a request");
        while engine.step() {}
        let (mut ids, mut cached) = (Vec::new(), 0);
        for event in events {
            match event {
                Event::Token(chosen) => ids.push(chosen.id),
                Event::Started { cached: n } => cached = n,
                _ => (),
            }
        }
        (ids, cached)
    };
    let ids = noise(60);
    for name in ["mamba2", "lfm2"] {
        let g = golden(name);
        let new = |slots| {
            let limits = Limits { slots, batch: 32, ..LIMITS };
            let rig = Rig::golden(&g, &limits);
            Engine::new(Box::new(rig.executor), limits, rig.vocab)
        };
        for slots in [1, 3] {
            let engine = &mut new(slots);
            let with = |n: usize, other: i32| {
                ids[..n].iter().copied().chain([other; 9]).collect::<Vec<_>>()
            };
            let cases = [
                (ids[..50].to_vec(), 0),
                (ids[..50].to_vec(), 49),
                (ids.clone(), 49),
                (with(30, 1), 0),
                (with(30, 2), 30),
                (with(30, 3), 30),
            ];
            for (i, (prompt, expected)) in cases.iter().enumerate() {
                let (found, cached) = answer(engine, prompt);
                assert_eq!(found, answer(&mut new(1), prompt).0, "{name}, {slots} slots, {i}");
                assert_eq!(cached, *expected, "{name}, {slots} slots, {i}");
            }
        }
    }
}

/// Prompts leave states at multiples of 512 positions, however they are cut.
#[test]
fn long_prompts_leave_states_on_the_way() {
    let g = golden("mamba2");
    let ids = noise(1300);
    for batch in [300, 512, 1400] {
        let limits = Limits { slots: 2, context: 1400, positions: 2800, batch, ..LIMITS };
        let rig = &mut Rig::golden(&g, &limits);
        let slot = rig.begin(1300);
        loop {
            let from = rig.executor.state().len(slot);
            let rows = rig.executor.state().stride(slot, batch.min(1300 - from));
            if rows == 0 {
                break;
            }
            rig.feed(slot, &ids[from..from + rows], rows);
            rig.keep(slot, &ids[..from + rows]);
        }
        for (asked, expected) in [(1300, 1299), (1298, 1024), (1000, 512), (512, 512), (511, 0)] {
            let (fork, found) = rig.resume(1300, &ids[..asked]);
            assert_eq!(found, expected, "by {batch}, {asked}");
            rig.close(fork);
        }
    }
}

/// A tree that needs more than there is gives up what was used longest ago, and nothing that runs.
#[test]
fn what_is_kept_makes_room() {
    let g = golden("llama3");
    let limits = Limits { slots: 3, context: 192, positions: 256, ..LIMITS };
    let rig = &mut Rig::golden(&g, &limits);
    let prompt = |first: i32| [&[first][..], &noise(99)].concat();
    let ask = |rig: &mut Rig, ids: &[i32]| {
        let (slot, found) = rig.resume(ids.len(), &ids[..ids.len() - 1]);
        rig.feed(slot, &ids[found..], 64);
        rig.keep(slot, ids);
        rig.close(slot);
        found
    };
    assert_eq!((ask(rig, &prompt(1)), ask(rig, &prompt(2))), (0, 0));
    assert_eq!(rig.executor.state().kept(), 200);
    assert_eq!(ask(rig, &prompt(1)), 99);
    assert_eq!(ask(rig, &prompt(3)), 0);
    assert_eq!(ask(rig, &prompt(1)), 99, "it was used later than the second");
    assert!(ask(rig, &prompt(2)) < 99);
    assert!(rig.executor.state().kept() <= 256);
    // All of it is the running sequences' if they need it.
    let (a, b) = (rig.open(), rig.open());
    let state = rig.executor.state();
    assert!(state.reserve(a, 128) && state.reserve(b, 128) && !state.reserve(a, 129));
    assert_eq!(state.kept(), 0);
    rig.close(b);
    let ids = prompt(1);
    let cold = rig.feed(a, &ids, 64);
    rig.keep(a, &ids);
    let (b, found) = rig.resume(100, &ids[..99]);
    assert_eq!(found, 99);
    let last = rig.feed(b, &ids[99..], 64);
    assert_bits(&last, &cold[99 * rig.vocab..], rig.vocab, "shared with who runs");
    // A prompt that is held three times over takes its pages once.
    let (c, found) = rig.resume(100, &ids);
    assert_eq!((found, rig.executor.state().room()), (100, 64));
    rig.close(c);
}

/// Bytes that were not written by a state, or were changed, are refused or wrong, never a panic, and
/// what is refused leaves nothing.
#[test]
fn damaged_states_are_no_panic() {
    for (name, limits) in [("llama3", LIMITS), ("mamba2", LIMITS), ("gemma3_text", EIGHT)] {
        let g = golden(name);
        let limits = Limits { context: 128, ..limits };
        let rig = &mut Rig::golden(&g, &limits);
        let (ids, slot) = (noise(90), rig.begin(90));
        rig.feed(slot, &ids, 64);
        rig.keep(slot, &ids);
        let good = rig.save(None);
        let other = &mut Rig::golden(&g, &Limits { context: 80, ..limits.clone() });
        let refuse = |rig: &mut Rig, bytes: &[u8], expect: &str| {
            let error = rig.executor.state().restore(&mut &bytes[..]).expect_err(expect);
            assert!(error.contains(expect), "{error:?}, expected {expect:?}");
            assert_eq!(rig.executor.state().kept(), 0, "{error}");
        };
        refuse(other, &good, "90 positions in a row, the context 80");
        let fresh = &mut Rig::golden(&g, &limits);
        for n in [0, 3, 4, 20, good.len() / 2, good.len() - 1] {
            refuse(fresh, &good[..n], "can't be read to its end");
        }
        refuse(fresh, &[&good[..], &[0]].concat(), "more behind its end");
        for at in (0..good.len().min(600)).chain([good.len() - 1]) {
            for bit in [1, 0x40, 0x80] {
                let mut bad = good.clone();
                bad[at] ^= bit;
                let _ = fresh.executor.state().restore(&mut &bad[..]);
            }
        }
        let tight = &mut Rig::golden(&g, &Limits { slots: 1, positions: 128, ..limits.clone() });
        let full = tight.begin(100);
        tight.feed(full, &noise(100), 64);
        tight.keep(full, &noise(100));
        let restored = tight.executor.state().restore(&mut &good[..]);
        let there = name == "mamba2" || restored.is_ok();
        assert!(there || restored.is_err_and(|e| e.contains("no room for all its pages")));
    }
}
