//! How sure a model was: the probability of each token among those that its grammar allowed.
use crate::schema::fields::Field;
use std::sync::{Arc, Mutex, PoisonError};

/// Collects probabilities while an answer is written. Clones are the same collection.
#[derive(Debug, Clone, Default)]
pub struct Shares(Arc<Mutex<Vec<Share>>>);

/// A token: where its text ends, and its probability.
#[derive(Debug, Clone, Copy)]
struct Share {
    end: usize,
    probability: f64,
}

impl PartialEq for Shares {
    fn eq(&self, other: &Shares) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Shares {
    /// The probability that a field has its value among all that it might have had there: the product
    /// over the tokens that wrote it, and for a number the one that ended it. Before any temperature,
    /// penalty or bias.
    pub fn of(&self, field: &Field) -> f32 {
        let until = field.text.end + usize::from(field.number);
        let mut start = 0;
        let mut product = 1.0;
        for share in self.all().iter() {
            if start < until && share.end > field.text.start {
                product *= share.probability;
            }
            start = share.end;
        }
        product as f32
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a matcher notes.
#[derive(Clone)]
pub(crate) struct Meter {
    shares: Shares,
    /// What was allowed where the last mask was made: logits, and the logarithm of their sum.
    row: Option<(Vec<f32>, f64)>,
}

impl Meter {
    /// Begins an answer anew.
    pub fn new(shares: Shares) -> Meter {
        shares.all().clear();
        Meter { shares, row: None }
    }

    /// Takes note of masked logits.
    pub fn masked(&mut self, logits: &[f32]) {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = logits.iter().map(|l| libm::exp(f64::from(l - max))).sum();
        self.row = Some((logits.to_vec(), f64::from(max) + libm::log(total)));
    }

    /// Takes note of a token. One that was forced was certain.
    pub fn accepted(&mut self, id: u32, bytes: usize) {
        let share = |(row, total): (Vec<f32>, f64)| {
            row.get(id as usize).map_or(1.0, |logit| libm::exp(f64::from(*logit) - total))
        };
        let probability = self.row.take().map_or(1.0, share);
        let mut all = self.shares.all();
        let end = all.last().map_or(0, |last| last.end) + bytes;
        all.push(Share { end, probability });
    }

    /// Takes tokens back.
    pub fn taken_back(&mut self, tokens: usize) {
        self.row = None;
        let mut all = self.shares.all();
        let left = all.len().saturating_sub(tokens);
        all.truncate(left);
    }
}
