//! Every tensor that a spec needs, in the order of a forward pass.
mod attention;
mod mlp;
mod recurrent;
mod streams;

use super::{Owner, branch_norms, dense_layers, layer, part_norms, unused};
use crate::backend::LoadError;
use crate::spec::{Branch, Head, ModelSpec, Norm, Op, Then};
use rinfer_formats::Weights;
use std::collections::BTreeSet;

/// A tensor that a model needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Canonical, with its suffix.
    pub name: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// Whether it is held as a packed matrix, rather than as plain f32.
    pub packed: bool,
    /// How many operations read it, in as many layers: one but for what these share.
    pub uses: usize,
}

/// Every tensor that `spec` needs.
pub fn needs(spec: &ModelSpec) -> Vec<Need> {
    let mut list = List(Vec::new());
    list.matrix("token_embd", spec.vocab, spec.d_model, false);
    if let Some(types) = spec.embed.types {
        list.matrix("token_types", types, spec.d_model, false);
    }
    if let Some(positions) = spec.embed.positions {
        list.matrix("position_embd", positions.rows, spec.d_model, false);
    }
    list.norm("token_embd_norm", spec.embed.norm.as_ref(), spec.d_model);
    list.ends(spec);
    for (i, branches) in spec.layers.iter().enumerate() {
        for branch in branches {
            list.branch(i, branch, spec);
        }
        if let Some(altup) = &spec.altup {
            list.mixer(i, altup, spec.d_model);
        }
        if branches.iter().any(|branch| branch.then == Then::Learned) {
            list.add(layer(i, "layer_output_scale.weight"), vec![1]);
        }
    }
    list.norm("output_norm", spec.final_norm.as_ref(), spec.d_model);
    list.head(spec);
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
        let (_, found) = weights.describe(&need.name).ok_or_else(missing)?;
        if found != need.shape {
            let name = need.name.clone();
            return Err(LoadError::Shape { name, found, expected: need.shape.clone() });
        }
    }
    let known: BTreeSet<&str> = needs.iter().map(|n| n.name.as_str()).collect();
    weights.names().into_iter().find(|n| !known.contains(n)).map_or(Ok(()), |n| Err(unused(n)))
}

/// The tensors named so far.
pub(super) struct List(Vec<Need>);

impl List {
    fn add(&mut self, name: String, shape: Vec<usize>) {
        let packed = shape.len() > 1 && name.ends_with(".weight");
        self.push(Need { name, shape, packed, uses: 1 });
    }
    /// What layers share is there once.
    fn push(&mut self, need: Need) {
        let shared = need.name.starts_with("shared.");
        match self.0.iter_mut().find(|known| shared && known.name == need.name) {
            Some(known) => known.uses += 1,
            None => self.0.push(need),
        }
    }
    /// Numbers that no product reads, of any shape.
    fn numbers(&mut self, name: String, shape: &[usize]) {
        self.push(Need { name, shape: shape.to_vec(), packed: false, uses: 1 });
    }
    fn matrix(&mut self, name: &str, rows: usize, cols: usize, bias: bool) {
        self.add(format!("{name}.weight"), vec![rows, cols]);
        if bias {
            self.add(format!("{name}.bias"), vec![rows]);
        }
    }
    fn norm(&mut self, name: &str, norm: Option<&Norm>, width: usize) {
        self.norms(name, norm, &[width]);
    }
    /// A norm whose parameters are several vectors.
    fn norms(&mut self, name: &str, norm: Option<&Norm>, shape: &[usize]) {
        let Some(norm) = norm else { return };
        if norm.weight {
            self.vectors(format!("{name}.weight"), shape.to_vec());
        }
        if norm.bias {
            self.vectors(format!("{name}.bias"), shape.to_vec());
        }
    }
    /// Several vectors.
    fn vectors(&mut self, name: String, shape: Vec<usize>) {
        self.push(Need { name, shape, packed: false, uses: 1 });
    }
    fn head(&mut self, spec: &ModelSpec) {
        match &spec.head {
            Head::Lm { tied, bias, .. } => {
                if !tied {
                    self.add("output.weight".into(), vec![spec.vocab, spec.d_model]);
                }
                if *bias {
                    self.add("output.bias".into(), vec![spec.vocab]);
                }
            }
            Head::Pool { .. } => {
                let mut from = spec.d_model;
                for (name, layer) in dense_layers(&spec.head) {
                    self.matrix(&name, layer.width, from, layer.bias);
                    self.norm(&format!("{name}_norm"), layer.norm.as_ref(), layer.width);
                    from = layer.width;
                }
            }
        }
    }
    fn branch(&mut self, i: usize, branch: &Branch, spec: &ModelSpec) {
        let (d, width) = (spec.d_model, branch.reads.width(spec.d_model));
        let owner = Owner::of(i, branch);
        let (pre, post) = branch_norms(branch);
        self.norm(&layer(owner, pre), branch.pre.as_ref(), width);
        for (at, part) in branch.parts.iter().enumerate() {
            let (before, after) = part_norms(branch, at);
            self.norm(&layer(owner, before), part.pre.as_ref(), width);
            match &part.op {
                Op::Attention(a) => self.attention(owner, a, [width, d]),
                Op::Mlp(m) => self.mlp(owner, "", m, d),
                op => self.op(i, op, spec),
            }
            self.norm(&layer(owner, after), part.post.as_ref(), d);
        }
        self.norm(&layer(owner, post), branch.post.as_ref(), d);
    }
    /// An operation whose tensors are always its layer's own.
    fn op(&mut self, i: usize, op: &Op, spec: &ModelSpec) {
        let d = spec.d_model;
        match op {
            Op::Attention(_) | Op::Mlp(_) => {}
            Op::Mla(m) => self.mla(i, m, d),
            Op::Moe(m) => self.moe(i, m, d),
            Op::Laurel(l) => self.laurel(i, l, d),
            Op::InputGate(_) => self.input_gate(i, spec),
            Op::Linear => self.matrix(&layer(i, "linear"), d, d, false),
            Op::DeltaNet(n) => self.delta_net(i, n, d),
            Op::Lightning(l) => self.lightning(i, l, d),
            Op::Mamba1(m) => self.mamba1(i, m, d),
            Op::Mamba2(m) => self.mamba2(i, m, d),
            Op::RgLru(r) => self.rg_lru(i, r, d),
            Op::ShortConv(s) => self.short_conv(i, s, d),
        }
    }
}
