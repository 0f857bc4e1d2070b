//! How long a model may think.

/// Counts thoughts, and says what to write when there have been enough.
///
/// ```
/// use rinfer_text::reply::Budget;
///
/// // At most two tokens of thoughts; 7, 8 are the end tag's.
/// let mut budget = Budget::new(2, vec![7, 8]);
/// assert_eq!(budget.next(true), None);
/// budget.token(true);
/// budget.token(true);
/// assert_eq!(budget.next(true), Some(7));
/// budget.token(true);
/// assert_eq!(budget.next(true), Some(8));
/// budget.token(false);
/// assert_eq!(budget.next(false), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    left: usize,
    end: Vec<u32>,
    /// How much of the end is written.
    written: usize,
}

impl Budget {
    /// So many tokens of thoughts, then these tokens, which end them.
    pub fn new(tokens: usize, end: Vec<u32>) -> Budget {
        Budget { left: tokens, end, written: 0 }
    }
    /// The token that must come next, if one must. `thinking` is whether the model is.
    pub fn next(&self, thinking: bool) -> Option<u32> {
        let begun = self.written > 0;
        let due = begun || thinking && self.left == 0;
        self.end.get(self.written).copied().filter(|_| due)
    }
    /// Counts a token; `thinking` is whether the model was when it came.
    pub fn token(&mut self, thinking: bool) {
        match (self.next(thinking), thinking) {
            (Some(_), _) => self.written += 1,
            (None, true) => self.left = self.left.saturating_sub(1),
            (None, false) => {}
        }
    }
}
