//! What is added to canonical tensors and has a folder's names: adapters go with a checkpoint of any names.
//!
//! A folder's tensors become canonical ones by their family's table, and so does what is added to them:
//! both are linear but for norms, which adapters leave alone.
use super::recipe::Recipe;
use super::rename::rename;
use super::{layer, needs};
use crate::families::Family;
use crate::spec::{ModelSpec, Op, RopeLayout};
use rinfer_formats::{DType, Prepared, Tensor, Weights, quant};
use std::collections::HashMap;
use std::sync::Arc;

/// By canonical name, how it is made of tensors of a folder's names.
#[derive(Debug, Default)]
pub struct Added {
    recipes: HashMap<String, Vec<Recipe>>,
    /// Heads whose rows are stored pair by pair, where a folder has halves.
    paired: HashMap<String, usize>,
}

impl Added {
    /// Of all that `deltas` has, for a model of `spec`; `folder` is what the family makes of a folder of
    /// the same model.
    ///
    /// # Errors
    /// A tensor that can't be added, by its name, and why.
    pub fn of(
        deltas: &dyn Weights,
        family: &Family,
        (spec, folder): (&ModelSpec, &ModelSpec),
    ) -> Result<Added, (String, String)> {
        let shapes: HashMap<_, _> =
            needs(spec).into_iter().map(|need| (need.name, need.shape)).collect();
        let mut added = Added { paired: paired(folder, spec), ..Added::default() };
        for name in deltas.names() {
            let wrong = |why: String| (name.to_owned(), why);
            let made = rename(family.names, name, spec, &shapes).unwrap_or_default();
            if made.is_empty() {
                return Err(wrong(format!("nothing that a model of {} is made of", family.name)));
            }
            for made in made {
                let Some(shape) = shapes.get(&made.name) else {
                    return Err(wrong(format!("the base has no '{}'", made.name)));
                };
                let found = match &made.recipe {
                    Recipe::Whole(_) | Recipe::Part(..) => made.recipe.describe(deltas),
                    Recipe::Stack(experts) => {
                        let one = experts.values().find_map(|name| deltas.describe(name));
                        one.map(|(dtype, one)| (dtype, [&shape[..1], &one[..]].concat()))
                    }
                    _ => {
                        return Err(wrong("made of several tensors, which is not added to".into()));
                    }
                };
                let found = found.map(|(_, found)| found);
                if found.as_ref() != Some(shape) {
                    let found = found.map_or("none".into(), |found| format!("{found:?}"));
                    return Err(wrong(format!(
                        "of shape {found} as '{}', which is {shape:?}",
                        made.name
                    )));
                }
                added.recipes.entry(made.name).or_default().push(made.recipe);
            }
        }
        Ok(added)
    }
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.recipes.is_empty()
    }
    /// `base`, to which `deltas` are added.
    pub fn over<'a>(&'a self, base: Box<dyn Weights + 'a>, deltas: &'a dyn Weights) -> Sum<'a> {
        Sum { base, deltas, added: self }
    }
}

/// Canonical tensors with what is added to them, which are f32.
pub struct Sum<'a> {
    base: Box<dyn Weights + 'a>,
    deltas: &'a dyn Weights,
    added: &'a Added,
}

