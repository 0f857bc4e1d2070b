//! Canonical names over any checkpoint, and which of them a model needs.
//!
//! The canonical names are GGUF's. A Hugging Face checkpoint is renamed by its family's table;
//! every tensor of it must be named there, so that none is left out unnoticed.
use crate::backend::LoadError;
use crate::config::{Config, ROPE_FREQS, Source};
use crate::families::{self, Family, Rename};
use crate::spec::{Branch, Head, ModelSpec, Norm, Op, QkNorm};
use rinfer_formats::{DType, Tensor, Weights, quant};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// A model and its tensors under canonical names.
pub struct Checkpoint<'a> {
    /// What to compute.
    pub spec: ModelSpec,
    /// Who said so.
    pub family: &'static Family,
    raw: &'a dyn Weights,
    names: Vec<String>,
    recipes: HashMap<String, Recipe>,
}

/// How a canonical tensor is made of the checkpoint's.
enum Recipe {
    Whole(String),
    Rows(String, Range<usize>),
    Mapped(String, fn(f32) -> f32),
    /// By expert.
    Stack(BTreeMap<usize, String>),
}

impl<'a> Checkpoint<'a> {
    /// Resolves hyper-parameters and names, and holds them against the tensors: what the spec says is
    /// then no larger than what the files hold. A head is tied if, and only if, there is none.
    ///
    /// # Errors
    /// An unknown architecture, a hyper-parameter that no model can have, a tensor without a name
    /// in the family's table, and as [`check`].
    pub fn open(config: Config, raw: &'a dyn Weights) -> Result<Checkpoint<'a>, LoadError> {
        let config = config.with_tensors(raw)?;
        let family = families::find(&config)?;
        let mut spec = (family.spec)(&config)?;
        let needs = needs(&spec);
        let (mut names, mut recipes) = (Vec::new(), HashMap::new());
        for name in raw.names() {
            let found = match config.source {
                Source::Gguf if name == ROPE_FREQS => Some(Vec::new()),
                Source::Gguf => Some(vec![(name.to_owned(), Recipe::Whole(name.to_owned()))]),
                Source::HuggingFace => rename(family.names, name, &needs),
            };
            for (canonical, recipe) in found.ok_or_else(|| unused(name))? {
                match (recipes.get_mut(&canonical), recipe) {
                    (None, recipe) => {
                        names.push(canonical.clone());
                        recipes.insert(canonical, recipe);
                    }
                    (Some(Recipe::Stack(all)), Recipe::Stack(mut one)) => all.append(&mut one),
                    (Some(_), _) => return Err(unused(name)),
                }
            }
        }
        if let Head::Lm { tied, .. } = &mut spec.head {
            *tied = !recipes.contains_key("output.weight");
        }
        let checkpoint = Checkpoint { spec, family, raw, names, recipes };
        check(&checkpoint.spec, &checkpoint)?;
        Ok(checkpoint)
    }
}

impl Weights for Checkpoint<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        match self.recipes.get(name)? {
            Recipe::Whole(from) => self.raw.get(from),
            Recipe::Rows(from, rows) => rows_of(self.raw.get(from)?, rows.clone()),
            Recipe::Mapped(from, map) => mapped(&self.raw.get(from)?, *map),
            Recipe::Stack(experts) => stacked(self.raw, experts),
        }
    }
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.raw.release(bytes);
    }
}

/// A tensor that a model needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Canonical, with its suffix.
    pub name: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
}

/// Every tensor that `spec` needs, in the order of a forward pass.
pub fn needs(spec: &ModelSpec) -> Vec<Need> {
    let mut list = List(Vec::new());
    list.matrix("token_embd", spec.vocab, spec.d_model, false);
    for (i, layer) in spec.layers.iter().enumerate() {
        for branch in layer {
            list.branch(i, branch, spec.d_model);
        }
    }
    list.norm("output_norm", spec.final_norm.as_ref(), spec.d_model);
    if let Head::Lm { tied, bias, .. } = spec.head {
        if !tied {
            list.add("output.weight".into(), vec![spec.vocab, spec.d_model]);
        }
        if bias {
            list.add("output.bias".into(), vec![spec.vocab]);
        }
    }
    list.0
}

