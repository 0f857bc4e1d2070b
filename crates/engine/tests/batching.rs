//! I1 to I3: the same bits at every batch, chunking, number of threads and instruction tier.
mod rig;

use rig::{EIGHT, LIMITS, NATIVE, Rig, assert_bits, goldens};
use rinfer_engine::backend::{Executor, Limits};
use rinfer_engine::batch::Want;
use rinfer_kernels::{Kernels, TIERS};
use rinfer_testkit::Golden;

fn usable() -> impl Iterator<Item = &'static Kernels> {
    TIERS.iter().copied().filter(|t| (t.usable)())
}

fn each(check: impl Fn(&Golden, &Limits)) {
    for golden in goldens() {
        for limits in [LIMITS, NATIVE, EIGHT] {
            check(&golden, &limits);
        }
    }
}

#[test]
fn chunks() {
    each(|golden, limits| {
        let mut rig = Rig::golden(golden, limits);
        let (ids, ..) = golden.prompt(0);
        let whole = rig.run(&ids, ids.len());
        for chunk in [1, 7, 32] {
            let what = format!("{} in chunks of {chunk}", golden.name);
            assert_bits(&rig.run(&ids, chunk), &whole, rig.vocab, &what);
        }
    });
}

#[test]
fn strangers() {
    each(|golden, limits| {
        let mut rig = Rig::golden(golden, limits);
        let vocab = rig.vocab;
        let ((a, ..), (b, ..)) = (golden.prompt(0), golden.prompt(1));
        let (alone_a, alone_b) = (rig.run(&a, 64), rig.run(&b, 64));
        let noise: Vec<i32> = (0..23).map(|i| i * 7 % 200).collect();
        let [first, second, third] = [a.len(), b.len(), noise.len()].map(|n| rig.begin(n));
        let mut together_a = Vec::new();
        // Six rows of `a` at a time, with `b` in the middle, and noise before and behind it.
        for (i, part) in a.chunks(6).enumerate() {
            let mut parts = vec![(first, part)];
            match i {
                0 => parts.insert(0, (third, &noise[..11])),
                1 => parts.insert(0, (second, &b[..])),
                2 => parts.push((third, &noise[11..])),
                _ => {}
            }
            let at: usize =
                parts.iter().take_while(|p| p.0 != first).map(|p| p.1.len() * vocab).sum();
            let logits = rig.batch(&parts);
            together_a.extend_from_slice(&logits[at..at + part.len() * vocab]);
            if i == 1 {
                assert_bits(&logits[..b.len() * vocab], &alone_b, vocab, &golden.name);
            }
        }
        assert_bits(&together_a, &alone_a, vocab, &golden.name);
    });
}

/// A sequence that outgrows LongRoPE's original length goes on as its prompt began, however it is
/// cut, shared or saved.
#[test]
fn growing() {
    let golden = Golden::load(&rinfer_testkit::shared::goldens().join("phi3_longrope"));
    let mut rig = Rig::golden(&golden, &LIMITS);
    let ((a, ..), (b, ..)) = (golden.prompt(0), golden.prompt(1));
    let (ids, prompt) = ([&b[..], &a].concat(), b.len());
    let vocab = rig.vocab;
    let mut whole = Vec::new();
    for chunk in [ids.len(), 1, 7] {
        let slot = rig.begin(prompt);
        let logits = rig.feed(slot, &ids, chunk);
        rig.close(slot);
        if whole.is_empty() {
            whole = logits;
        } else {
            assert_bits(&logits, &whole, vocab, &format!("in chunks of {chunk}"));
        }
    }
    let (longer, short) = (rig.run(&ids, ids.len()), prompt * vocab);
    assert!(longer[..short] != whole[..short], "a longer prompt is another");
    let slot = rig.begin(prompt);
    rig.feed(slot, &ids[..prompt], 64);
    rig.keep(slot, &ids[..prompt]);
    rig.close(slot);
    let other = &mut Rig::golden(&golden, &LIMITS);
    assert_eq!(other.executor.state().restore(&mut &rig.save(None)[..]), Ok(prompt));
    for rig in [&mut rig, other] {
        assert_eq!(rig.resume(35, &ids).1, 0, "a longer prompt has other positions");
        let (slot, kept) = rig.resume(prompt, &ids);
        assert_eq!(kept, prompt);
        let logits = rig.feed(slot, &ids[prompt..], ids.len());
        assert_bits(&logits, &whole[prompt * vocab..], vocab, "shared or saved");
    }
}

/// Only the wanted rows come back, in order, and wanting changes nothing.
#[test]
fn wanted_rows() {
    each(|golden, limits| {
        let mut rig = Rig::golden(golden, limits);
        let vocab = rig.vocab;
        let (ids, ..) = golden.prompt(0);
        let all = rig.run(&ids, ids.len());
        let [a, b, c] = [ids.len(); 3].map(|n| rig.begin(n));
        let parts = [
            (a, &ids[..20], Want::Last),
            (b, &ids[..25], Want::Nothing),
            (c, &ids[..18], Want::Every),
        ];
        let logits = rig.forward(&parts);
        let expect = [&all[19 * vocab..20 * vocab], &all[..18 * vocab]].concat();
        assert_bits(&logits, &expect, vocab, &golden.name);
        let logits = rig.forward(&[(b, &ids[25..], Want::Last)]);
        assert_bits(&logits, &all[(ids.len() - 1) * vocab..], vocab, &golden.name);
        assert!(rig.forward(&[(a, &ids[20..], Want::Nothing)]).is_empty());
    });
}

#[test]
fn threads_and_tiers() {
    each(|golden, limits| {
        let (ids, ..) = golden.prompt(0);
        let mut expect: Option<Vec<f32>> = None;
        for tier in usable() {
            for threads in [1, 2, 3] {
                let mut rig = Rig::golden_on(golden, limits, threads, tier);
                let logits = rig.run(&ids, 20);
                let what = format!("{} on {threads} threads of {}", golden.name, tier.name);
                let expect = expect.get_or_insert_with(|| logits.clone());
                assert_bits(&logits, expect, rig.vocab, &what);
            }
        }
    });
}
