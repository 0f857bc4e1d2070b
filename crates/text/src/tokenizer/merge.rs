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

/// Buffers that live from word to word.
#[derive(Default)]
pub(crate) struct Scratch {
    pub symbols: Vec<Symbol>,
    /// (rank, position, merged id): the lowest rank first, then the leftmost.
    queue: BinaryHeap<Reverse<(u32, usize, u32)>>,
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
        queue.clear();
        let found = symbols
            .windows(2)
            .enumerate()
            .filter_map(|(at, w)| pair(&w[0], &w[1]).map(|(rank, id)| Reverse((rank, at, id))));
        queue.extend(found);
        while let Some(Reverse((_, at, id))) = queue.pop() {
            let left = symbols[at];
            if left.len == 0 || left.next == NONE {
                continue;
            }
            let right = symbols[left.next];
            // The pair that was queued may have changed since.
            if pair(&left, &right).is_none_or(|(_, now)| now != id) {
                continue;
            }
            symbols[left.next].len = 0;
            symbols[at] = Symbol { id, len: left.len + right.len, next: right.next, ..left };
            if right.next != NONE {
                symbols[right.next].prev = at;
                if let Some((rank, id)) = pair(&symbols[at], &symbols[right.next]) {
                    queue.push(Reverse((rank, at, id)));
                }
            }
            if left.prev != NONE
                && let Some((rank, id)) = pair(&symbols[left.prev], &symbols[at])
            {
                queue.push(Reverse((rank, left.prev, id)));
            }
        }
        symbols.retain(|s| s.len > 0);
    }
}
