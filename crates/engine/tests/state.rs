//! State: sharing, going back, saving; what comes after has the bits of a cold run.
mod rig;

use rig::{EIGHT, LIMITS, NATIVE, Rig, assert_bits, goldens};
use rinfer_engine::backend::{Executor, Kv, Limits};
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

/// What a state reaches that was fed 80 rows by 64: any length, or those of a recurrent state's
/// copies.
fn reached(g: &Golden, rig: &mut Rig, slot: Slot, len: usize) -> usize {
    let reached = rig.executor.state().reach(slot, len);
    let copies = match len {
        80.. => 80,
        79 => 79,
        63.. => 63,
        _ => 0,
    };
    let expected = if recurrent(g) { copies } else { len };
    assert_eq!(reached, expected, "{} at {len}", g.name);
    if reached < len {
        let state = rig.executor.state();
        assert!(state.fork(slot, len).is_none() && !state.truncate(slot, len), "{}", g.name);
    }
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
fn fork_truncate_save_restore() {
    let ids = noise(100);
    for g in goldens() {
        for limits in [LIMITS, NATIVE, EIGHT] {
            let rig = &mut Rig::golden(&g, &limits);
            let slot = rig.begin(PROMPT);
            rig.feed(slot, &ids[..PROMPT], 64);
            for len in [80, 79, 64, 63, 17] {
                let len = reached(&g, rig, slot, len);
                let fork = rig.executor.state().fork(slot, len).expect("room");
                check(
                    rig,
                    fork,
                    &ids[..len],
                    &ids[len..100],
                    &format!("{} forked at {len}", g.name),
                );
                rig.close(fork);
            }
            let saved = rig.executor.state().save(slot);
            let restored = rig.executor.state().restore(&saved).expect("room");
            check(rig, restored, &ids[..80], &ids[80..], &format!("{} restored", g.name));
            rig.close(restored);
            let restored = rig.executor.state().restore(&saved).expect("room");
            let mut cut = |slot, len| {
                let len = reached(&g, rig, slot, len);
                assert!(rig.executor.state().truncate(slot, len));
                let next = &ids[len..len + 3];
                check(rig, slot, &ids[..len], next, &format!("{} cut to {len}", g.name));
                let back = rig.executor.state().reach(slot, len);
                assert!(rig.executor.state().truncate(slot, back));
            };
            [80, 79, 70, 64, 3, 0].into_iter().for_each(|len| cut(slot, len));
            // Of what is behind a window, the saved state has none.
            [80, 79].into_iter().for_each(|len| cut(restored, len));
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
            keep: true,
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
    let b = rig.executor.state().fork(a, 64).expect("room");
    assert!(rig.executor.state().truncate(b, 10));
    rig.feed(b, &noise(70)[40..], 64);
    check(rig, a, &ids[..80], &ids[80..], "the other's page");
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
        let (a, b) = (rig.open(), rig.open());
        // A window of 8 reaches from here into the page before.
        rig.feed(a, &ids[..836], 16);
        rig.feed(b, &ids[..700], 16);
        rig.close(b);
        let saved = rig.executor.state().save(a);
        let restored = rig.executor.state().restore(&saved).expect("room");
        rig.close(a);
        let tail = rig.feed(restored, &ids[836..], 16);
        rig.close(restored);
        let roomy = Limits { batch: 64, ..limits.clone() };
        let expect = Rig::golden(&g, &roomy).run(&ids, 64);
        assert_bits(&tail, &expect[836 * rig.vocab..], rig.vocab, name);

        let slot = rig.open();
        rig.feed(slot, &ids[..300], 16);
        let fork = rig.executor.state().fork(slot, 290).expect("room");
        let tail = rig.feed(fork, &ids[290..320], 16);
        assert_bits(&tail, &expect[290 * rig.vocab..320 * rig.vocab], rig.vocab, name);
        let state = rig.executor.state();
        assert!(state.truncate(slot, 290), "a few positions can be taken back");
        assert!(!state.truncate(slot, 40) && state.fork(slot, 40).is_none(), "what is forgotten");
        assert_eq!(state.len(slot), 290);
        assert!(state.truncate(slot, 0), "a new start is always possible");
    }
}

/// Whoever asks the same again, or goes on from the same prompt, goes on from its recurrent states;
/// whoever leaves it earlier is computed anew.
#[test]
fn recurrent_prefixes_are_reused() {
    let request = |prompt: &[i32]| Request {
        prompt: prompt.iter().map(|id| TokenId(*id as u32)).collect(),
        sampling: Sampling { max_tokens: Some(6), ..Sampling::greedy() },
        end: [].into(),
        constraint: None,
        until: None,
        logprobs: None,
        keep: true,
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
            for (prompt, expected) in
                [(&ids[..50], 0), (&ids[..50], 49), (&ids[..60], 49), (&ids[..40], 31)]
            {
                let (found, cached) = answer(engine, prompt);
                assert_eq!(found, answer(&mut new(1), prompt).0, "{name}, {slots} slots");
                assert_eq!(cached, expected, "{name}, {slots} slots");
            }
        }
    }
}

#[test]
fn saved_states_are_checked() {
    let rig = &mut Rig::golden(&golden("llama3"), &LIMITS);
    let slot = rig.open();
    rig.feed(slot, &noise(30), 64);
    let good = rig.executor.state().save(slot);
    assert_eq!(good.len(), 40 + 8 + 30 * 3 * 2 * 32 * 4, "only what is used");
    let refuse = |rig: &mut Rig, bytes: &[u8], expect: &str| {
        let error = rig.executor.state().restore(bytes).expect_err(expect);
        assert!(error.contains(expect), "{error:?}, expected {expect:?}");
    };
    for n in [0, 7, 39, good.len() - 1] {
        let expect = if n < 40 { "cut short" } else { "damaged" };
        refuse(rig, &good[..n], expect);
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        assert!(rig.executor.state().restore(&bad).is_err(), "byte {at}");
    }
    refuse(rig, &[&good[..], &[0]].concat(), "damaged");
    let other = &mut Rig::golden(&golden("llama31"), &LIMITS);
    refuse(other, &good, "another model");
    let half = &mut Rig::golden(&golden("llama3"), &Limits { kv: Kv::F16, ..LIMITS });
    refuse(half, &good, "f32 keys and values, this model's of f16");
    let small = &mut Rig::golden(&golden("llama3"), &Limits { context: 20, ..LIMITS });
    refuse(small, &good, "30 positions, the context 20");
    let tight = &mut Rig::golden(&golden("llama3"), &Limits { positions: 64, ..LIMITS });
    let full = tight.open();
    tight.feed(full, &noise(1), 1);
    refuse(tight, &good, "no room for the 30 positions");
    assert!(rig.executor.state().restore(&good).is_ok());
}
