//! Columns in another order: what a checkpoint stores so that groups of inputs lie together (GPTQ's
//! act-order) is multiplied as it lies, by inputs that are made in its order.
//!
//! A norm makes its elements in the order of the matrices that read them; what another order or none
//! was stored in is turned to it when it is loaded. The rows of a gate and an up are turned to the
//! order of the down that reads them; so it is with experts, each of which has what it reads gathered in
//! its own order. What else is in an order of its own is widened in the columns' own.
use crate::backend::Quant;
use crate::spec::{Attention, Branch, Mlp, ModelSpec, Moe, Norm, NormKind, Op, Reads, Skip};
use crate::weights::{branch_norms, layer};
use rinfer_formats::Weights;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An order: its element `k` is element `order[k]` of what it is an order of.
pub(crate) type Order = Arc<[u32]>;

/// By canonical name, without a suffix.
#[derive(Default)]
pub(crate) struct Orders {
    /// Of matrices' columns.
    columns: HashMap<String, Order>,
    /// Of matrices' rows and biases, and of norms.
    rows: HashMap<String, Order>,
    /// Of norms' outputs, and of the inputs of stacks' experts one after another.
    norms: BTreeMap<String, Order>,
    /// Of experts' rows and columns, by stack and expert.
    experts: HashMap<String, Vec<[Option<Order>; 2]>>,
    /// That a plan holds.
    bytes: usize,
}

impl Orders {
    /// Of a model's `weights`, under canonical names. What is converted has none.
    pub fn of(spec: &ModelSpec, weights: &dyn Weights, quant: Quant) -> Orders {
        let mut orders = Orders::default();
        if quant == Quant::Native && spec.altup.is_none() && spec.embed.per_layer.is_none() {
            for (i, branches) in spec.layers.iter().enumerate() {
                branches.iter().for_each(|branch| orders.branch(i, branch, weights));
            }
        }
        orders
    }
    /// Of the columns of the matrix called `name`.
    pub fn columns(&self, name: &str) -> Option<&Order> {
        self.columns.get(name.strip_suffix(".weight")?)
    }
    /// Of the elements of the vector, or the rows of the matrix, called `name`.
    pub fn rows(&self, name: &str) -> Option<&Order> {
        let stem = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias"))?;
        self.rows.get(stem)
    }

    /// Of the output of the norm called so, without a suffix; or of the inputs of a stack's experts, one
    /// after another.
    pub fn norm(&self, name: &str) -> Option<&Order> {
        self.norms.get(name)
    }
    /// All of these, by name.
    pub fn norms(&self) -> Vec<(&str, &Order)> {
        self.norms.iter().map(|(name, order)| (&**name, order)).collect()
    }

    /// Of the rows and columns of each expert of the stack called `name`.
    pub fn experts(&self, name: &str) -> Option<&[[Option<Order>; 2]]> {
        self.experts.get(name.strip_suffix(".weight")?).map(Vec::as_slice)
    }
    /// Of the norms' orders, and of experts' inputs.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What each expert reads is brought together for it alone, so in its own order.
    fn mixture(&mut self, i: usize, m: &Moe, weights: &dyn Weights) {
        let name = |part: &str| layer(i, part);
        let of = |name: &String| -> Option<Vec<Order>> {
            let order = |e| weights.part_order(&format!("{name}.weight"), e);
            (0..m.experts).map(|e| order(e).map(|(_, order)| order)).collect()
        };
        let gate = m.expert.gated.then(|| name("ffn_gate_exps"));
        let inputs: Vec<String> = gate.into_iter().chain([name("ffn_up_exps")]).collect();
        let first = inputs[0].clone();
        // As of norms: a bundle's experts are packed in their orders.
        if let Some(order) = weights.stored_order(&first) {
            self.bytes += size_of_val(&order[..]);
            self.norms.insert(first, order);
            return;
        }
        let (columns, rows) = (inputs.iter().find_map(of), of(&name("ffn_down_exps")));
        let all = |rows: &Option<Vec<Order>>, columns: &Option<Vec<Order>>| {
            let at = |orders: &Option<Vec<Order>>, e: usize| Some(orders.as_ref()?[e].clone());
            (0..m.experts).map(|e| [at(rows, e), at(columns, e)]).collect::<Vec<_>>()
        };
        if columns.is_some() || rows.is_some() {
            let orders = inputs.into_iter().map(|input| (input, all(&rows, &columns)));
            self.experts.extend(orders);
        }
        if let Some(columns) = columns {
            let all: Order = columns.iter().flat_map(|order| order.iter().copied()).collect();
            self.bytes += size_of_val(&all[..]);
            self.norms.insert(first, all);
        }
        if rows.is_some() {
            self.experts.insert(name("ffn_down_exps"), all(&None, &rows));
        }
    }

    fn branch(&mut self, i: usize, branch: &Branch, weights: &dyn Weights) {
        for part in branch.parts.iter().filter(|_| branch.shared.is_none()) {
            if let Op::Moe(m) = &part.op
                && !m.expert.bias
            {
                self.mixture(i, m, weights);
            }
        }
        let Branch { parts, pre: Some(Norm { kind, .. }), skip: Skip::Stream, .. } = branch else {
            return;
        };
        if branch.reads != Reads::Stream || branch.shared.is_some() {
            return;
        }
        let norm = layer(i, branch_norms(branch).0);
        // A bundle has what is packed in its order, and says in which norms are to make theirs.
        if let Some(order) = weights.stored_order(&norm) {
            self.bytes += size_of_val(&order[..]);
            self.norms.insert(norm, order);
            return;
        }
        let [part] = &parts[..] else { return };
        if part.pre.is_some() || *kind == NormKind::None {
            return;
        }
        let name = |part: &str| layer(i, part);
        let order = |name: &str| weights.order(&format!("{name}.weight")).map(|(_, order)| order);
        let inputs = match &part.op {
            // What is added to their products reads the norm's own order.
            Op::Attention(Attention { adapter: Some(_), .. })
            | Op::Mlp(Mlp { adapter: Some(_), .. }) => return,
            Op::Attention(a) => {
                let keys = a.kv_from.is_none();
                let all = [
                    ("attn_q", true),
                    ("attn_k", keys),
                    ("attn_v", keys && !a.v_from_k),
                    ("attn_gate", a.out_gate.is_some()),
                ];
                all.into_iter().filter(|(_, there)| *there).map(|(part, _)| name(part)).collect()
            }
            Op::Mlp(m) => {
                let gate = m.gated.then(|| name("ffn_gate"));
                let inputs: Vec<String> = gate.into_iter().chain([name("ffn_up")]).collect();
                if let Some(order) = order(&name("ffn_down")).filter(|_| m.sparsity.is_none()) {
                    self.columns.insert(name("ffn_down"), order.clone());
                    let rows = inputs.iter().map(|input| (input.clone(), order.clone()));
                    self.rows.extend(rows);
                }
                inputs
            }
            _ => return,
        };
        let Some(order) = inputs.iter().find_map(|input| order(input)) else { return };
        self.bytes += size_of_val(&order[..]);
        self.norms.insert(norm.clone(), order.clone());
        self.rows.insert(norm, order.clone());
        self.columns.extend(inputs.into_iter().map(|input| (input, order.clone())));
    }
}

/// Brings `row` in an order.
pub(crate) fn turn(row: &mut Vec<f32>, order: &[u32]) {
    *row = order.iter().map(|k| row[*k as usize]).collect();
}