/// Holds a checkpoint against what its model needs: nothing missing, misshapen or left over.
///
/// # Errors
/// The first such tensor.
pub fn check(spec: &ModelSpec, weights: &dyn Weights) -> Result<(), LoadError> {
    let needs = needs(spec);
    for need in &needs {
        let missing = || LoadError::Missing { name: need.name.clone() };
        let found = weights.get(&need.name).ok_or_else(missing)?;
        if *found.shape != need.shape {
            let (name, found) = (need.name.clone(), found.shape.to_vec());
            return Err(LoadError::Shape { name, found, expected: need.shape.clone() });
        }
    }
    let known: BTreeSet<&str> = needs.iter().map(|n| n.name.as_str()).collect();
    weights.names().into_iter().find(|n| !known.contains(n)).map_or(Ok(()), |n| Err(unused(n)))
}

/// The canonical name of a layer's part.
pub fn layer(i: usize, part: &str) -> String {
    format!("blk.{i}.{part}")
}

/// What a branch's norms are called, before and after its operations.
pub fn branch_norms(branch: &Branch) -> (&'static str, &'static str) {
    match branch.ops.first() {
        Some(Op::Mlp(_) | Op::Moe(_)) => ("ffn_norm", "post_ffw_norm"),
        _ => ("attn_norm", "post_attention_norm"),
    }
}

struct List(Vec<Need>);

impl List {
    fn add(&mut self, name: String, shape: Vec<usize>) {
        self.0.push(Need { name, shape });
    }
    fn matrix(&mut self, name: &str, rows: usize, cols: usize, bias: bool) {
        self.add(format!("{name}.weight"), vec![rows, cols]);
        if bias {
            self.add(format!("{name}.bias"), vec![rows]);
        }
    }
    fn norm(&mut self, name: &str, norm: Option<&Norm>, width: usize) {
        if let Some(norm) = norm {
            self.add(format!("{name}.weight"), vec![width]);
            if norm.bias {
                self.add(format!("{name}.bias"), vec![width]);
            }
        }
    }
    fn branch(&mut self, i: usize, branch: &Branch, d: usize) {
        let (pre, post) = branch_norms(branch);
        self.norm(&layer(i, pre), branch.pre.as_ref(), d);
        for op in &branch.ops {
            self.op(i, op, d);
        }
        self.norm(&layer(i, post), branch.post.as_ref(), d);
    }
    /// Operations that no backend runs yet name no tensors.
    fn op(&mut self, i: usize, op: &Op, d: usize) {
        match op {
            Op::Attention(a) => {
                let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
                self.matrix(&layer(i, "attn_q"), q, d, a.qkv_bias);
                self.matrix(&layer(i, "attn_k"), kv, d, a.qkv_bias);
                self.matrix(&layer(i, "attn_v"), kv, d, a.qkv_bias);
                let norms = match &a.qk_norm {
                    Some(QkNorm::PerHead(n)) => Some((n, a.head_dim, a.head_dim)),
                    Some(QkNorm::WholeVector(n)) => Some((n, q, kv)),
                    Some(QkNorm::L2 { .. }) | None => None,
                };
                if let Some((norm, q, k)) = norms {
                    self.norm(&layer(i, "attn_q_norm"), Some(norm), q);
                    self.norm(&layer(i, "attn_k_norm"), Some(norm), k);
                }
                self.matrix(&layer(i, "attn_output"), d, q, a.out_bias);
            }
            Op::Mlp(m) => {
                if m.gated {
                    self.matrix(&layer(i, "ffn_gate"), m.d_ff, d, m.bias);
                }
                self.matrix(&layer(i, "ffn_up"), m.d_ff, d, m.bias);
                self.matrix(&layer(i, "ffn_down"), d, m.d_ff, m.bias);
            }
            Op::Mla(_) | Op::DeltaNet(_) | Op::Mamba2(_) | Op::ShortConv(_) | Op::Moe(_) => {}
        }
    }
}

fn unused(name: &str) -> LoadError {
    LoadError::Unused { name: name.to_owned() }
}

