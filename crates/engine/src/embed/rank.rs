//! Pairs of texts to scores: how well a document answers a query. Nogueira & Cho 2019, arXiv:1901.04085.
use super::encoder::{Encoder, Sequence};
use crate::error::Result;
use crate::load::{Load, Opened};
use crate::request::Cancel;
use crate::spec::Head;
use std::path::Path;
use std::sync::Arc;

/// A loaded model that scores pairs. Cloning it is cheap and shares everything.
#[derive(Clone)]
pub struct Reranker(Arc<Encoder>);

/// A document's score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its place among the documents given.
    pub index: usize,
    /// From 0 to 1, the higher the better: the sigmoid of the model's number.
    pub score: f32,
    /// Tokens of query and document, those that the model adds among them.
    pub tokens: usize,
    /// Tokens that were cut off.
    pub cut: usize,
}

impl Reranker {
    /// Loads a Hugging Face folder; options as of [`Embedder::load`](super::Embedder::load).
    ///
    /// # Errors
    /// What is missing, wrong or not supported, and models that score no pairs by one number.
    pub fn load(reference: impl AsRef<Path>, load: Load) -> Result<Reranker> {
        let opened = Opened::open(reference)?.adapted(&load.adapters)?;
        Reranker::of(&opened, &load)
    }

    /// Of an open checkpoint.
    ///
    /// # Errors
    /// As [`Reranker::load`].
    pub fn of(opened: &Opened, load: &Load) -> Result<Reranker> {
        let spec = &opened.spec;
        match spec.head {
            Head::Pool { scores: true, .. } if spec.width() == 1 => {}
            Head::Pool { scores: true, .. } => {
                let labels = format!("has {} labels: one that ranks has one", spec.width());
                return Err(opened.unfit(&labels));
            }
            _ => return Err(opened.unfit("scores no pairs of texts: take a reranker")),
        }
        Encoder::new(opened, load).map(|encoder| Reranker(Arc::new(encoder)))
    }

    /// All documents, the best first; of equal scores, the first given. With `truncate`, a document that is
    /// too long is cut, rather than refused.
    ///
    /// # Errors
    /// A pair that is too long.
    pub fn rank(&self, query: &str, documents: &[&str], truncate: bool) -> Result<Vec<Ranked>> {
        self.rank_until(query, documents, truncate, &Cancel::default())
    }

    /// The same, until it is cancelled.
    ///
    /// # Errors
    /// A pair that is too long, and [`RequestError::Cancelled`](crate::request::RequestError::Cancelled).
    pub fn rank_until(
        &self,
        query: &str,
        documents: &[&str],
        truncate: bool,
        cancel: &Cancel,
    ) -> Result<Vec<Ranked>> {
        let pair = |(i, document): (usize, &&str)| {
            cancel.check()?;
            self.0.pair(i, (query, document), truncate)
        };
        let pairs: Vec<Sequence> = documents.iter().enumerate().map(pair).collect::<Result<_>>()?;
        let scores = self.0.run(&pairs, cancel)?;
        let of = |(index, (row, pair)): (usize, (Vec<f32>, &Sequence))| Ranked {
            index,
            score: sigmoid(row[0]),
            tokens: pair.rows.len(),
            cut: pair.cut,
        };
        let mut all: Vec<Ranked> = scores.into_iter().zip(&pairs).enumerate().map(of).collect();
        all.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(all)
    }

    /// Tokens of a pair at most.
    pub fn context(&self) -> usize {
        self.0.limits.context
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}
