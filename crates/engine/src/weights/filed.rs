//! Canonical tensors as a GGUF file has them: what the family's table of its names does, undone.
//!
//! A converter leaves together what a checkpoint has in one tensor, where GGUF has a name for it, so
//! rules that cut are undone of such alone.
use super::recipe::{Form, Recipe, Rows};
use super::rename::{apply, captured, rename};
use super::{Checkpoint, needs};
use crate::families::{Cut, Rename};
use std::collections::{HashMap, HashSet};

/// A tensor of a GGUF file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filed {
    /// As the file calls it.
    pub name: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// The canonical tensors that it holds.
    pub pieces: Vec<Piece>,
}

/// A canonical tensor within another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    /// Canonical, with its suffix.
    pub name: String,
    /// By row of its own, the row of the whole that it is; none if it is the whole.
    pub rows: Option<Vec<usize>>,
}

impl Checkpoint<'_> {
    /// By name of the checkpoint's own tensors that are rows of canonical ones, those.
    pub(crate) fn within(&self) -> HashMap<String, Vec<Piece>> {
        let mut all: HashMap<String, Vec<Piece>> = HashMap::new();
        for name in &self.names {
            let rows = |from: &String, rows| Some((from.clone(), rows));
            let found = match &self.recipes[name] {
                Recipe::Whole(from) | Recipe::Flat(from) => rows(from, None),
                Recipe::Part(from, part) if part.form == Form::Matrix && !part.turned => {
                    rows(from, Some(listed(&part.rows)))
                }
                _ => None,
            };
            if let Some((from, rows)) = found {
                all.entry(from).or_default().push(Piece { name: name.clone(), rows });
            }
        }
        all
    }

    /// What a GGUF file of this checkpoint has, in the order of a forward pass.
    pub(crate) fn filed(&self) -> Vec<Filed> {
        let mut done: HashSet<String> = HashSet::new();
        let mut all = Vec::new();
        for need in needs(&self.spec) {
            if done.contains(&need.name) || !self.recipes.contains_key(&need.name) {
                continue;
            }
            let rules = self.family.gguf_names.iter().copied().flatten();
            let undone = rules.filter_map(|rule| self.undo(rule, &need.name));
            let whole = || Filed {
                name: need.name.clone(),
                shape: need.shape.clone(),
                pieces: vec![Piece { name: need.name.clone(), rows: None }],
            };
            let free = |filed: &Filed| filed.pieces.iter().all(|p| !done.contains(&p.name));
            let filed = { undone }.find(free).unwrap_or_else(whole);
            done.extend(filed.pieces.iter().map(|piece| piece.name.clone()));
            all.push(filed);
        }
        all
    }

    /// The tensor of which `rule` makes the canonical `name`, if there is one in such a file.
    fn undo(&self, rule: &Rename, name: &str) -> Option<Filed> {
        if let Rename::Next(from, next, last) = rule {
            return self.undo_next((from, next, last), name);
        }
        let (from, targets): (&str, &[&str]) = match rule {
            Rename::To(from, to) | Rename::Flat(from, to) => (from, &[*to]),
            Rename::Split(from, targets) | Rename::Cut(from, _, targets) => (from, targets),
            _ => return None,
        };
        let suffix = [".weight", ".bias"].into_iter().find(|s| name.ends_with(s)).unwrap_or("");
        let stem = &name[..name.len() - suffix.len()];
        let layers = self.spec.layers.len();
        // A target may state its suffix, where the file's name has none.
        let of = |target: &&str| {
            let bare = captured(target, stem, layers).map(|at| (at, suffix));
            bare.or_else(|| Some((captured(target, name, layers)?, "")))
        };
        let (at, suffix) = targets.iter().find_map(of)?;
        let stored = from.replace("{}", &at.layer) + suffix;
        if self.needless_second(&stored, name) || !self.has_heads(rule, &at.layer) {
            return None;
        }
        let made = apply(rule, &stored, &self.spec, &self.shapes)?;
        if made.iter().any(|made| !self.shapes.contains_key(&made.name)) {
            return None;
        }
        let shape = self.shapes.get(name)?;
        let [one] = &made[..] else { return self.together(stored, &made) };
        match one.recipe {
            Recipe::Whole(_) | Recipe::Flat(_) => Some(Filed {
                name: stored,
                shape: shape.clone(),
                pieces: vec![Piece { name: name.to_owned(), rows: None }],
            }),
            _ => None,
        }
    }

    /// The norm of a sum, which the next layer reads.
    fn undo_next(&self, (from, next, last): (&str, &str, &str), name: &str) -> Option<Filed> {
        let (stem, suffix) = name.split_at(name.rfind('.')?);
        let layers = self.spec.layers.len();
        let after = match captured(next, stem, layers) {
            Some(at) => at.layer.parse::<usize>().ok()?,
            None => Some(layers).filter(|_| stem == last)?,
        };
        Some(Filed {
            name: from.replace("{}", &after.checked_sub(1)?.to_string()) + suffix,
            shape: self.shapes.get(name)?.clone(),
            pieces: vec![Piece { name: name.to_owned(), rows: None }],
        })
    }

    /// Several in one.
    fn together(&self, stored: String, made: &[super::Made]) -> Option<Filed> {
        let source = |name: &str| match self.recipes.get(name)? {
            Recipe::Part(source, _) => Some(source.as_str()),
            _ => None,
        };
        let one = source(&made.first()?.name)?;
        if made.iter().any(|made| source(&made.name) != Some(one)) {
            return None;
        }
        let (mut pieces, mut count) = (Vec::new(), 0);
        for made in made {
            let Recipe::Part(_, part) = &made.recipe else { return None };
            if part.form != Form::Matrix || part.turned {
                return None;
            }
            let rows = listed(&part.rows);
            count += rows.len();
            pieces.push(Piece { name: made.name.clone(), rows: Some(rows) });
        }
        let mut shape = self.shapes.get(&made.first()?.name)?.clone();
        let axis = shape.len() - if shape.len() == 1 || stored.ends_with(".bias") { 1 } else { 2 };
        shape[axis] = count;
        Some(Filed { name: stored, shape, pieces })
    }

    /// Whether the layer has the heads by which a rule cuts.
    fn has_heads(&self, rule: &Rename, layer: &str) -> bool {
        let Rename::Cut(_, Cut::Heads(per), _) = rule else { return true };
        let layer = layer.parse().ok().and_then(|i: usize| self.spec.layers.get(i));
        layer.is_some_and(|layer| per.find(layer).is_some())
    }

    /// Whether `stored` is called the second of what has the canonical name, which nothing else takes.
    fn needless_second(&self, stored: &str, name: &str) -> bool {
        let stem = |name: &str| {
            name.strip_suffix(".weight").or(name.strip_suffix(".bias")).map(str::to_owned)
        };
        let second = stem(stored).zip(stem(name)).is_some_and(|(s, n)| s == n + "_2");
        let taken = || {
            let made = rename(self.family.gguf_names, name, &self.spec, &self.shapes);
            made.is_some_and(|made| made.iter().all(|m| self.shapes.contains_key(&m.name)))
        };
        second && !taken()
    }
}

/// Each of the rows.
fn listed(rows: &Rows) -> Vec<usize> {
    let run = |i: usize| (0..rows.len).map(move |j| rows.start + i * rows.step + j);
    (0..rows.times).flat_map(run).collect()
}
