//! Canonical names over any checkpoint, and which of them a model needs.
//!
//! The canonical names are GGUF's. A checkpoint's own are turned into them by its family's tables:
//! `rename` finds the rule of a name, `recipe` makes the tensor, `needs` says what there must be.
//! Every tensor of a Hugging Face checkpoint must be named, so that none is left out unnoticed.
pub(crate) mod added;
mod filed;
pub(crate) mod moved;
pub(crate) mod needs;
mod ready;
mod recipe;
mod rename;
mod text;
mod wide;

pub(crate) use crate::families::common::names::OUTER;
pub(crate) use filed::{Filed, Piece};
pub use needs::{Need, check, needs};
pub use ready::Ready;
pub(crate) use wide::{floats, wide};

use crate::backend::LoadError;
use crate::config::{Config, GGUF_TENSORS, Source};
use crate::families::common::names::MODULES;
use crate::families::{self, Family};
use crate::spec::{Branch, Dense, Head, ModelSpec, Op};
use recipe::{Made, Recipe, all, held, same_but_for_ones};
use rename::{Shapes, rename};
use rinfer_formats::{DType, Tensor, Weights, quant};
use std::collections::HashMap;
use std::sync::Arc;
use text::Text;

/// A model and its tensors under canonical names.
pub struct Checkpoint<'a> {
    /// What to compute.
    pub spec: ModelSpec,
    /// Who said so.
    pub family: &'static Family,
    raw: Text<'a>,
    names: Vec<String>,
    recipes: HashMap<String, Recipe>,
    /// Of what is needed.
    shapes: HashMap<String, Vec<usize>>,
    /// Types of stacks whose parts' columns lie in orders.
    in_orders: HashMap<String, DType>,
}

impl<'a> Checkpoint<'a> {
    /// Resolves hyper-parameters and names, and holds them against the tensors: what the spec says is
    /// then no larger than what the files hold. A head is tied if, and only if, there is none.
    ///
    /// # Errors
    /// An unknown architecture, a hyper-parameter that no model can have, a tensor without a name
    /// in the family's table, and as [`check`].
    pub fn open(config: Config, raw: &'a dyn Weights) -> Result<Checkpoint<'a>, LoadError> {
        let raw = Text::new(raw, config.nested)?;
        let config = config.with_tensors(&raw)?;
        let family = families::find(&config)?;
        let mut spec = (family.spec)(&config)?;
        families::common::encoders::pool(&config, &mut spec)?;
        families::agree(&config, &spec)?;
        let shapes: HashMap<_, _> =
            needs(&spec).into_iter().map(|need| (need.name, need.shape)).collect();
        let (mut names, mut recipes) = (Vec::new(), HashMap::new());
        for name in raw.names() {
            let found = match config.source {
                Source::Gguf if GGUF_TENSORS.contains(&name) => Some(Vec::new()),
                Source::Gguf => Some(of_file(family, name, &spec, &shapes)),
                Source::HuggingFace => {
                    let tables = [&[MODULES][..], family.names].concat();
                    rename(&tables, name, &spec, &shapes)
                }
            };
            let stored = || unused(raw.stored(name));
            let found = found.ok_or_else(stored)?;
            if found.iter().any(|m| !shapes.contains_key(&m.name)) && adds_nothing(&raw, name) {
                continue;
            }
            // What pools has no use for a head that an earlier training left.
            let pools = matches!(spec.head, Head::Pool { .. });
            let used = |made: &Made| !pools || !made.name.starts_with("output.");
            for Made { name: canonical, recipe } in found.into_iter().filter(used) {
                match (recipes.get_mut(&canonical), recipe) {
                    (None, recipe) => {
                        names.push(canonical.clone());
                        recipes.insert(canonical, recipe);
                    }
                    // Numbers may be spelt in several ways.
                    (Some(Recipe::Stack(all)), Recipe::Stack(mut one))
                        if one.keys().all(|expert| !all.contains_key(expert)) =>
                    {
                        all.append(&mut one);
                    }
                    (Some(_), _) => return Err(stored()),
                }
            }
        }
        if let Head::Lm { tied, .. } = &mut spec.head {
            *tied = !recipes.contains_key("output.weight");
        }
        let of_stack = |(name, recipe): (&String, &Recipe)| {
            let orders = recipe.parts()?.values().map(|part| raw.order(part).map(|o| o.0));
            let types: Vec<DType> = orders.collect::<Option<_>>()?;
            Some((name.clone(), all(types.into_iter())?))
        };
        let in_orders = recipes.iter().filter_map(of_stack).collect();
        let checkpoint = Checkpoint { spec, family, raw, names, recipes, shapes, in_orders };
        check(&checkpoint.spec, &checkpoint)?;
        Ok(checkpoint)
    }
}

/// What a GGUF file's tensor becomes: itself, where no rule makes of it what is needed.
fn of_file(family: &Family, name: &str, spec: &ModelSpec, shapes: &Shapes) -> Vec<Made> {
    let made = rename(family.gguf_names, name, spec, shapes);
    let needed = made.filter(|made| made.iter().all(|made| shapes.contains_key(&made.name)));
    needed.unwrap_or_else(|| vec![Made::of(name.to_owned(), Recipe::Whole(name.to_owned()))])
}

impl Checkpoint<'_> {
    /// The shape that is needed of a tensor, if it has the same elements.
    fn needed(&self, name: &str, found: &[usize]) -> Option<&[usize]> {
        self.shapes.get(name).filter(|needed| same_but_for_ones(found, needed)).map(Vec::as_slice)
    }
}

