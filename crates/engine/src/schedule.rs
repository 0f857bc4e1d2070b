//! Which rows of which sequences go into the next batch.
use crate::batch::{Batch, Row, Slot, Span, TokenId, Want};
use crate::request::{Request, Sink};
use crate::sample::{Sampler, SamplingError};

/// A request under way. Its state holds the first `past` of its tokens.
pub struct Sequence {
    pub slot: Slot,
    /// Prompt and output.
    pub tokens: Vec<TokenId>,
    pub past: usize,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the prompt that other sequences computed.
    pub cached: usize,
    /// Tokens that it may have in all.
    pub limit: usize,
    pub sampler: Sampler,
    pub request: Request,
    pub sink: Sink,
}

impl Sequence {
    /// Not yet admitted: it has no slot of its own.
    pub fn new(
        mut request: Request,
        sink: Sink,
        vocab: usize,
        context: usize,
    ) -> Result<Sequence, SamplingError> {
        let tokens = std::mem::take(&mut request.prompt);
        let prompt = tokens.len();
        let wanted = request.sampling.max_tokens.unwrap_or(usize::MAX);
        Ok(Sequence {
            slot: Slot(u32::MAX),
            past: 0,
            prompt,
            cached: 0,
            limit: prompt.saturating_add(wanted).min(context),
            sampler: Sampler::new(&request.sampling, vocab, prompt)?,
            tokens,
            request,
            sink,
        })
    }
    /// Tokens that the state does not hold yet.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.past
    }
    /// Whether what it computes is left to others, and it goes on from theirs.
    pub fn shares(&self) -> bool {
        self.request.sampling.cache_prompt
    }
    /// The tokens that others may have computed. The last one is computed in any case: its logits are
    /// wanted.
    pub fn usable(&self) -> &[TokenId] {
        &self.tokens[..self.tokens.len() - 1]
    }
    /// The tokens that the state holds.
    pub fn held(&self) -> &[TokenId] {
        &self.tokens[..self.past]
    }
}

/// Fills `batch` with at most `budget` rows. Sequences that wait for one row come first, so that a
/// prompt stalls nobody; prompts share what is left evenly, and what a short one does not need
/// goes to the longer ones.
/// `stride` says how many of a sequence's next rows may come at once; `order` is room for the sequences'
/// numbers.
pub fn plan(
    running: &[Sequence],
    budget: usize,
    stride: impl Fn(Slot, usize) -> usize,
    order: &mut Vec<usize>,
    batch: &mut Batch,
) {
    batch.rows.clear();
    batch.seqs.clear();
    order.clear();
    order.extend(0..running.len());
    order.sort_unstable_by_key(|i| (running[*i].pending(), *i));
    let mut left = budget;
    for (i, s) in order.iter().map(|i| &running[*i]).enumerate() {
        let share = left.div_ceil(order.len() - i);
        let len = s.pending().min(share);
        if len == 0 {
            break;
        }
        let len = stride(s.slot, len);
        left -= len;
        batch.rows.extend(s.tokens[s.past..s.past + len].iter().map(|id| Row::Token(*id)));
        let want = if len == s.pending() { Want::Last } else { Want::Nothing };
        batch.seqs.push(Span { slot: s.slot, len, past: s.past, want });
    }
}