/// What a Hugging Face tensor becomes: nothing if ignored, none if the table does not know it.
fn rename(table: &[Rename], name: &str, needs: &[Need]) -> Option<Vec<(String, Recipe)>> {
    let suffix = [".weight", ".bias"].into_iter().find(|s| name.ends_with(s)).unwrap_or("");
    let stem = &name[..name.len() - suffix.len()];
    let from = || name.to_owned();
    table.iter().find_map(|rule| {
        let (Rename::To(pattern, _)
        | Rename::Split(pattern, _)
        | Rename::Stack(pattern, _)
        | Rename::PlusOne(pattern, _)
        | Rename::NegExp(pattern, _)
        | Rename::Ignore(pattern)) = rule;
        let at = capture(pattern, stem)?;
        let one = |target: &str, recipe| vec![(target.replace("{}", &at.layer) + suffix, recipe)];
        Some(match rule {
            Rename::Ignore(_) => Vec::new(),
            Rename::To(_, to) => one(to, Recipe::Whole(from())),
            Rename::PlusOne(_, to) => one(to, Recipe::Mapped(from(), |x| x + 1.0)),
            Rename::NegExp(_, to) => one(to, Recipe::Mapped(from(), |x| -libm::expf(x))),
            Rename::Stack(_, to) => {
                let expert = at.expert.parse().ok()?;
                one(to, Recipe::Stack(BTreeMap::from([(expert, from())])))
            }
            Rename::Split(_, targets) => {
                let targets = targets.iter().map(|t| t.replace("{}", &at.layer) + suffix);
                split(targets, name, needs)
            }
        })
    })
}

/// What `{}` and `{e}` of a pattern stand for: digits.
#[derive(Default)]
struct Captured {
    layer: String,
    expert: String,
}

fn capture(mut pattern: &str, mut name: &str) -> Option<Captured> {
    let mut captured = Captured::default();
    while let Some(at) = pattern.find('{') {
        let (literal, hole) = pattern.split_at(at);
        name = name.strip_prefix(literal)?;
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = name.split_at_checked(digits).filter(|(n, _)| !n.is_empty())?;
        let (into, hole) = match hole.strip_prefix("{e}") {
            Some(rest) => (&mut captured.expert, rest),
            None => (&mut captured.layer, hole.strip_prefix("{}")?),
        };
        number.clone_into(into);
        (pattern, name) = (hole, rest);
    }
    (pattern == name).then_some(captured)
}

/// Consecutive rows for each target, as many as the spec says that it has.
fn split(
    targets: impl Iterator<Item = String>,
    name: &str,
    needs: &[Need],
) -> Vec<(String, Recipe)> {
    let mut from = 0;
    let rows = |target: &String| needs.iter().find(|n| n.name == *target).map_or(0, |n| n.shape[0]);
    targets
        .map(|target| {
            let range = from..from + rows(&target);
            from = range.end;
            (target, Recipe::Rows(name.to_owned(), range))
        })
        .collect()
}

fn rows_of(tensor: Tensor<'_>, rows: Range<usize>) -> Option<Tensor<'_>> {
    let (&outer, inner) = tensor.shape.split_first()?;
    let stride = tensor.bytes.len().checked_div(outer)?;
    let shape = [&[rows.len()], inner].concat();
    let at = rows.start * stride..rows.end * stride;
    let bytes = match tensor.bytes {
        Cow::Borrowed(b) => Cow::Borrowed(b.get(at)?),
        Cow::Owned(b) => Cow::Owned(b.get(at)?.to_vec()),
    };
    Some(Tensor { dtype: tensor.dtype, shape: shape.into(), bytes })
}

fn mapped<'a>(tensor: &Tensor<'_>, map: fn(f32) -> f32) -> Option<Tensor<'a>> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).ok()?;
    let bytes: Vec<u8> = values.into_iter().flat_map(|x| map(x).to_le_bytes()).collect();
    Some(Tensor { dtype: DType::F32, shape: tensor.shape.to_vec().into(), bytes: bytes.into() })
}

