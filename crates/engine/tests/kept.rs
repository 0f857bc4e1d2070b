//! What requests leave to each other, in memory and in files: answers have the bits of a cold run, and
//! a file is for its model alone, and whole.
#![expect(clippy::unwrap_used, reason = "tests")]
mod rig;

use rig::{LIMITS, NATIVE, Rig, goldens, tokens};
use rinfer_engine::backend::{Kv, Limits};
use rinfer_engine::engine::Engine;
use rinfer_engine::request::{Event, Events, Request};
use rinfer_engine::sample::Sampling;
use rinfer_testkit::{Golden, shared};
use std::path::PathBuf;

fn engine(golden: &Golden, limits: &Limits) -> Engine {
    let rig = Rig::golden(golden, limits);
    Engine::new(Box::new(rig.executor), limits.clone(), rig.vocab)
}

fn golden(name: &str) -> Golden {
    Golden::load(&shared::goldens().join(name))
}

fn request(prompt: &[i32], most: usize) -> Request {
    Request {
        prompt: tokens(prompt),
        sampling: Sampling { max_tokens: Some(most), ..Sampling::greedy() },
        end: [].into(),
        constraint: None,
        until: None,
        logprobs: Some(0),
    }
}

/// Ids with the bits of their log-probabilities, and how much of the prompt was kept.
type Answer = (Vec<(u32, u32)>, usize);

fn collect(events: Events) -> Answer {
    let mut all = Vec::new();
    for event in events {
        match event {
            Event::Started { .. } => {}
            Event::Token(chosen) => all.push((chosen.id.0, chosen.logprob.unwrap().to_bits())),
            Event::Done(_, usage) => return (all, usage.cached),
            Event::Failed(error) => panic!("{error}"),
        }
    }
    panic!("no end")
}

fn ask(engine: &mut Engine, prompt: &[i32]) -> Answer {
    let events = engine.submit(request(prompt, 6)).unwrap();
    while engine.step() {}
    collect(events)
}

fn noise(n: i32, salt: i32) -> Vec<i32> {
    (0..n).map(|i| (i * i * 7 + salt * 31 + 11) % 251).collect()
}