impl Sum<'_> {
    /// `tensor`, widened, with what is added to it; to part `i`, of a stack's.
    fn sum<'t>(
        &self,
        tensor: Tensor<'t>,
        name: &str,
        recipes: &[Recipe],
        i: Option<usize>,
    ) -> Option<Tensor<'t>> {
        let mut values = vec![0.0; tensor.shape.iter().product()];
        quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).ok()?;
        self.base.release(&tensor.bytes);
        let each = values.len() / tensor.shape.first().copied().unwrap_or(1).max(1);
        for recipe in recipes {
            match (recipe, i) {
                // Experts that nothing is added to are not there.
                (Recipe::Stack(experts), Some(i)) => {
                    if let Some(delta) = experts.get(&i).and_then(|name| self.deltas.get(name)) {
                        add(&mut values, &delta)?;
                    }
                }
                (Recipe::Stack(experts), None) => {
                    for (e, from) in experts {
                        let delta = self.deltas.get(from)?;
                        add(values.get_mut(e * each..(e + 1) * each)?, &delta)?;
                    }
                }
                (_, Some(i)) => add(&mut values, &recipe.part(self.deltas, i)?)?,
                (_, None) => add(&mut values, &self.in_pairs(name, recipe.make(self.deltas)?)?)?,
            }
        }
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Some(Tensor { dtype: DType::F32, shape: tensor.shape, bytes: bytes.into() })
    }
    /// A matrix's rows as the base has them.
    fn in_pairs<'t>(&self, name: &str, delta: Tensor<'t>) -> Option<Tensor<'t>> {
        let Some(heads) = self.added.paired.get(name) else { return Some(delta) };
        let stride = delta.bytes.len() / delta.rows().max(1);
        let rows: Vec<&[u8]> = delta.bytes.chunks(stride.max(1)).collect();
        let row = |i| rows.get(pair(i, rows.len() / heads)).copied();
        let bytes = (0..rows.len()).map(row).collect::<Option<Vec<_>>>()?.concat();
        Some(Tensor { bytes: bytes.into(), ..delta })
    }
}

/// Which of a head's rows is its `i`th where they lie in pairs: pair `j` is what was row `j` of both
/// halves.
pub(crate) fn pair(i: usize, head: usize) -> usize {
    let (h, i) = (i / head, i % head);
    h * head + i % 2 * (head / 2) + i / 2
}

fn add(values: &mut [f32], delta: &Tensor<'_>) -> Option<()> {
    let mut wide = vec![0.0; delta.shape.iter().product()];
    quant::dequantise(delta.dtype, &delta.bytes, &mut wide).ok()?;
    let fits = wide.len() == values.len();
    values.iter_mut().zip(wide).for_each(|(value, delta)| *value += delta);
    fits.then_some(())
}

impl Weights for Sum<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let tensor = self.base.get(name)?;
        match self.added.recipes.get(name) {
            None => Some(tensor),
            Some(recipes) => self.sum(tensor, name, recipes, None),
        }
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        let tensor = self.base.part(name, i)?;
        match self.added.recipes.get(name) {
            None => Some(tensor),
            Some(recipes) => self.sum(tensor, name, recipes, Some(i)),
        }
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let (dtype, shape) = self.base.describe(name)?;
        Some((if self.added.recipes.contains_key(name) { DType::F32 } else { dtype }, shape))
    }
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        self.base.order(name).filter(|_| !self.added.recipes.contains_key(name))
    }
    fn in_order(&self, name: &str) -> Option<Tensor<'_>> {
        self.base.in_order(name)
    }
    fn prepared(&self, name: &str) -> Option<Prepared<'_>> {
        self.base.prepared(name)
    }
    fn names(&self) -> Vec<&str> {
        self.base.names()
    }
    fn release(&self, bytes: &[u8]) {
        self.base.release(bytes);
    }
}

/// Queries' and keys' tensors whose rows `theirs` stores pair by pair, where `ours` has halves, and
/// their heads.
pub(crate) fn paired(ours: &ModelSpec, theirs: &ModelSpec) -> HashMap<String, usize> {
    let mut all = HashMap::new();
    let layers = ours.layers.iter().enumerate();
    let parts = layers.flat_map(|(i, layer)| layer.iter().map(move |branch| (i, branch)));
    for (i, part) in parts.flat_map(|(i, branch)| branch.parts.iter().map(move |part| (i, part))) {
        let Op::Attention(a) = &part.op else { continue };
        // Those that do not rotate are stored as the others are.
        let id = usize::from(a.rope.map_or(0, |id| id.0));
        let layout = |spec: &ModelSpec| spec.ropes.get(id).map(|rope| rope.layout);
        if (layout(ours), layout(theirs)) == (Some(RopeLayout::Halves), Some(RopeLayout::Pairs)) {
            for (part, heads) in [("attn_q", a.heads), ("attn_k", a.kv_heads)] {
                for suffix in ["weight", "bias"] {
                    all.insert(layer(i, &format!("{part}.{suffix}")), heads);
                }
            }
        }
    }
    all
}
