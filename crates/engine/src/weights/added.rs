//! What is added to canonical tensors and has a folder's names: adapters go with a checkpoint of any names.
//!
//! A folder's tensors become canonical ones by their family's table, and so does what is added to them:
//! both are linear but for norms, which adapters leave alone.
use super::moved::Moved;
use super::recipe::Recipe;
use super::rename::rename;
use super::{floats, needs, of_file, wide};
use crate::families::Family;
use crate::spec::ModelSpec;
use rinfer_formats::{DType, Prepared, Tensor, Weights};
use std::collections::HashMap;
use std::sync::Arc;

/// What is added to matrices of a folder's names.
pub(crate) trait Deltas: Weights {
    /// The lengths that the rows of the sum are given, if they are.
    fn lengths(&self, name: &str) -> Option<&[f32]>;
}

/// Whose names and rows what is added has.
#[derive(Debug, Clone)]
pub(crate) enum Like {
    /// A folder's: the base has its rows where these say.
    Folder(Arc<Moved>),
    /// Those of the GGUF file that the base is of.
    File,
}

/// By canonical name, how what is added to it is made of what has a folder's names.
#[derive(Debug, Default)]
pub(crate) struct Added {
    recipes: HashMap<String, Vec<Recipe>>,
    moved: Option<Arc<Moved>>,
}

impl Added {
    /// Of all that `deltas` has, for a model of `spec`.
    ///
    /// # Errors
    /// A tensor that can't be added, by its name, and why.
    pub fn of(
        deltas: &dyn Deltas,
        family: &Family,
        spec: &ModelSpec,
        like: &Like,
    ) -> Result<Added, (String, String)> {
        let shapes: HashMap<_, _> =
            needs(spec).into_iter().map(|need| (need.name, need.shape)).collect();
        let moved = if let Like::Folder(moved) = like { Some(Arc::clone(moved)) } else { None };
        let mut added = Added { moved, ..Added::default() };
        for name in deltas.names() {
            let wrong = |why: String| (name.to_owned(), why);
            let made = match like {
                Like::Folder(_) => rename(family.names, name, spec, &shapes).unwrap_or_default(),
                Like::File => of_file(family, name, spec, &shapes),
            };
            if made.is_empty() {
                return Err(wrong(format!("nothing that a model of {} is made of", family.name)));
            }
            for made in made {
                let Some(shape) = shapes.get(&made.name) else {
                    return Err(wrong(format!("the base has no '{}'", made.name)));
                };
                let found = match &made.recipe {
                    Recipe::Part(_, part) if part.turned && deltas.lengths(name).is_some() => {
                        return Err(wrong("lengths of rows, which are columns here".into()));
                    }
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
    /// What is added to, by canonical name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.recipes.keys().map(String::as_str)
    }
    /// `base`, to which `deltas` are added.
    pub fn over<'a>(&'a self, base: Box<dyn Weights + 'a>, deltas: &'a dyn Deltas) -> Sum<'a> {
        Sum { base, deltas, added: self }
    }
}

/// Canonical tensors with what is added to them, which are f32.
pub(crate) struct Sum<'a> {
    base: Box<dyn Weights + 'a>,
    deltas: &'a dyn Deltas,
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
        let mut values = wide(&tensor)?;
        self.base.release(&tensor.bytes);
        let each = values.len() / tensor.shape.first().copied().unwrap_or(1).max(1);
        for recipe in recipes {
            match (recipe, i) {
                // Experts that nothing is added to are not there.
                (Recipe::Stack(experts), Some(i)) => {
                    if let Some(from) = experts.get(&i) {
                        self.add(&mut values, from, |raw| wide(&raw.get(from)?))?;
                    }
                }
                (Recipe::Stack(experts), None) => {
                    for (e, from) in experts {
                        let values = values.get_mut(e * each..(e + 1) * each)?;
                        self.add(values, from, |raw| wide(&raw.get(from)?))?;
                    }
                }
                (Recipe::Whole(from) | Recipe::Part(from, _), i) => {
                    self.add(&mut values, from, |raw| match i {
                        Some(i) => wide(&recipe.part(raw, i)?),
                        None => self.in_place(name, &recipe.make(raw)?),
                    })?;
                }
                _ => return None,
            }
        }
        Some(floats(&values, tensor.shape))
    }

    /// Adds what `make` makes of the deltas' tensor called `from`, and gives rows of that their lengths.
    fn add(
        &self,
        values: &mut [f32],
        from: &str,
        make: impl Fn(&dyn Weights) -> Option<Vec<f32>>,
    ) -> Option<()> {
        let delta = make(self.deltas)?;
        values.iter_mut().zip(&delta).for_each(|(value, delta)| *value += delta);
        let Some(lengths) = self.deltas.lengths(from) else {
            return (delta.len() == values.len()).then_some(());
        };
        let rows = make(&Numbered(self.deltas))?;
        let mut squares = vec![0.0; lengths.len()];
        for (value, row) in values.iter().zip(&rows) {
            squares[*row as usize] += f64::from(*value) * f64::from(*value);
        }
        let factor = |(length, square): (&f32, f64)| (f64::from(*length) / square.sqrt()) as f32;
        let factors: Vec<f32> = lengths.iter().zip(squares).map(factor).collect();
        values.iter_mut().zip(rows).for_each(|(value, row)| *value *= factors[row as usize]);
        Some(())
    }

    /// A matrix's numbers with rows and columns where the base has them.
    fn in_place(&self, name: &str, delta: &Tensor<'_>) -> Option<Vec<f32>> {
        let (mut values, cols) = (wide(delta)?, delta.cols().max(1));
        let Some(Moved { rows, columns }) = self.added.moved.as_deref() else {
            return Some(values);
        };
        if let Some(rows) = rows.get(name) {
            let row = |from: &usize| values[from * cols..(from + 1) * cols].iter().copied();
            values = rows.iter().flat_map(row).collect();
        }
        if let Some(columns) = columns.get(name) {
            let turned = |row: &[f32]| columns.iter().map(|from| row[*from]).collect::<Vec<_>>();
            values = values.chunks(cols).flat_map(turned).collect();
        }
        Some(values)
    }
}

/// In place of each matrix, of its elements the number of their row.
struct Numbered<'a>(&'a dyn Deltas);

impl Weights for Numbered<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let (_, shape) = self.0.describe(name)?;
        let [rows, cols] = shape[..] else { return None };
        // As floats, which count rows of any matrix exactly.
        let row = |row: usize| std::iter::repeat_n(row as f32, cols);
        Some(floats(&(0..rows).flat_map(row).collect::<Vec<_>>(), shape))
    }
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }
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
    fn across(&self, name: &str, in_order: bool) -> Option<DType> {
        self.base.across(name, in_order).filter(|_| !self.added.recipes.contains_key(name))
    }
    fn part_across(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        self.base.part_across(name, i)
    }
    fn prepared(&self, name: &str) -> Option<Prepared<'_>> {
        self.base.prepared(name).filter(|_| !self.added.recipes.contains_key(name))
    }
    fn stored_order(&self, name: &str) -> Option<Arc<[u32]>> {
        self.base.stored_order(name)
    }
    fn names(&self) -> Vec<&str> {
        self.base.names()
    }
    fn release(&self, bytes: &[u8]) {
        self.base.release(bytes);
    }
}
