//! The one core that answers: every dialect's request becomes a [`Job`], and every answer, whole or
//! streamed, is the same [`Piece`]s.
use crate::gate::Pass;
use crate::models::Served;
use crate::refusal::Refusal;
use rinfer_engine::batch::TokenId;
use rinfer_engine::model::Answer;
use rinfer_engine::request::{Cancel, Finish, Usage};
use rinfer_engine::sample::Sampling;
use rinfer_engine::turn::{Ask, Part, Scored, Turn};
use rinfer_text::reply::Delta;
use rinfer_text::tokenizer::Tokenizer;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// What is to be answered.
pub struct Job {
    pub what: What,
    pub sampling: Sampling,
    /// Answers, each with a seed of its own.
    pub n: usize,
}

/// What a job goes on from.
pub enum What {
    /// A conversation.
    Turn(Ask),
    /// Texts, each of which has `n` answers, and so many log-probabilities of each token.
    Texts(Vec<Vec<TokenId>>, Option<usize>),
}

/// A part of an answer.
pub enum Piece {
    Delta(Delta),
    /// Tokens of what is said next, if they were asked for.
    Scores(Vec<Score>),
    /// The answer is over.
    End(End),
}

/// How probable a token was.
#[derive(Clone, Debug)]
pub struct Score {
    /// Its text: perhaps a part of a character.
    pub bytes: Vec<u8>,
    /// Of the model itself. What a grammar leaves no choice about is certain.
    pub logprob: f32,
    /// The most probable tokens, and how probable they were.
    pub top: Vec<(Vec<u8>, f32)>,
}

/// How an answer ended.
#[derive(Clone, Debug)]
pub struct End {
    pub finish: Finish,
    pub usage: Usage,
    /// Tokens of its thoughts.
    pub thoughts: usize,
    /// Its complete calls.
    pub calls: usize,
    /// The stop text that ended it.
    pub stop: Option<String>,
    pub timing: Timing,
}

/// What an answer took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Until the first piece.
    pub first: Duration,
    /// In all.
    pub all: Duration,
}

/// Answers under way. Dropping it ends them.
pub struct Answers {
    /// Tokens of the first one's prompt.
    pub prompt: usize,
    pieces: Receiver<(usize, Result<Piece, Refusal>)>,
    cancels: Vec<Cancel>,
    _pass: Pass,
}

impl Answers {
    /// The next piece, and the number of its answer; none after all have ended.
    pub async fn next(&mut self) -> Option<(usize, Result<Piece, Refusal>)> {
        self.pieces.recv().await
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.cancels.iter().for_each(Cancel::cancel);
    }
}

/// Begins a job: what can be refused is, before anything is told.
pub async fn begin(served: &Arc<Served>, job: Job) -> Result<Answers, Refusal> {
    let texts = match &job.what {
        What::Turn(_) => 1,
        What::Texts(texts, _) => texts.len(),
    };
    let pass = served.gate.enter(texts * job.n)?;
    let served = served.clone();
    // A prompt is rendered and a grammar compiled on the way: no work for the threads that serve.
    let begun = tokio::task::spawn_blocking(move || submit(&served, &job));
    let begun = begun.await.map_err(|_| Refusal::panicked("request"))??;
    let prompt = begun.first().map_or(0, |source| source.usage().prompt);
    let cancels = begun.iter().map(Source::canceller).collect();
    let (sender, pieces) = channel(64);
    for (i, mut source) in begun.into_iter().enumerate() {
        let sender = sender.clone();
        tokio::task::spawn_blocking(move || {
            let told =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| source.pump(i, &sender)));
            if told.is_err() {
                let _ = sender.blocking_send((i, Err(Refusal::panicked("answer"))));
            }
        });
    }
    Ok(Answers { prompt, pieces, cancels, _pass: pass })
}

