//! The tokens that a whole input gets around its own: begin, end, separators.

/// One or two sequences with what goes around them.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub single: Vec<Slot>,
    pub pair: Vec<Slot>,
}

/// A place in a template, with its type id (BERT's segment).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    First(u32),
    Second(u32),
    Tokens(Vec<u32>, u32),
}

impl Default for Template {
    /// Nothing is added.
    fn default() -> Self {
        Self { single: vec![Slot::First(0)], pair: vec![Slot::First(0), Slot::Second(1)] }
    }
}

impl Template {
    pub fn apply(&self, first: &[u32], second: Option<&[u32]>) -> (Vec<u32>, Vec<u32>) {
        let slots = if second.is_some() { &self.pair } else { &self.single };
        let (mut ids, mut types) = (vec![], vec![]);
        for slot in slots {
            let (part, kind) = match slot {
                Slot::First(kind) => (first, kind),
                Slot::Second(kind) => (second.unwrap_or_default(), kind),
                Slot::Tokens(ids, kind) => (ids.as_slice(), kind),
            };
            ids.extend_from_slice(part);
            types.resize(ids.len(), *kind);
        }
        (ids, types)
    }

    /// All tokens that it may add.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        let slots = self.single.iter().chain(&self.pair);
        slots.flat_map(|slot| match slot {
            Slot::Tokens(ids, _) => ids.clone(),
            _ => vec![],
        })
    }

    /// The token before the first sequence, if exactly one stands there.
    pub fn begin(&self) -> Option<u32> {
        match self.single.as_slice() {
            [Slot::Tokens(ids, _), Slot::First(_), ..] if ids.len() == 1 => Some(ids[0]),
            _ => None,
        }
    }
    /// The token after the first sequence, if exactly one stands there.
    pub fn end(&self) -> Option<u32> {
        match self.single.as_slice() {
            [.., Slot::First(_), Slot::Tokens(ids, _)] if ids.len() == 1 => Some(ids[0]),
            _ => None,
        }
    }
}
