//! Continuous batching, limits, cancelling and prefix reuse, over a scripted executor.
#![expect(clippy::unwrap_used, reason = "tests")]
mod scripted;
use rinfer_engine::backend::Limits;
use rinfer_engine::batch::TokenId;
use rinfer_engine::driver::Driver;
use rinfer_engine::engine::Engine;
use rinfer_engine::request::*;
use rinfer_engine::sample::Sampling;
use rinfer_grammar::{Constraint, GrammarError};
use scripted::{Log, Scripted, VOCAB, hashed, limits, one_hot};
use std::sync::{Arc, Mutex};

fn request(prompt: &[u32], sampling: Sampling) -> Request {
    Request {
        prompt: prompt.iter().copied().map(TokenId).collect(),
        sampling,
        end: Arc::new([TokenId(30)]),
        constraint: None,
        until: None,
        logprobs: None,
    }
}

fn greedy(prompt: &[u32], max_tokens: usize) -> Request {
    request(prompt, Sampling { max_tokens: Some(max_tokens), ..Sampling::greedy() })
}

fn engine(executor: impl Fn(&Limits) -> Scripted, limits: Limits) -> (Engine, Log) {
    let executor = executor(&limits);
    let log = executor.log.clone();
    (Engine::new(Box::new(executor), limits, VOCAB), log)
}

/// The whole answer: ids and the last event.
fn answer(events: Events) -> (Vec<u32>, Event) {
    let mut ids = Vec::new();
    for event in events {
        match event {
            Event::Started { .. } => {}
            Event::Token(chosen) => ids.push(chosen.id.0),
            last => return (ids, last),
        }
    }
    panic!("no last event")
}

fn done(events: Events) -> (Vec<u32>, Finish, Usage) {
    match answer(events) {
        (ids, Event::Done(finish, usage)) => (ids, finish, usage),
        (ids, other) => panic!("{ids:?} {other:?}"),
    }
}

#[test]
fn limits_end_answers() {
    let context = 16;
    let prompt: Vec<u32> = (0..15).collect();
    type Expected = Result<(Vec<u32>, Finish), &'static str>;
    let cases: [(&[u32], Option<usize>, Expected); 8] = [
        (&[1], Some(3), Ok((vec![2, 3, 4], Finish::Length))),
        (&[1], Some(1), Ok((vec![2], Finish::Length))),
        (&[28], Some(9), Ok((vec![29], Finish::Stop))),
        (&[1], None, Ok(((2..17).collect(), Finish::Length))),
        (&[1], Some(usize::MAX), Ok(((2..17).collect(), Finish::Length))),
        (&prompt, None, Ok((vec![15], Finish::Length))),
        (&[], None, Err("the prompt is empty: give at least one token")),
        (&[99], None, Err("the prompt has token id 99: the vocabulary has ids below 32")),
    ];
    for (prompt, max_tokens, expected) in cases {
        let (mut engine, _) = engine(Scripted::counting, limits(2, context, context, 4));
        let sampling = Sampling { max_tokens, ..Sampling::greedy() };
        match (engine.submit(request(prompt, sampling)), expected) {
            (Ok(events), Ok((ids, finish))) => {
                while engine.step() {}
                let found = done(events);
                assert_eq!((found.0, found.1), (ids, finish), "{prompt:?}");
                assert_eq!(found.2.prompt, prompt.len());
            }
            (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected),
            _ => panic!("{prompt:?}"),
        }
    }
    for len in [context, context + 1, 200] {
        let (mut engine, _) = engine(Scripted::counting, limits(2, context, context, 4));
        let Err(error) = engine.submit(request(&vec![1; len], Sampling::greedy())) else {
            panic!()
        };
        assert_eq!(error, RequestError::PromptTooLong { prompt: len, context });
        assert!(error.to_string().contains(&format!("{len} tokens")), "{error}");
    }
}

#[test]
fn decoding_goes_first_and_prompts_share() {
    let (mut engine, log) = engine(Scripted::counting, limits(4, 64, 256, 9));
    let a = engine.submit(greedy(&[1], 9)).unwrap();
    engine.step();
    let long: Vec<u32> = (0..20).map(|i| i % 10).collect();
    let b = engine.submit(greedy(&long, 1)).unwrap();
    let c = engine.submit(greedy(&[5, 6, 7], 1)).unwrap();
    while engine.step() {}
    // One row to a, which decodes; three to c, which needs no more; the rest to b.
    let second = log.lock().unwrap()[1].clone();
    assert_eq!(second, [(0, 1, 1, true), (2, 0, 3, true), (1, 0, 5, false)]);
    assert!(log.lock().unwrap().iter().all(|spans| spans.iter().map(|s| s.2).sum::<usize>() <= 9));
    assert_eq!(done(a).0, (2..11).collect::<Vec<_>>());
    assert_eq!((done(b).0, done(c).0), (vec![10], vec![8]));
}

