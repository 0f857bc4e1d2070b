//! From a row of logits to a token.
//!
//! The steps, in the order of llama.cpp's default chain: `logit_bias`, penalties, `top_k`,
//! `top_p`, `min_p`, `temperature`, draw. Filters therefore see the model's own probabilities and
//! the temperature only spreads what they left. The draw is a function of (seed, position, token)
//! alone: the same seed gives the same text whatever else runs in the batch, and on every machine.
mod filter;
mod options;
mod penalties;
mod race;

pub use options::{Sampling, SamplingError, Think};

use crate::batch::TokenId;
use filter::Candidate;
use penalties::Penalties;

/// Below this temperature the most probable token is taken.
pub const GREEDY_BELOW: f32 = 1e-5;

/// Chooses the tokens of one sequence.
pub struct Sampler {
    sampling: Sampling,
    penalties: Penalties,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// For a sequence whose first `prompt` tokens are the prompt.
    ///
    /// # Errors
    /// A field out of its range, or a biased token that the vocabulary has not.
    pub fn new(sampling: &Sampling, vocab: usize, prompt: usize) -> Result<Sampler, SamplingError> {
        sampling.check(vocab)?;
        Ok(Sampler {
            sampling: sampling.clone(),
            penalties: Penalties::new(sampling, vocab, prompt),
            candidates: Vec::new(),
        })
    }

    /// The token that follows `history` (prompt and output), or none if every logit is negative
    /// infinity or not a number. Changes `logits` by bias and penalties.
    pub fn pick(&mut self, logits: &mut [f32], history: &[TokenId]) -> Option<TokenId> {
        for (id, bias) in &self.sampling.logit_bias {
            logits[id.0 as usize] += bias;
        }
        self.penalties.apply(logits, history);
        let s = &self.sampling;
        if s.temperature < GREEDY_BELOW || s.top_k == 1 {
            return filter::best(logits).map(|c| TokenId(c.id));
        }
        let key = race::key(s.seed, history.len() as u64);
        let id = if s.top_k == 0 && s.top_p >= 1.0 && s.min_p <= 0.0 {
            let all = logits.iter().zip(0..).map(|(logit, id)| Candidate { logit: *logit, id });
            race::winner(all, filter::best(logits)?, s.temperature, key)
        } else {
            let first = filter::kept(logits, s, &mut self.candidates)?;
            race::winner(self.candidates.iter().copied(), first, s.temperature, key)
        };
        Some(TokenId(id))
    }
}

/// The natural logarithm of each token's probability under the model alone, before any bias,
/// penalty, filter or constraint: `chosen`'s, and those of the `top` most probable tokens.
pub struct Logprobs {
    max: f32,
    log_total: f32,
    /// Most probable first, lowest id first among equals.
    pub top: Vec<(TokenId, f32)>,
}

impl Logprobs {
    /// Of one row.
    pub fn of(logits: &[f32], top: usize) -> Logprobs {
        let max = filter::best(logits).map_or(0.0, |c| c.logit);
        let log_total = libm::log(filter::total(logits, max)) as f32;
        let mut most = Vec::new();
        filter::top_k(logits, top, &mut most);
        let mut of = Logprobs { max, log_total, top: Vec::new() };
        of.top = most.iter().map(|c| (TokenId(c.id), of.at(c.logit))).collect();
        of
    }
    /// For a token whose logit in that row is `logit`.
    pub fn at(&self, logit: f32) -> f32 {
        logit - self.max - self.log_total
    }
}