fn submit(served: &Arc<Served>, job: &Job) -> Result<Vec<Source>, Refusal> {
    let mut sources = Vec::new();
    let seeded = |k: usize| {
        let seed = job.sampling.seed.wrapping_add(k as u64);
        Sampling { seed, ..job.sampling.clone() }
    };
    match &job.what {
        What::Turn(ask) => {
            let turns = served.model.turns(ask, &job.sampling, job.n)?;
            let kinds = turns.into_iter().map(|turn| Kinds::Turn(Box::new(turn)));
            sources.extend(kinds.map(|kind| Source::new(kind, served)));
        }
        What::Texts(texts, logprobs) => {
            for text in texts {
                for k in 0..job.n {
                    let answer = served.model.go_on(text.clone(), &seeded(k), *logprobs)?;
                    sources.push(Source::new(Kinds::Text(Box::new(answer)), served));
                }
            }
        }
    }
    Ok(sources)
}

/// One answer of the engine.
struct Source {
    kind: Kinds,
    tokenizer: Arc<Tokenizer>,
    start: Instant,
    first: Option<Instant>,
    /// It stays loaded as long as its answer is under way.
    _served: Arc<Served>,
}

enum Kinds {
    Turn(Box<Turn>),
    Text(Box<Answer>),
}

impl Source {
    fn new(kind: Kinds, served: &Arc<Served>) -> Source {
        let tokenizer = served.model.language().tokenizer.clone();
        let _served = served.clone();
        Source { kind, tokenizer, start: Instant::now(), first: None, _served }
    }
    fn canceller(&self) -> Cancel {
        match &self.kind {
            Kinds::Turn(turn) => turn.canceller(),
            Kinds::Text(answer) => answer.canceller(),
        }
    }
    fn usage(&self) -> Usage {
        match &self.kind {
            Kinds::Turn(turn) => turn.usage(),
            Kinds::Text(answer) => answer.usage(),
        }
    }
    fn next(&mut self) -> Option<Result<Delta, Refusal>> {
        let next = match &mut self.kind {
            Kinds::Turn(turn) => turn.next(),
            Kinds::Text(answer) => answer.next().map(|text| text.map(Delta::Content)),
        };
        next.map(|delta| delta.map_err(Refusal::from))
    }
    /// Sends all pieces, until nobody takes them.
    fn pump(&mut self, i: usize, to: &Sender<(usize, Result<Piece, Refusal>)>) {
        while let Some(delta) = self.next() {
            self.first.get_or_insert_with(Instant::now);
            let delta = match delta {
                Ok(delta) => delta,
                Err(refusal) => {
                    let _ = to.blocking_send((i, Err(refusal)));
                    return;
                }
            };
            let scores = self.scores();
            if !scores.is_empty() && to.blocking_send((i, Ok(Piece::Scores(scores)))).is_err() {
                return;
            }
            if to.blocking_send((i, Ok(Piece::Delta(delta)))).is_err() {
                return;
            }
        }
        let scores = self.scores();
        if !scores.is_empty() {
            let _ = to.blocking_send((i, Ok(Piece::Scores(scores))));
        }
        let _ = to.blocking_send((i, Ok(Piece::End(self.end()))));
    }
    /// Tokens of what is said, since this was last asked.
    fn scores(&mut self) -> Vec<Score> {
        let scores = match &mut self.kind {
            Kinds::Turn(turn) => turn.scores(),
            Kinds::Text(answer) => answer.scores(),
        };
        let tokenizer = &self.tokenizer;
        let said = scores.into_iter().filter(|scored| scored.part == Part::Content);
        let bytes = |(id, logprob): (TokenId, f32)| (tokenizer.bytes(id.0).to_vec(), logprob);
        let score = |scored: Scored| Score {
            bytes: scored.bytes,
            logprob: scored.chosen.logprob.unwrap_or(0.0),
            top: scored.chosen.top.into_iter().map(bytes).collect(),
        };
        said.map(score).collect()
    }
    fn end(&self) -> End {
        let (finish, usage, thoughts, calls, stop) = match &self.kind {
            Kinds::Turn(turn) => {
                (turn.finish(), turn.usage(), turn.thoughts(), turn.calls(), turn.stop())
            }
            Kinds::Text(answer) => (answer.finish(), answer.usage(), 0, 0, answer.stop()),
        };
        let all = self.start.elapsed();
        let first = self.first.map_or(all, |first| first - self.start);
        End {
            finish: finish.unwrap_or(Finish::Cancelled),
            usage,
            thoughts,
            calls,
            stop: stop.map(str::to_owned),
            timing: Timing { first, all },
        }
    }
}