/// Answers are the same alone, together, in chunks of any size, and when room is short.
#[test]
fn company_changes_nothing() {
    let requests = |i: u32| {
        let sampling =
            Sampling { seed: u64::from(i / 2), max_tokens: Some(12), ..Sampling::default() };
        let prompt: Vec<u32> = (0..3 + i * 2).map(|t| (t * i) % 29).collect();
        request(&prompt, Sampling { repeat_penalty: 1.1, presence_penalty: 0.2, ..sampling })
    };
    let alone: Vec<_> = (0..6)
        .map(|i| {
            let (mut engine, _) = engine(Scripted::hashing, limits(1, 40, 40, 64));
            let events = engine.submit(requests(i)).unwrap();
            while engine.step() {}
            done(events).0
        })
        .collect();
    assert!(alone.iter().any(|ids| *ids != alone[0]), "the script should give different answers");
    for (slots, positions, batch) in
        [(6, 400, 64), (6, 400, 7), (3, 60, 3), (6, 45, 16), (2, 40, 2)]
    {
        let (mut engine, _) = engine(Scripted::hashing, limits(slots, 40, positions, batch));
        let all: Vec<_> = (0..6).map(|i| engine.submit(requests(i)).unwrap()).collect();
        while engine.step() {}
        let together: Vec<_> = all.into_iter().map(|events| done(events).0).collect();
        assert_eq!(together, alone, "{slots} slots, {positions} positions, {batch} rows");
    }
}

#[test]
fn whoever_leaves_frees_the_slot() {
    let (mut engine, log) = engine(Scripted::counting, limits(1, 64, 64, 4));
    let rows = || log.lock().unwrap().len();
    // In the middle of a prompt, in the middle of an answer, and in the queue.
    let prefilling = engine.submit(greedy(&[1; 40], 1)).unwrap();
    let next = engine.submit(greedy(&[1], 20)).unwrap();
    let queued = engine.submit(greedy(&[3], 20)).unwrap();
    engine.step();
    assert_eq!(rows(), 1);
    drop(prefilling);
    engine.step();
    assert_eq!(log.lock().unwrap()[1], [(0, 0, 1, true)], "the next request runs at once");
    engine.step();
    let cancel = queued.canceller();
    cancel.cancel();
    engine.step();
    assert!(matches!(done(queued), (ids, Finish::Cancelled, _) if ids.is_empty()));
    let before = rows();
    drop(next);
    assert!(!engine.step());
    assert_eq!(rows(), before, "nothing was computed for nobody");
}

#[test]
fn prefixes_are_reused() {
    let (a, ab) = ([1, 2, 3, 4], [1, 2, 3, 4, 9, 9, 9]);
    let cold = |prompt: &[u32]| {
        let (mut engine, _) = engine(Scripted::hashing, limits(4, 64, 64, 8));
        let events = engine.submit(greedy(prompt, 5)).unwrap();
        while engine.step() {}
        done(events).0
    };
    for slots in [1, 2, 4] {
        let (mut engine, _) = engine(Scripted::hashing, limits(slots, 64, 64, 8));
        let mut cached = Vec::new();
        for prompt in [&a[..], &a, &ab, &[7, 8], &ab, &a] {
            let events = engine.submit(greedy(prompt, 5)).unwrap();
            while engine.step() {}
            let (ids, _, usage) = done(events);
            assert_eq!(ids, cold(prompt), "{slots} slots, {prompt:?}");
            cached.push(usage.cached);
        }
        assert_eq!(cached, [0, 3, 4, 0, 6, 3], "{slots} slots");
    }
}

/// Whoever asks for it takes nothing and leaves nothing.
#[test]
fn private_prompts_are_not_kept() {
    let (mut engine, _) = engine(Scripted::hashing, limits(2, 64, 64, 8));
    let prompt = [1, 2, 3, 4];
    for (shared, expected) in [(false, 0), (false, 0), (true, 0), (false, 0), (true, 3)] {
        let mut request = greedy(&prompt, 5);
        request.sampling.cache_prompt = shared;
        let events = engine.submit(request).unwrap();
        while engine.step() {}
        assert_eq!(done(events).2.cached, expected);
    }
}

