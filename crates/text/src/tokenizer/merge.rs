//! The merging loop that byte-pair encoding (Sennrich et al., arXiv:1508.07909) and SentencePiece's
//! BPE share: join the best neighbouring pair until none can be joined. O(n log n).
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A run of the text that is one token so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    /// The token, or [`NO_ID`] for a character that is none.
    pub id: u32,
    /// Where it starts in the text, in bytes.
    pub start: usize,
    /// Its bytes; 0 once merged into its left neighbour.
    pub len: usize,
    prev: usize,
    next: usize,
}
/// The id of a symbol that is no token.
pub(crate) const NO_ID: u32 = u32::MAX;
const NONE: usize = usize::MAX;

/// Two neighbours that may merge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Join {
    rank: u32,
    /// The left one.
    at: usize,
    id: u32,
    /// Bytes of both, which tells whether they are still what they were.
    len: usize,
}

/// Buffers that live from word to word.
#[derive(Default)]
pub(crate) struct Scratch {
    pub symbols: Vec<Symbol>,
    /// The lowest rank first, then the leftmost.
    queue: BinaryHeap<Reverse<Join>>,
    pub text: String,
}

impl Scratch {
    pub fn push(&mut self, id: u32, start: usize, len: usize) {
        let n = self.symbols.len();
        if let Some(last) = self.symbols.last_mut() {
            last.next = n;
        }
        self.symbols.push(Symbol { id, start, len, prev: n.wrapping_sub(1), next: NONE });
    }

    /// Merges the symbols in place. `pair` gives the rank and the id of two neighbours joined, if
    /// they may be.
    pub fn merge(&mut self, pair: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        let Self { symbols, queue, .. } = self;
        let join = |symbols: &[Symbol], at: usize| {
            let (left, right) = (&symbols[at], symbols.get(symbols[at].next)?);
            let (rank, id) = pair(left, right)?;
            Some(Reverse(Join { rank, at, id, len: left.len + right.len }))
        };
        queue.clear();
        queue.extend((0..symbols.len()).filter_map(|at| join(symbols, at)));
        while let Some(Reverse(Join { at, id, len, .. })) = queue.pop() {
            let left = symbols[at];
            let Some(&right) = symbols.get(left.next) else { continue };
            if left.len == 0 || left.len + right.len != len {
                continue;
            }
            symbols[left.next].len = 0;
            symbols[at] = Symbol { id, len, next: right.next, ..left };
            if let Some(next) = symbols.get_mut(right.next) {
                next.prev = at;
            }
            queue.extend(join(symbols, at));
            if left.prev != NONE {
                queue.extend(join(symbols, left.prev));
            }
        }
        symbols.retain(|s| s.len > 0);
    }
}
