//! All entries of a set of byte strings that a text starts with.

/// The entries in byte order: those that share a prefix are neighbours, so one more byte of the
/// text narrows the range. No nodes, four bytes an entry.
pub(crate) struct PrefixIndex {
    order: Vec<u32>,
    /// Where the entries that start with byte `b` begin in `order`.
    first: Box<[u32; 257]>,
}

impl PrefixIndex {
    /// Over the entries `ids`, whose texts `text` gives. Of two equal texts the later id comes last.
    pub fn new<'a>(ids: impl IntoIterator<Item = u32>, text: impl Fn(u32) -> &'a [u8]) -> Self {
        let mut order: Vec<u32> = ids.into_iter().filter(|&id| !text(id).is_empty()).collect();
        order.sort_unstable_by(|&a, &b| text(a).cmp(text(b)).then(a.cmp(&b)));
        let mut first = Box::new([0; 257]);
        for b in 0..256usize {
            first[b + 1] = order.partition_point(|&id| usize::from(text(id)[0]) <= b) as u32;
        }
        Self { order, first }
    }

    /// Calls `found(length, id)` for each entry that the bytes `rest(0)`, `rest(1)`, ... start
    /// with, shortest first.
    pub fn prefixes<'a>(
        &self,
        text: impl Fn(u32) -> &'a [u8],
        rest: impl Fn(usize) -> Option<u8>,
        mut found: impl FnMut(usize, u32),
    ) {
        let Some(b) = rest(0) else { return };
        let (lo, hi) = (self.first[usize::from(b)], self.first[usize::from(b) + 1]);
        let mut range = &self.order[lo as usize..hi as usize];
        let mut depth = 1;
        while !range.is_empty() {
            // Entries that end here sort before those that go on.
            while let [id, others @ ..] = range
                && text(*id).len() == depth
            {
                if others.first().is_none_or(|&o| text(o).len() != depth) {
                    found(depth, *id);
                }
                range = others;
            }
            let Some(b) = rest(depth) else { return };
            let lo = range.partition_point(|&id| text(id)[depth] < b);
            let hi = lo + range[lo..].partition_point(|&id| text(id)[depth] == b);
            range = &range[lo..hi];
            depth += 1;
        }
    }

    /// Whether any entry starts with `b`.
    pub fn starts_with(&self, b: u8) -> bool {
        self.first[usize::from(b)] != self.first[usize::from(b) + 1]
    }
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_every_prefix() {
        let texts: [&[u8]; 7] = [b"abc", b"a", b"ab", b"b", b"abd", b"", b"a"];
        let text = |id: u32| texts[id as usize];
        let index = PrefixIndex::new(0..7, text);
        let all = |s: &[u8]| {
            let mut v = vec![];
            index.prefixes(text, |i| s.get(i).copied(), |len, id| v.push((len, id)));
            v
        };
        assert_eq!(all(b"abcx"), [(1, 6), (2, 2), (3, 0)]);
        assert_eq!(all(b"ab"), [(1, 6), (2, 2)]);
        assert_eq!(all(b"bab"), [(1, 3)]);
        assert_eq!(all(b"c"), []);
    }
}