/// Of requests that come together and begin alike, one computes what they have in common.
#[test]
fn what_begins_alike_is_computed_once() {
    let start: Vec<u32> = (0..100).map(|i| i * 7 % 29).collect();
    let rows = |log: &Log| log.lock().unwrap().iter().flatten().map(|s| s.2).sum::<usize>();
    let (mut engine, log) = engine(Scripted::hashing, limits(4, 256, 1024, 32));
    // Four answers to one prompt.
    let all: Vec<_> = (0..4)
        .map(|seed| {
            let sampling = Sampling { seed, max_tokens: Some(3), ..Sampling::default() };
            engine.submit(request(&start, sampling)).unwrap()
        })
        .collect();
    while engine.step() {}
    let all: Vec<_> = all.into_iter().map(|events| done(events).2.cached).collect();
    assert_eq!(all, [0, 99, 99, 99]);
    assert_eq!(rows(&log), 100 + 3 + 4 * 2, "the prompt once, its last token for each, answers");
    // Four prompts that begin alike, and one that does not and overtakes them.
    let prompt = |i: u32| [&[3][..], &start, &[i; 5]].concat();
    log.lock().unwrap().clear();
    let all: Vec<_> = (0..4).map(|i| engine.submit(greedy(&prompt(i), 3)).unwrap()).collect();
    let other = engine.submit(greedy(&[9, 9], 3)).unwrap();
    engine.step();
    let first: Vec<_> = log.lock().unwrap()[0].iter().map(|span| (span.1, span.2)).collect();
    assert_eq!(first, [(0, 2), (0, 30)]);
    while engine.step() {}
    assert_eq!(done(other).2.cached, 0);
    let all: Vec<_> = all.into_iter().map(|events| done(events).2.cached).collect();
    assert!(all[0] == 0 && all[1..].iter().all(|cached| cached + 64 > 101), "{all:?}");
    // Whoever is alone again, because the first one left, computes it.
    let prompt = |i: u32| [&[4][..], &start, &[i; 5]].concat();
    let [a, b] = [1, 2].map(|i| engine.submit(greedy(&prompt(i), 3)).unwrap());
    engine.step();
    drop(a);
    while engine.step() {}
    assert_eq!(done(b).0.len(), 3);
}

/// Eight at once in room for three, with what is kept in all of it: all are answered, as alone.
#[test]
fn a_full_cache_stops_nobody() {
    let prompt = |i: u32| (0..20 + i % 3).map(|t| (t * i + 1) % 29).collect::<Vec<u32>>();
    let alone = |i: u32| {
        let (mut engine, _) = engine(Scripted::hashing, limits(1, 64, 64, 64));
        let events = engine.submit(greedy(&prompt(i), 20)).unwrap();
        while engine.step() {}
        done(events).0
    };
    let (mut engine, _) = engine(Scripted::hashing, limits(8, 64, 150, 16));
    for round in 0..3 {
        let all: Vec<_> = (0..8).map(|i| engine.submit(greedy(&prompt(i), 20)).unwrap()).collect();
        for step in 0.. {
            assert!(step < 2000, "it goes on and on");
            if !engine.step() {
                break;
            }
        }
        for (i, events) in (0..8).zip(all) {
            assert_eq!(done(events).0, alone(i), "{i} in round {round}");
        }
    }
}

#[test]
fn a_failing_device_fails_its_requests() {
    let breaking = |limits: &Limits| Scripted::counting(limits).breaking_at(31);
    let (mut engine, _) = engine(breaking, limits(2, 64, 64, 8));
    let bad = engine.submit(greedy(&[31], 5)).unwrap();
    while engine.step() {}
    let (_, Event::Failed(error)) = answer(bad) else { panic!() };
    assert_eq!(error.to_string(), "the device failed: it broke");
    let good = engine.submit(greedy(&[1], 2)).unwrap();
    while engine.step() {}
    assert_eq!(done(good).0, [2, 3]);
}

/// Allows only even tokens, then 12 and 14 together, then nothing.
struct Even(Arc<Mutex<Vec<u32>>>);
impl Constraint for Even {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), GrammarError> {
        let over = self.complete();
        let banned = (0..).zip(logits).filter(|(id, _)| over || id % 2 == 1);
        banned.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
        Ok(())
    }
    fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        self.0.lock().unwrap().push(id);
        Ok(())
    }
    fn complete(&mut self) -> bool {
        self.0.lock().unwrap().contains(&14)
    }
    fn forced(&mut self) -> Vec<u32> {
        if self.0.lock().unwrap().len() == 2 { vec![12, 14] } else { vec![] }
    }
}

