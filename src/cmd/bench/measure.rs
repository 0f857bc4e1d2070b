//! Feeding an executor, timed.
use super::roofline::Limits;
use anyhow::anyhow;
use rinfer_engine::backend::Executor;
use rinfer_engine::batch::{Batch, Logits, Row, Slot, Span, TokenId, Want};
use rinfer_engine::profile::Profile;
use rinfer_kernels::Team;
use std::time::Instant;

/// What each sequence is fed.
pub struct Test {
    /// `prefill` is fed at once, anything else one by one.
    pub name: &'static str,
    /// As llama-bench calls it.
    pub short: &'static str,
    pub tokens: usize,
    /// Tokens before them, which are not timed.
    pub depth: usize,
}

/// A test once.
pub struct Run {
    /// Of all sequences together.
    pub tokens: usize,
    pub seconds: f64,
    /// Where they went, if that was counted.
    pub profile: Profile,
    /// What the machine can do, if that was measured.
    pub limits: Option<Limits>,
}

/// A test and its runs, at least one.
pub struct Measured {
    pub test: Test,
    pub runs: Vec<Run>,
}

pub struct Bench {
    executor: Box<dyn Executor>,
    parallel: usize,
    /// Rows of a batch.
    rows: usize,
    vocab: usize,
    /// Of a linear congruential generator of tokens.
    state: u32,
    logits: Logits,
    /// Whether runs are profiled.
    pub counts: bool,
    /// Who measures the machine's limits around each run.
    pub machine: Option<Team>,
}

impl Bench {
    pub fn new(executor: Box<dyn Executor>, parallel: usize, rows: usize, vocab: usize) -> Bench {
        let logits = Logits { vocab, data: Vec::new() };
        Bench { executor, parallel, rows, vocab, state: 1, logits, counts: false, machine: None }
    }

    /// Feeds every sequence its tokens, in sequences of their own.
    pub fn run(&mut self, test: &Test) -> anyhow::Result<Run> {
        let mut slots = Vec::new();
        for _ in 0..self.parallel {
            let state = self.executor.state();
            let slot = state.open().filter(|s| state.reserve(*s, test.depth + test.tokens));
            slots.push(slot.ok_or_else(|| anyhow!("no room for the test"))?);
        }
        let chunk = if test.name == "prefill" { self.rows } else { 1 };
        self.feed(&slots, 0, test.depth, self.rows)?;
        let before = self.machine.as_ref().map(Limits::measure);
        self.profile(self.counts)?;
        let start = Instant::now();
        self.feed(&slots, test.depth, test.tokens, chunk)?;
        let seconds = start.elapsed().as_secs_f64();
        let profile = self.profile(false)?;
        let limits = before.zip(self.machine.as_ref()).map(|(b, team)| b.or(Limits::measure(team)));
        slots.into_iter().for_each(|slot| self.executor.state().close(slot));
        Ok(Run { tokens: test.tokens * self.parallel, seconds, profile, limits })
    }

    fn profile(&mut self, on: bool) -> anyhow::Result<Profile> {
        match self.executor.profile(on) {
            None if self.counts => Err(anyhow!("this backend does not count where its time goes")),
            profile => Ok(profile.unwrap_or_default()),
        }
    }

    /// Appends `count` tokens to every slot, which all hold `past`.
    fn feed(
        &mut self,
        slots: &[Slot],
        past: usize,
        count: usize,
        chunk: usize,
    ) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        let mut done = 0;
        while done < count {
            let len = chunk.min(count - done).min((self.rows / slots.len()).max(1));
            for together in slots.chunks((self.rows / len).max(1)) {
                batch.rows.clear();
                batch.seqs.clear();
                let want =
                    if done + len == count || chunk == 1 { Want::Last } else { Want::Nothing };
                for slot in together {
                    batch.rows.extend((0..len).map(|_| Row::Token(self.token())));
                    batch.seqs.push(Span { slot: *slot, len, past: past + done, want });
                }
                self.executor.forward(&batch, &mut self.logits)?;
            }
            done += len;
        }
        Ok(())
    }

    fn token(&mut self) -> TokenId {
        self.state = self.state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        TokenId(self.state % self.vocab as u32)
    }
}

impl Test {
    /// Such as `pp512 @ d2048`.
    pub fn label(&self) -> String {
        let depth = if self.depth > 0 { format!(" @ d{}", self.depth) } else { String::new() };
        format!("{}{}{depth}", self.short, self.tokens)
    }
}

impl Measured {
    /// Of each run, tokens per second.
    pub fn rates(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.tokens as f64 / run.seconds).collect()
    }
    /// Where the time of all runs went.
    pub fn profile(&self) -> Profile {
        self.runs.iter().map(|run| run.profile).sum()
    }
    /// Tokens of all runs.
    pub fn tokens(&self) -> usize {
        self.runs.iter().map(|run| run.tokens).sum()
    }
}

/// The middle one, or the mean of the two.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2])
}

/// The mean, and the standard deviation of a sample: 0 of a single run.
pub fn mean_and_deviation(all: &[f64]) -> (f64, f64) {
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let squares: f64 = all.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (all.len() - 1).max(1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(mean_and_deviation(&[7.0]), (7.0, 0.0));
        assert_eq!(mean_and_deviation(&[2.0, 4.0, 6.0]), (4.0, 2.0));
    }

    #[test]
    fn labels() {
        let test = |tokens, depth| Test { name: "prefill", short: "pp", tokens, depth }.label();
        assert_eq!((test(512, 0), test(64, 2048)), ("pp512".into(), "pp64 @ d2048".into()));
    }
}
