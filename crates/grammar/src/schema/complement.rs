//! What schemas leave out: `not`, `oneOf` and `if`. Exact, or refused.
use super::number::{Bound, Numbers};
use super::read::{Reader, Schema, without};
use super::shape::{Arrays, Contains, Keys, Objects, Places, Shape, Strings, opposite};
use crate::error::GrammarError;
use serde_json::Value;

type Result<T> = std::result::Result<T, GrammarError>;

/// How far inside `oneOf` is looked for what tells its schemas apart.
const DEPTH: usize = 4;

impl Reader<'_> {
    /// All values that the schema at `at` does not allow.
    pub(super) fn complement(&mut self, at: &str) -> Result<Vec<Shape>> {
        let shapes = self.shapes_at(at)?;
        self.minus(Shape::all(), &shapes, at)
    }

    /// The shapes of values that `left` has and `shapes` have not.
    fn minus(&mut self, left: Vec<Shape>, shapes: &[Shape], at: &str) -> Result<Vec<Shape>> {
        let mut left = left;
        for shape in shapes {
            if matches!(shape, Shape::Null | Shape::Bool(_)) {
                left.retain(|s| s != shape);
                continue;
            }
            let kind = std::mem::discriminant(shape);
            let (same, mut kept): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|s| std::mem::discriminant(s) == kind);
            if !same.is_empty() {
                let rest = outside(shape, &same).or_else(|e| self.refuse(at, e))?;
                kept.extend(self.product(&same, &rest, at)?);
            }
            left = kept;
        }
        Ok(left)
    }

    pub(super) fn one_of(&mut self, value: &Value, at: &str) -> Result<Vec<Shape>> {
        let options = self.union(value, at)?;
        let mut all = Vec::new();
        for (i, option) in options.iter().enumerate() {
            let mut left = option.clone();
            for (j, other) in options.iter().enumerate().filter(|(j, _)| *j != i) {
                let both = self.product(option, other, at)?;
                if !self.some_live(&both, DEPTH)? {
                    continue;
                }
                left = self.minus(left, other, at).or_else(|e| match e {
                    GrammarError::Schema { what, .. } => {
                        let what = format!(
                            "a value could match both {i} and {j}, or this can't be told, and what \
                             matches one alone can't be written ({what}): use anyOf, or tell them \
                             apart by a constant property or by types"
                        );
                        self.refuse(at, what)
                    }
                    other => Err(other),
                })?;
            }
            all.extend(left);
        }
        Ok(all)
    }

    /// What satisfies `if` and `then`, and what does not satisfy `if` but `else`.
    pub(super) fn cases(&mut self, schema: &Schema, at: &str) -> Result<Vec<Shape>> {
        let branch = |reader: &mut Self, key: &str| match schema.contains_key(key) {
            true => reader.shapes_at(&format!("{at}/{key}")),
            false => Ok(Shape::all()),
        };
        let (then, other) = (branch(self, "then")?, branch(self, "else")?);
        let here = format!("{at}/if");
        let (yes, no) = (self.shapes_at(&here)?, self.complement(&here)?);
        // The names that the case is about come after those of what holds in it.
        let mut all = self.product(&then, &yes, &here)?;
        all.extend(self.product(&other, &no, &here)?);
        Ok(all)
    }
}

/// All values of a shape's kind that don't have it. Of integers, where all of `among` are.
fn outside(shape: &Shape, among: &[Shape]) -> std::result::Result<Vec<Shape>, String> {
    Ok(match shape {
        Shape::Null | Shape::Bool(_) => Vec::new(),
        Shape::Number(n) => numbers(n, among)?.into_iter().map(Shape::Number).collect(),
        Shape::String(s) => strings(s).into_iter().map(Shape::String).collect(),
        Shape::Array(a) => arrays(a)?.into_iter().map(Shape::Array).collect(),
        Shape::Object(o) => objects(o)?.into_iter().map(Shape::Object).collect(),
    })
}

fn numbers(n: &Numbers, among: &[Shape]) -> std::result::Result<Vec<Numbers>, String> {
    let whole = among.iter().all(|s| matches!(s, Shape::Number(n) if n.integer));
    if n.multiple.is_some() || (n.integer && !whole) {
        return Err("numbers that are no integers, or no multiples, can't be written".to_owned());
    }
    let beyond = |bound: Bound| Some(Bound { open: !bound.open, ..bound });
    let below = n.low.map(|low| Numbers { high: beyond(low), ..Numbers::default() });
    let above = n.high.map(|high| Numbers { low: beyond(high), ..Numbers::default() });
    Ok(below.into_iter().chain(above).collect())
}

fn strings(s: &Strings) -> Vec<Strings> {
    let any = Strings::default;
    if let Some(values) = &s.values {
        return vec![Strings { not: values.clone(), ..any() }];
    }
    let mut all = Vec::new();
    if let Some(shorter) = s.min.checked_sub(1) {
        all.push(Strings { max: Some(shorter), ..any() });
    }
    all.extend(s.max.map(|max| Strings { min: max.saturating_add(1), ..any() }));
    all.extend(s.patterns.iter().map(|p| Strings { absent: vec![p.clone()], ..any() }));
    all.extend(s.absent.iter().map(|p| Strings { patterns: vec![p.clone()], ..any() }));
    if !s.not.is_empty() {
        all.push(Strings::one_of(s.not.clone()));
    }
    all
}

fn arrays(a: &Arrays) -> std::result::Result<Vec<Arrays>, String> {
    let mut all = Vec::new();
    if a.unique || a.contains.is_some() {
        return Err(
            "arrays that do not satisfy uniqueItems or contains can't be written".to_owned()
        );
    }
    for place in &a.rest {
        if !a.prefix.is_empty() {
            return Err("arrays of which some item after prefixItems does not satisfy items \
                        can't be written"
                .to_owned());
        }
        let contains = Some(Contains { places: opposite(place), min: 1, max: None });
        all.push(Arrays { contains, ..Arrays::default() });
    }
    if let Some(shorter) = a.min.checked_sub(1) {
        all.push(Arrays { max: Some(shorter), ..Arrays::default() });
    }
    all.extend(a.max.map(|max| Arrays { min: max + 1, ..Arrays::default() }));
    for (i, places) in a.prefix.iter().enumerate() {
        for place in places {
            let mut prefix = vec![Places::new(); i];
            prefix.push(opposite(place));
            all.push(Arrays { prefix, min: i as u64 + 1, ..Arrays::default() });
        }
    }
    Ok(all)
}

fn objects(o: &Objects) -> std::result::Result<Vec<Objects>, String> {
    if o.other != [(Keys::default(), Places::new())] || !o.names.is_empty() {
        return Err("objects with some other name than a schema allows can't be written: leave \
                    additionalProperties, patternProperties and propertyNames out of it"
            .to_owned());
    }
    let mut all: Vec<Objects> = o.required.iter().map(|name| without(name)).collect();
    for (name, places) in &o.named {
        for place in places {
            let named = vec![(name.clone(), opposite(place))];
            let required = vec![name.clone()];
            all.push(Objects { named, required, ..Objects::default() });
        }
    }
    if let Some(fewer) = o.min.checked_sub(1) {
        all.push(Objects { max: Some(fewer), ..Objects::default() });
    }
    all.extend(o.max.map(|max| Objects { min: max + 1, ..Objects::default() }));
    Ok(all)
}