/// A fault in what one answer is held to ends that answer, and one in a pass those that were in it.
#[test]
fn a_panic_ends_its_requests() {
    struct Faulty;
    impl Constraint for Faulty {
        fn mask(&mut self, _: &mut [f32]) -> Result<(), GrammarError> {
            panic!("a fault")
        }
        fn accept(&mut self, _: u32) -> Result<(), GrammarError> {
            Ok(())
        }
        fn complete(&mut self) -> bool {
            false
        }
    }
    let (mut engine, _) = engine(Scripted::counting, limits(3, 64, 192, 8));
    let bad = Request { constraint: Some(Box::new(Faulty)), ..greedy(&[1], 9) };
    let (bad, good) = (engine.submit(bad).unwrap(), engine.submit(greedy(&[1], 9)).unwrap());
    while engine.step() {}
    let (_, Event::Failed(error)) = answer(bad) else { panic!() };
    assert_eq!(error, RequestError::Panicked("a fault".into()));
    assert_eq!(done(good).0, (2..11).collect::<Vec<u32>>());

    let script = |tokens: &[u32]| {
        assert!(tokens.last() != Some(&7), "not seven");
        one_hot(tokens[tokens.len() - 1] + 1)
    };
    let limits = limits(2, 64, 128, 8);
    let executor = Box::new(Scripted::new(&limits, script));
    let mut engine = Engine::new(executor, limits, VOCAB);
    let bad = engine.submit(greedy(&[5], 9)).unwrap();
    while engine.step() {}
    assert_eq!(answer(bad).0, [6, 7]);
    let good = engine.submit(greedy(&[10], 2)).unwrap();
    while engine.step() {}
    assert_eq!(done(good).0, [11, 12]);
}

#[test]
fn constraints_come_before_the_sampler() {
    for (max_tokens, expected, finish) in [
        (9, vec![0, 0, 12, 14], Finish::Stop),
        (3, vec![0, 0, 12], Finish::Length),
        (1, vec![0], Finish::Length),
    ] {
        let odd = |limits: &Limits| Scripted::new(limits, |_| one_hot(5));
        let (mut engine, _) = engine(odd, limits(1, 64, 64, 8));
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let constraint: Option<Box<dyn Constraint>> = Some(Box::new(Even(accepted.clone())));
        let events = engine.submit(Request { constraint, ..greedy(&[1], max_tokens) }).unwrap();
        while engine.step() {}
        let found = done(events);
        assert_eq!((found.0, found.1), (expected.clone(), finish));
        assert_eq!(*accepted.lock().unwrap(), expected);
    }
}

#[test]
fn logprobs_are_the_models_own() {
    let (mut engine, _) = engine(Scripted::hashing, limits(1, 64, 64, 8));
    let sampling = Sampling { logit_bias: vec![(TokenId(3), 50.0)], ..Sampling::greedy() };
    let sampling = Sampling { max_tokens: Some(1), ..sampling };
    let events = engine.submit(Request { logprobs: Some(2), ..request(&[1], sampling) }).unwrap();
    while engine.step() {}
    let Some(Event::Token(chosen)) = events.into_iter().nth(1) else { panic!() };
    assert_eq!((chosen.id, chosen.top.len()), (TokenId(3), 2));
    let logits = hashed(&[1]);
    let total: f32 = logits.iter().map(|l| l.exp()).sum();
    assert!((chosen.logprob.unwrap() - (logits[3].exp() / total).ln()).abs() < 1e-5);
    assert!(chosen.top[0].1 >= chosen.top[1].1);
    assert!(
        (chosen.top[0].1 - (logits[chosen.top[0].0.0 as usize].exp() / total).ln()).abs() < 1e-5
    );
}

#[test]
fn threads_share_one_engine() {
    let (engine, log) = engine(Scripted::counting, limits(4, 64, 256, 16));
    let driver = Driver::new(engine, VOCAB, 64).unwrap();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let driver = &driver;
            scope.spawn(move || {
                let events = driver.submit(greedy(&[i], 10)).unwrap();
                assert_eq!(done(events).0, (i + 1..i + 11).collect::<Vec<_>>());
            });
        }
    });
    assert!(driver.submit(greedy(&[1; 64], 1)).is_err());
    let unfinished = driver.submit(greedy(&[1], usize::MAX)).unwrap();
    drop(driver);
    drop(unfinished);
    assert!(log.lock().unwrap().iter().any(|spans| !spans.is_empty()));
}
