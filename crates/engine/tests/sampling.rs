//! What the sampler chooses.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_engine::batch::TokenId;
use rinfer_engine::sample::{Sampler, Sampling};

fn pick(s: &Sampling, logits: &[f32], position: u32) -> Option<u32> {
    let history: Vec<TokenId> = (0..position).map(|_| TokenId(0)).collect();
    let mut sampler = Sampler::new(s, logits.len(), history.len()).unwrap();
    sampler.pick(&mut logits.to_vec(), &history).map(|id| id.0)
}

#[test]
fn ranges() {
    let d = Sampling::default;
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let good = [
        Sampling { temperature: 0.0, ..d() },
        Sampling { temperature: -0.0, ..d() },
        Sampling { temperature: 1e-38, ..d() },
        Sampling { temperature: 1e6, ..d() },
        Sampling { top_p: 0.0, ..d() },
        Sampling { top_p: 1.0, ..d() },
        Sampling { min_p: 1.0, top_k: 0, ..d() },
        Sampling { top_k: usize::MAX, repeat_last_n: usize::MAX, repeat_penalty: 1.1, ..d() },
        Sampling { logit_bias: vec![(TokenId(2), f32::NEG_INFINITY)], ..d() },
        Sampling { max_tokens: Some(1), stop: vec!["x".into()], ..d() },
    ];
    for s in &good {
        assert_eq!(s.check(3), Ok(()));
        for logits in [[0.0, 0.0, 0.0], [3e38, -3e38, 0.0], [nan, 1.0, inf]] {
            assert!(pick(s, &logits, 5).is_some(), "{s:?} {logits:?}");
        }
        let none = [nan, f32::NEG_INFINITY, nan];
        assert_eq!(pick(s, &none, 5), None);
    }
    let unit = "allowed is a number from 0 to 1";
    let zero_up = "allowed is a finite number, 0 or more";
    let bad = [
        (Sampling { temperature: nan, ..d() }, format!("temperature is NaN: {zero_up}")),
        (Sampling { temperature: inf, ..d() }, format!("temperature is inf: {zero_up}")),
        (Sampling { temperature: -1.0, ..d() }, format!("temperature is -1: {zero_up}")),
        (Sampling { top_p: 1.1, ..d() }, format!("top_p is 1.1: {unit}")),
        (Sampling { top_p: -1.0, ..d() }, format!("top_p is -1: {unit}")),
        (Sampling { top_p: nan, ..d() }, format!("top_p is NaN: {unit}")),
        (Sampling { min_p: 1.5, ..d() }, format!("min_p is 1.5: {unit}")),
        (
            Sampling { repeat_penalty: 0.0, ..d() },
            "repeat_penalty is 0: allowed is a finite number above 0".into(),
        ),
        (
            Sampling { presence_penalty: inf, ..d() },
            "presence_penalty is inf: allowed is a finite number".into(),
        ),
        (
            Sampling { frequency_penalty: nan, ..d() },
            "frequency_penalty is NaN: allowed is a finite number".into(),
        ),
        (
            Sampling { logit_bias: vec![(TokenId(3), 1.0)], ..d() },
            "logit_bias is for token 3: allowed is token ids below 3".into(),
        ),
        (
            Sampling { logit_bias: vec![(TokenId(0), inf)], ..d() },
            "logit_bias is inf: allowed is finite numbers, or -inf to ban a token".into(),
        ),
        (Sampling { max_tokens: Some(0), ..d() }, "max_tokens is 0: allowed is 1 or more".into()),
        (
            Sampling { stop: vec![String::new()], ..d() },
            "stop is an empty string: allowed is strings of at least one byte".into(),
        ),
    ];
    for (s, expected) in bad {
        assert_eq!(s.check(3).unwrap_err().to_string(), expected);
        assert!(Sampler::new(&s, 3, 0).is_err());
    }
}

#[test]
fn greedy_takes_the_lowest_of_equals() {
    for temperature in [0.0, -0.0, 1e-6, 1e-38] {
        let s = Sampling { temperature, ..Sampling::default() };
        assert_eq!(pick(&s, &[1.0; 500], 3), Some(0));
        assert_eq!(pick(&s, &[0.0, 2.0, 2.0], 3), Some(1));
    }
    assert_eq!(pick(&Sampling { top_k: 1, ..Sampling::default() }, &[0.0, 2.0, 2.0], 3), Some(1));
    assert_eq!(pick(&Sampling { top_p: 0.0, ..Sampling::default() }, &[0.0, 2.0, 2.0], 3), Some(1));
    let banned = vec![(TokenId(1), f32::NEG_INFINITY), (TokenId(0), 3.0)];
    let s = Sampling { logit_bias: banned, ..Sampling::greedy() };
    assert_eq!(pick(&s, &[0.0, 9.0, 2.0], 3), Some(0));
}

/// Draws have the probabilities that the filters leave, with and without filters.
#[test]
fn frequencies() {
    let p = [0.5f32, 0.25, 0.125, 0.0625, 0.0625];
    let logits: Vec<f32> = p.iter().map(|p| p.ln()).collect();
    let off =
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Sampling::default() };
    let cases = [
        (off.clone(), [0.5, 0.25, 0.125, 0.0625, 0.0625]),
        (Sampling { top_k: 2, ..off.clone() }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0, 0.0]),
        (Sampling { top_p: 0.7, ..off.clone() }, [2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0, 0.0]),
        (Sampling { min_p: 0.2, ..off.clone() }, [4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0, 0.0, 0.0]),
        (Sampling { temperature: 0.5, top_k: 2, ..off.clone() }, [0.8, 0.2, 0.0, 0.0, 0.0]),
        (Sampling { temperature: 1e6, ..off.clone() }, [0.2; 5]),
        // top_p follows top_k: half of three quarters is reached by the first.
        (Sampling { top_k: 2, top_p: 0.6, ..off }, [1.0, 0.0, 0.0, 0.0, 0.0]),
    ];
    for (s, expected) in cases {
        let draws = 20_000;
        let mut counts = [0u32; 5];
        for seed in 0..draws {
            let s = Sampling { seed, ..s.clone() };
            counts[pick(&s, &logits, 1).unwrap() as usize] += 1;
        }
        for (count, expected) in counts.iter().zip(expected) {
            let found = f64::from(*count) / draws as f64;
            assert!((found - expected).abs() < 0.015, "{s:?}: {counts:?}, expected {expected}");
        }
    }
}

/// A draw follows from seed and position, and the numbers are part of the promise.
#[test]
fn seeds() {
    let logits: Vec<f32> = (0..1000).map(|i| (i % 10) as f32 / 10.0).collect();
    let off =
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..Sampling::default() };
    let run = |seed| -> Vec<u32> {
        let s = Sampling { seed, ..off.clone() };
        (0..6).map(|position| pick(&s, &logits, position).unwrap()).collect()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(42), [318, 349, 935, 74, 592, 758]);
    // What a filter does not exclude is drawn as without it.
    let wide = Sampling { seed: 42, top_k: 999, ..off.clone() };
    assert_eq!(pick(&wide, &logits, 3), Some(run(42)[3]));
}