impl Weights for Checkpoint<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let mut made = self.recipes.get(name)?.make(&self.raw)?;
        if let Some(needed) = self.needed(name, &made.shape) {
            made.shape = needed.into();
        }
        Some(made)
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        let recipe = self.recipes.get(name)?;
        let (_, shape) = recipe.describe(&self.raw)?;
        // Of a tensor that has another first axis, the part is not the source's.
        match self.needed(name, &shape).filter(|needed| needed.first() != shape.first()) {
            Some(_) => self.get(name)?.part(i),
            None => {
                let mut part = recipe.part(&self.raw, i)?;
                let needed = self.shapes.get(name).and_then(|whole| whole.get(1..));
                if let Some(needed) = needed.filter(|n| same_but_for_ones(&part.shape, n)) {
                    part.shape = needed.into();
                }
                Some(part)
            }
        }
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let (dtype, shape) = self.recipes.get(name)?.describe(&self.raw)?;
        let needed = self.needed(name, &shape).map(<[usize]>::to_vec);
        Some((dtype, needed.unwrap_or(shape)))
    }
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        self.recipes.get(name)?.order(&self.raw)
    }
    fn in_order(&self, name: &str) -> Option<Tensor<'_>> {
        self.recipes.get(name)?.in_order(&self.raw)
    }
    fn across(&self, name: &str, in_order: bool) -> Option<DType> {
        self.recipes.get(name)?.across(&self.raw, in_order)
    }
    fn part_across(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        let recipe = self.recipes.get(name)?;
        recipe.part_as_stored(self.raw.get(recipe.source()?)?, i)
    }
    fn part_order(&self, name: &str, i: usize) -> Option<(DType, Arc<[u32]>)> {
        let recipe = self.recipes.get(name)?;
        if let Some(from) = recipe.source() {
            return self.raw.order(from);
        }
        let (_, order) = self.raw.order(recipe.parts()?.get(&i)?)?;
        Some((*self.in_orders.get(name)?, order))
    }
    fn part_in_order(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        let recipe = self.recipes.get(name)?;
        if let Some(from) = recipe.source() {
            return recipe.part_as_stored(self.raw.in_order(from)?, i);
        }
        let part = self.raw.in_order(recipe.parts()?.get(&i)?)?;
        Some(held(part, *self.in_orders.get(name)?))
    }
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.raw.release(bytes);
    }
}

/// Whose a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A layer's.
    Layer(usize),
    /// That of all branches that share it under this number.
    Shared(usize),
}

impl From<usize> for Owner {
    fn from(layer: usize) -> Owner {
        Owner::Layer(layer)
    }
}

impl Owner {
    /// Whose the tensors of layer `i`'s branch are.
    pub fn of(i: usize, branch: &Branch) -> Owner {
        branch.shared.map_or(Owner::Layer(i), Owner::Shared)
    }
}

/// The canonical name of a layer's part, or of one that layers share.
pub fn layer(owner: impl Into<Owner>, part: &str) -> String {
    match owner.into() {
        Owner::Layer(i) => format!("blk.{i}.{part}"),
        Owner::Shared(n) => format!("shared.{n}.{part}"),
    }
}

/// The canonical names of the dense layers after pooling: GGUF counts sentence-transformers' modules, and
/// calls by their task those of what scores texts.
pub fn dense_layers(head: &Head) -> Vec<(String, Dense)> {
    let Head::Pool { dense, scores, .. } = head else { return Vec::new() };
    let name = |i: usize| match (scores, i) {
        (false, _) => format!("dense_{}", i + 2),
        (true, 1..) if i + 1 == dense.len() => "cls.output".to_owned(),
        (true, _) => "cls".to_owned(),
    };
    dense.iter().enumerate().map(|(i, dense)| (name(i), *dense)).collect()
}

/// What a branch's norms are called, before and after its operations.
pub fn branch_norms(branch: &Branch) -> (&'static str, &'static str) {
    match branch.parts.first().map(|part| &part.op) {
        Some(Op::Mlp(_) | Op::Moe(_)) => ("ffn_norm", "post_ffw_norm"),
        Some(Op::InputGate(_)) => ("altup_correct_scale", "post_norm"),
        _ => ("attn_norm", "post_attention_norm"),
    }
}

/// What the norms of part `i` of a branch are called: one that has norms of its own beside others.
pub fn part_norms(branch: &Branch, i: usize) -> (&'static str, &'static str) {
    match (&branch.parts[i].op, i) {
        (Op::Moe(_), 1..) => ("pre_ffw_norm_2", "post_ffw_norm_2"),
        (Op::Mlp(_) | Op::Moe(_), _) => ("ffn_norm", "post_ffw_norm_1"),
        _ if branch.post.is_none() => ("attn_norm", "post_attention_norm"),
        _ => ("attn_norm", "post_attention_norm_1"),
    }
}

/// Whether a tensor is a bias of zeros: quantisers give one to every matrix.
fn adds_nothing(raw: &dyn Weights, name: &str) -> bool {
    let bias = || name.ends_with(".bias").then(|| raw.get(name))?;
    bias().filter(|tensor| !tensor.bytes.is_empty()).is_some_and(|tensor| {
        let mut values = vec![1.0; tensor.shape.iter().product()];
        quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).is_ok()
            && values.iter().all(|x| *x == 0.0)
    })
}

fn unused(name: &str) -> LoadError {
    LoadError::Unused { name: name.to_owned() }
}