/// None unless the experts are numbered without a gap and alike.
fn stacked<'a>(raw: &'a dyn Weights, experts: &BTreeMap<usize, String>) -> Option<Tensor<'a>> {
    let first = raw.get(experts.get(&0)?)?;
    let shape = [&[experts.len()][..], &first.shape].concat();
    let mut bytes = Vec::with_capacity(first.bytes.len() * experts.len());
    for e in 0..experts.len() {
        let expert = raw.get(experts.get(&e)?)?;
        if expert.dtype != first.dtype || expert.shape != first.shape {
            return None;
        }
        bytes.extend_from_slice(&expert.bytes);
        raw.release(&expert.bytes);
    }
    Some(Tensor { dtype: first.dtype, shape: shape.into(), bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Raw(Vec<(&'static str, Vec<usize>, Vec<f32>)>);
    impl Weights for Raw {
        fn get(&self, name: &str) -> Option<Tensor<'_>> {
            let (_, shape, values) = self.0.iter().find(|t| t.0 == name)?;
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            Some(Tensor { dtype: DType::F32, shape: shape.into(), bytes: bytes.into() })
        }
        fn names(&self) -> Vec<&str> {
            self.0.iter().map(|t| t.0).collect()
        }
    }

    const TABLE: &[Rename] = &[
        Rename::To("a.{}.q", "blk.{}.q"),
        Rename::Split("a.{}.qk", &["blk.{}.b", "blk.{}.c"]),
        Rename::Stack("a.{}.x.{e}.up", "blk.{}.up_exps"),
        Rename::PlusOne("a.norm", "norm"),
        Rename::NegExp("a.{}.A_log", "blk.{}.ssm_a"),
        Rename::Ignore("a.{}.inv_freq"),
    ];

    /// Renames `raw` with [`TABLE`] and shows one canonical tensor.
    fn check(raw: Raw, name: &str, shape: &[usize], values: &[f32]) {
        let need = |name: &str, rows| Need { name: name.into(), shape: vec![rows, 2] };
        let needs = [need("blk.7.b.weight", 1), need("blk.7.c.weight", 2)];
        let mut recipes: HashMap<String, Recipe> = HashMap::new();
        for from in raw.names() {
            for (to, recipe) in rename(TABLE, from, &needs).expect("a known name") {
                match (recipes.get_mut(&to), recipe) {
                    (Some(Recipe::Stack(all)), Recipe::Stack(mut one)) => all.append(&mut one),
                    (_, recipe) => drop(recipes.insert(to, recipe)),
                }
            }
        }
        let found = match &recipes[name] {
            Recipe::Whole(from) => raw.get(from),
            Recipe::Rows(from, rows) => rows_of(raw.get(from).unwrap(), rows.clone()),
            Recipe::Mapped(from, map) => mapped(&raw.get(from).unwrap(), *map),
            Recipe::Stack(experts) => stacked(&raw, experts),
        };
        let Some(found) = found else { return assert!(shape.is_empty(), "{name}") };
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!((&*found.shape, &*found.bytes), (shape, &bytes[..]), "{name}");
    }

    #[test]
    fn renames() {
        let t = |name, shape: &[usize], values: &[f32]| (name, shape.to_vec(), values.to_vec());
        let one = |name, shape: &[usize], values: &[f32]| Raw(vec![t(name, shape, values)]);
        check(one("a.12.q.bias", &[1], &[3.0]), "blk.12.q.bias", &[1], &[3.0]);
        check(one("a.norm.weight", &[2], &[0.5, -1.0]), "norm.weight", &[2], &[1.5, 0.0]);
        check(one("a.0.A_log", &[1], &[0.0]), "blk.0.ssm_a", &[1], &[-1.0]);
        let fused = || one("a.7.qk.weight", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(fused(), "blk.7.b.weight", &[1, 2], &[1.0, 2.0]);
        check(fused(), "blk.7.c.weight", &[2, 2], &[3.0, 4.0, 5.0, 6.0]);
        let short = one("a.7.qk.weight", &[2, 2], &[1.0; 4]);
        check(short, "blk.7.c.weight", &[], &[]);
        let expert = |name, v: f32| t(name, &[1, 2], &[v, v]);
        let (one, two) = (expert("a.3.x.1.up.weight", 1.0), expert("a.3.x.0.up.weight", 0.0));
        let both = Raw(vec![one.clone(), two]);
        check(both, "blk.3.up_exps.weight", &[2, 1, 2], &[0.0, 0.0, 1.0, 1.0]);
        check(Raw(vec![one]), "blk.3.up_exps.weight", &[], &[]);
        assert!(rename(TABLE, "a.3.inv_freq", &[]).is_some_and(|r| r.is_empty()));
        for unknown in
            ["a.q.weight", "a.x.q.weight", "b.1.q.weight", "a.1.q.weight.scale", "a.1.qq"]
        {
            assert!(rename(TABLE, unknown, &[]).is_none(), "{unknown}");
        }
    }
}
