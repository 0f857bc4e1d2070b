//! Penalties on tokens that were there before.
use super::Sampling;
use crate::batch::TokenId;
use std::collections::BTreeMap;

/// Presence and frequency count the output alone; repetition looks at a window over prompt and
/// output.
pub struct Penalties {
    repeat: f32,
    last_n: usize,
    presence: f32,
    frequency: f32,
    /// How often the output has each token, and how much of the history that covers.
    counts: BTreeMap<u32, u32>,
    counted: usize,
    /// One bit a token, all clear between calls.
    seen: Vec<u64>,
}

impl Penalties {
    /// Output starts at `prompt` of the history.
    pub fn new(s: &Sampling, vocab: usize, prompt: usize) -> Penalties {
        let repeats = s.repeat_penalty != 1.0 && s.repeat_last_n > 0;
        Penalties {
            repeat: s.repeat_penalty,
            last_n: if repeats { s.repeat_last_n } else { 0 },
            presence: s.presence_penalty,
            frequency: s.frequency_penalty,
            counts: BTreeMap::new(),
            counted: prompt,
            seen: vec![0; if repeats { vocab.div_ceil(64) } else { 0 }],
        }
    }

    /// Lowers the logits of what `history` has.
    pub fn apply(&mut self, logits: &mut [f32], history: &[TokenId]) {
        let window = &history[history.len().saturating_sub(self.last_n)..];
        for id in window {
            let (word, bit) = (id.0 as usize / 64, 1u64 << (id.0 % 64));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                let logit = &mut logits[id.0 as usize];
                *logit = if *logit > 0.0 { *logit / self.repeat } else { *logit * self.repeat };
            }
        }
        window.iter().for_each(|id| self.seen[id.0 as usize / 64] = 0);
        if self.presence == 0.0 && self.frequency == 0.0 {
            return;
        }
        for id in history.get(self.counted..).unwrap_or_default() {
            *self.counts.entry(id.0).or_insert(0) += 1;
        }
        self.counted = self.counted.max(history.len());
        for (id, count) in &self.counts {
            logits[*id as usize] -= self.presence + self.frequency * *count as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(s: &Sampling, prompt: &[u32], output: &[u32], expected: &[f32]) {
        let history: Vec<TokenId> = [prompt, output].concat().into_iter().map(TokenId).collect();
        let mut penalties = Penalties::new(s, 4, prompt.len());
        for _ in 0..2 {
            let mut logits = vec![2.0, -2.0, 1.0, 0.0];
            penalties.apply(&mut logits, &history);
            assert_eq!(logits, expected, "{prompt:?} {output:?}");
        }
    }

    /// M7: presence and frequency count the answer, repetition a window of both.
    #[test]
    fn m7_what_counts() {
        let off = Sampling::default();
        check(&off, &[0, 1], &[2], &[2.0, -2.0, 1.0, 0.0]);
        let presence = Sampling { presence_penalty: 0.5, ..off.clone() };
        check(&presence, &[0, 0], &[1, 1], &[2.0, -2.5, 1.0, 0.0]);
        check(&presence, &[0, 0], &[], &[2.0, -2.0, 1.0, 0.0]);
        let frequency = Sampling { frequency_penalty: 0.5, ..off.clone() };
        check(&frequency, &[0, 0], &[1, 1, 2], &[2.0, -3.0, 0.5, 0.0]);
        let repeat = Sampling { repeat_penalty: 2.0, ..off.clone() };
        check(&repeat, &[0, 0, 0], &[1, 1], &[1.0, -4.0, 1.0, 0.0]);
        let last = Sampling { repeat_last_n: 1, ..repeat.clone() };
        check(&last, &[0, 0], &[1], &[2.0, -4.0, 1.0, 0.0]);
        check(&Sampling { repeat_last_n: 0, ..repeat }, &[0], &[1], &[2.0, -2.0, 1.0, 0.0]);
    }
}
