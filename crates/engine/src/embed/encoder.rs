//! A model that reads whole sequences, and gives one row of numbers for each.
use super::Companions;
use crate::backend::{Executor, Limits};
use crate::batch::{Batch, Logits, Row, Span, TokenId, Want};
use crate::error::{Error, Result};
use crate::language::Language;
use crate::load::{Load, Opened};
use crate::request::{Cancel, RequestError};
use crate::spec::ModelSpec;
use rinfer_kernels::kv::PAGE;
use rinfer_text::tokenizer::Special;
use std::sync::Mutex;

/// Sequences that share a pass: each takes whole pages.
const SEQUENCES: usize = 32;
/// The longest text that is read where neither files nor options speak of one.
const DEFAULT_CONTEXT: usize = 4096;

/// The model, its language and what lies beside.
pub(super) struct Encoder {
    pub spec: ModelSpec,
    pub limits: Limits,
    pub language: Language,
    pub companions: Companions,
    executor: Mutex<Box<dyn Executor>>,
}

/// What a pass reads of one input.
pub(super) struct Sequence {
    pub rows: Vec<Row>,
    /// Tokens that were cut off.
    pub cut: usize,
}

impl Encoder {
    /// Loads the weights.
    pub fn new(opened: &Opened, load: &Load) -> Result<Encoder> {
        let spec = opened.spec.clone();
        let companions = Companions::of(opened)?;
        let load = suited(opened, &companions, load);
        let limits = opened.room(&load)?;
        let executor = opened.executor(&load.backend()?, &limits)?;
        let language = opened.language()?;
        Ok(Encoder { spec, limits, language, companions, executor: Mutex::new(executor) })
    }

    /// A text behind a prompt, between the tokens that the model adds. Space around both goes, as in
    /// sentence-transformers.
    pub fn text(&self, i: usize, prompt: &str, text: &str, cut: bool) -> Result<Sequence> {
        let all = prompt.to_owned() + text;
        let mut ids = self.ids(all.trim());
        let tokenizer = &self.language.tokenizer;
        let kept = self.fit(i, ids.len(), tokenizer.wrap(&[]).len(), cut)?;
        let gone = ids.len() - kept;
        ids.truncate(kept);
        let rows = tokenizer.wrap(&ids).into_iter().map(token).collect();
        self.sequence(i, rows, gone)
    }

    /// Tokens as they are.
    pub fn tokens(&self, i: usize, ids: &[TokenId], cut: bool) -> Result<Sequence> {
        if let Some(id) = ids.iter().find(|id| id.0 as usize >= self.spec.vocab) {
            let problem = format!("is no token: the model has {}", self.spec.vocab);
            return Err(input(i, id.0, problem));
        }
        let kept = self.fit(i, ids.len(), 0, cut)?;
        let rows = ids[..kept].iter().map(|id| token(id.0)).collect();
        self.sequence(i, rows, ids.len() - kept)
    }

    /// Two texts that are judged together. The second is cut, or else the first.
    pub fn pair(&self, i: usize, (first, second): (&str, &str), cut: bool) -> Result<Sequence> {
        let tokenizer = &self.language.tokenizer;
        let (mut a, mut b) = (self.ids(first), self.ids(second));
        let added = tokenizer.wrap_pair(&[], &[]).0.len();
        let kept = self.fit(i, a.len() + b.len(), added, cut)?;
        let gone = a.len() + b.len() - kept;
        b.truncate(b.len().saturating_sub(gone));
        a.truncate(kept - b.len());
        let (ids, types) = tokenizer.wrap_pair(&a, &b);
        let typed = self.spec.embed.types.is_some_and(|types| types > 1);
        let row = |(id, kind): (u32, u32)| match kind {
            1 if typed => Row::Second(TokenId(id)),
            _ => token(id),
        };
        self.sequence(i, ids.into_iter().zip(types).map(row).collect(), gone)
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        let plain = |text: &str| self.language.tokenizer.encode(text, Special::Plain);
        if self.companions.lower { plain(&text.to_lowercase()) } else { plain(text) }
    }

    /// How many of so many tokens there is room for, beside those that are added.
    fn fit(&self, i: usize, tokens: usize, added: usize, cut: bool) -> Result<usize> {
        let room = self.limits.context.saturating_sub(added);
        if tokens <= room || cut {
            return Ok(tokens.min(room));
        }
        let (found, most) = (tokens + added, self.limits.context);
        Err(RequestError::InputTooLong { input: i, found, most }.into())
    }

    fn sequence(&self, i: usize, rows: Vec<Row>, cut: usize) -> Result<Sequence> {
        if rows.is_empty() {
            return Err(input(i, "it", "has no tokens, and the model adds none".into()));
        }
        Ok(Sequence { rows, cut })
    }

    /// Each sequence's row of numbers: as many together as rows and slots allow, until it is cancelled.
    pub fn run(&self, sequences: &[Sequence], cancel: &Cancel) -> Result<Vec<Vec<f32>>> {
        // A panic left sequences open, and was reported where it happened.
        let mut executor = self.executor.lock().map_err(|_| RequestError::Stopped)?;
        let (mut all, mut out) = (Vec::with_capacity(sequences.len()), Logits::default());
        let mut left = sequences;
        while !left.is_empty() {
            cancel.check()?;
            let mut rows = 0;
            let fits = |sequence: &&Sequence| {
                rows += sequence.rows.len();
                rows <= self.limits.batch
            };
            let count = left.iter().take(SEQUENCES).take_while(fits).count();
            let (now, later) = left.split_at(count.max(1));
            pass(&mut **executor, now, &mut out)?;
            all.extend(out.data.chunks_exact(out.vocab.max(1)).map(<[f32]>::to_vec));
            left = later;
        }
        Ok(all)
    }
}

/// The options, as whole texts in one pass take them.
pub(super) fn suited(opened: &Opened, companions: &Companions, load: &Load) -> Load {
    let usual = companions.most.unwrap_or(DEFAULT_CONTEXT).min(opened.spec.context);
    let context = load.context.unwrap_or(usual);
    let batch = load.batch.max(context);
    let positions = Some(batch.saturating_add(SEQUENCES * PAGE));
    Load { context: Some(context), sequences: SEQUENCES, positions, batch, ..load.clone() }
}

fn pass(executor: &mut dyn Executor, now: &[Sequence], out: &mut Logits) -> Result<()> {
    let mut batch = Batch::default();
    for sequence in now {
        let slot = executor.state().open().ok_or(RequestError::Stopped)?;
        let len = sequence.rows.len();
        let room = executor.state().reserve(slot, len);
        batch.rows.extend(&sequence.rows);
        batch.seqs.push(Span { slot, len, past: 0, want: Want::Last });
        if !room {
            batch.seqs.iter().for_each(|span| executor.state().close(span.slot));
            return Err(RequestError::Stopped.into());
        }
    }
    let done = executor.forward(&batch, out);
    batch.seqs.iter().for_each(|span| executor.state().close(span.slot));
    Ok(done?)
}

fn token(id: u32) -> Row {
    Row::Token(TokenId(id))
}

fn input(i: usize, found: impl ToString, problem: String) -> Error {
    RequestError::Input { input: i, found: found.to_string(), problem }.into()
}