fn path(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kept");
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

/// K1 and K6: one after another and all together, by any mixer, what is asked again is answered again.
#[test]
fn k1_warm_is_cold() {
    let a = noise(70, 0);
    let ab = [&a[..], &noise(25, 1)].concat();
    let b = noise(30, 2);
    let other = [&a[..66], &noise(20, 3)].concat();
    let all = [&a, &a, &ab, &b, &a, &other, &ab];
    for g in goldens() {
        let limits = Limits { batch: 24, ..NATIVE };
        let cold = all.map(|prompt| ask(&mut engine(&g, &limits), prompt).0);
        let warm = &mut engine(&g, &limits);
        for (prompt, cold) in all.iter().zip(&cold) {
            let (found, cached) = ask(warm, prompt);
            assert_eq!(found, *cold, "{}, {cached} of {}", g.name, prompt.len());
            assert!(cached < prompt.len());
        }
        assert_eq!(ask(warm, &a).1, 69, "{}: the same again", g.name);
        let together = &mut engine(&g, &limits);
        let events = all.map(|prompt| together.submit(request(prompt, 6)).unwrap());
        while together.step() {}
        let found = events.map(collect);
        assert_eq!(found.each_ref().map(|answer| &answer.0), cold.each_ref(), "{}", g.name);
        assert_eq!((found[0].1, found[1].1), (0, 69), "{}: asked twice, computed once", g.name);
    }
}

/// K2: a file holds what was computed, and gives the same bits after a restart.
#[test]
fn k2_files_are_for_their_model() {
    let g = golden("llama3");
    let limits = Limits { context: 200, ..LIMITS };
    let (prompt, other, path) = (noise(70, 0), noise(40, 1), path("k2"));
    let warm = &mut engine(&g, &limits);
    let cold = [&prompt, &other].map(|prompt| ask(warm, prompt).0);
    let positions = warm.save(None, b"", &path).unwrap();
    assert_eq!(positions, 75 + 45, "the last token of an answer is never computed");
    let bytes = std::fs::read(&path).unwrap();
    // Three layers, two heads of 16, keys and values of f32; 4 bytes a token, few to a page.
    let data = positions * (3 * 2 * 2 * 16 * 4 + 4);
    assert!((data..data + 200).contains(&bytes.len()), "only what is used: {}", bytes.len());

    let next = &mut engine(&g, &limits);
    assert_eq!(next.restore(&path).unwrap().positions, positions);
    assert_eq!(ask(next, &prompt), (cold[0].clone(), 69));
    assert_eq!(ask(next, &other), (cold[1].clone(), 39));
    // One prompt's alone, with a note.
    let part = path.with_extension("part-of-it");
    assert_eq!(warm.save(Some(&tokens(&prompt)), b"a note", &part).unwrap(), 70);
    let next = &mut engine(&g, &limits);
    let restored = next.restore(&part).unwrap();
    assert_eq!((restored.positions, &restored.note[..]), (70, &b"a note"[..]));
    assert_eq!(ask(next, &other).1, 0);
    assert_eq!(ask(next, &prompt), (cold[0].clone(), 69));
    let error = warm.save(Some(&tokens(&[250, 250])), b"", &part).unwrap_err().to_string();
    assert!(error.contains("nothing is kept of these tokens"), "{error}");
    assert_eq!(next.restore(&part).unwrap(), restored, "the older file is still there");

    let refuse = |engine: &mut Engine, bytes: &[u8], expect: &str| {
        let path = path.with_extension("bad");
        std::fs::write(&path, bytes).unwrap();
        let error = engine.restore(&path).expect_err(expect).to_string();
        assert!(error.contains(expect) && error.contains("k2.bad"), "{error}, not {expect}");
    };
    let fresh = &mut engine(&g, &limits);
    refuse(fresh, b"", "no saved state");
    refuse(fresh, b"GGUF, for example", "no saved state");
    for n in [8, 63, 64, bytes.len() - 1] {
        refuse(fresh, &bytes[..n], "cut short");
    }
    refuse(fresh, &[&bytes[..], b"x"].concat(), "cut short or longer");
    for at in (0..200).chain((200..bytes.len()).step_by(997)) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        refuse(fresh, &bad, "");
    }
    let mut bad = bytes.clone();
    bad[8] = 99;
    refuse(fresh, &bad, "version 99, expected 3");
    bad = bytes.clone();
    bad[100] ^= 1;
    refuse(fresh, &bad, "damaged");
    let error = fresh.restore(&path.with_extension("none")).unwrap_err().to_string();
    assert!(error.contains("k2.none is not restored: No such file"), "{error}");
    assert_eq!(ask(fresh, &prompt), (cold[0].clone(), 0), "nothing of them is kept");

    // The same hyper-parameters with other weights, another precision, a smaller context.
    let mut tuned = golden("llama3");
    let norm = tuned.weights.get_mut("model.norm.weight").unwrap();
    norm.bytes[0] ^= 1;
    refuse(&mut engine(&tuned, &limits), &bytes, "of another model");
    let eight = Limits { kv: Kv::Q8, ..limits.clone() };
    refuse(&mut engine(&g, &eight), &bytes, "of another model");
    refuse(&mut engine(&g, &Limits { context: 60, ..limits }), &bytes, "the context 60");
}

/// A file is written while answers are under way, and they go on.
#[test]
fn saving_disturbs_nobody() {
    let g = golden("mamba2");
    let limits = Limits { slots: 2, context: 200, ..NATIVE };
    let cold: Vec<_> = (0..3).map(|i| ask(&mut engine(&g, &limits), &noise(40, i)).0).collect();
    let busy = &mut engine(&g, &limits);
    let events: Vec<_> = (0..3).map(|i| busy.submit(request(&noise(40, i), 6)).unwrap()).collect();
    (0..3).for_each(|_| assert!(busy.step()));
    let path = path("busy");
    busy.save(None, b"", &path).unwrap();
    while busy.step() {}
    let found: Vec<_> = events.into_iter().map(|events| collect(events).0).collect();
    assert_eq!(found, cold);
    let next = &mut engine(&g, &limits);
    next.restore(&path).unwrap();
    assert_eq!(ask(next, &noise(40, 0)), (cold[0].clone(), 39));
}

/// K5: any number of prompts takes the room that there is, and the last ones are there.
#[test]
fn k5_what_is_kept_is_bounded() {
    for name in ["llama3", "mamba2", "gemma3_text"] {
        let limits = Limits { slots: 2, context: 128, positions: 512, batch: 64, ..NATIVE };
        let warm = &mut engine(&golden(name), &limits);
        for i in 0..200 {
            let (prompt, kept) = (noise(40 + i % 30, i), warm.kept());
            assert_eq!(ask(warm, &prompt).1, 0);
            let kept = kept.load(std::sync::atomic::Ordering::Relaxed);
            assert!((prompt.len()..=512).contains(&kept), "{name}: {kept}");
            assert_eq!(ask(warm, &prompt).1, prompt.len() - 1, "{name}");
        }
    }
}
