//! Columns in another order: what a checkpoint stores so that groups of inputs lie together (GPTQ's
//! act-order) is multiplied as it lies, by inputs that are made in its order.
//!
//! A norm makes its elements in the order of the matrices that read them, where they have one in common.
//! The rows of a gate and an up are turned to the order of the down that reads them; so it is with
//! experts, each of which has what it reads gathered in its own order. Any other matrix has its input
//! gathered before the product. What can't be is widened in the columns' own order.
use super::{attention, mlp};
use crate::backend::Quant;
use crate::spec::{
    Attention, Branch, Head, Mla, Mlp, ModelSpec, Moe, Norm, NormKind, Op, Reads, Skip,
};
use crate::weights::{Owner, branch_norms, layer, needs};
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
    /// Of norms' outputs, of the inputs of single matrices, and of those of stacks' experts one after
    /// another.
    made: BTreeMap<String, Order>,
    /// Of inputs that are gathered.
    widths: Vec<usize>,
    /// Of experts' rows and columns, by stack and expert.
    experts: HashMap<String, Vec<[Option<Order>; 2]>>,
    /// That a plan holds.
    bytes: usize,
}

impl Orders {
    /// Of a model's `weights`, under canonical names. What is converted has none.
    pub fn of(spec: &ModelSpec, weights: &dyn Weights, quant: Quant) -> Orders {
        let mut orders = Orders::default();
        if quant != Quant::Native {
            return orders;
        }
        // Whether nothing but branches reads what norms make.
        let alone = spec.altup.is_none() && spec.embed.per_layer.is_none();
        for (i, branches) in spec.layers.iter().enumerate() {
            branches.iter().for_each(|branch| orders.branch(i, branch, weights, alone));
        }
        let last = spec.final_norm.filter(|norm| norm.kind != NormKind::None);
        if let (Head::Lm { tied: false, .. }, Some(_)) = (&spec.head, last) {
            match weights.stored_order("output_norm") {
                Some(order) => orders.make("output_norm".to_owned(), order),
                None => orders.fold("output_norm".to_owned(), vec!["output".to_owned()], weights),
            }
        }
        orders.gather(spec, weights);
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

    /// Of the output of the norm called so, without a suffix; of the input of a matrix; or of the inputs
    /// of a stack's experts, one after another.
    pub fn made(&self, name: &str) -> Option<&Order> {
        self.made.get(name)
    }
    /// All of these, by name.
    pub fn all(&self) -> Vec<(&str, &Order)> {
        self.made.iter().map(|(name, order)| (&**name, order)).collect()
    }
    /// Of inputs that are gathered, again and again.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Of the rows and columns of each expert of the stack called `name`.
    pub fn experts(&self, name: &str) -> Option<&[[Option<Order>; 2]]> {
        self.experts.get(name.strip_suffix(".weight")?).map(Vec::as_slice)
    }
    /// Of all orders that are made.
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
            return self.make(first, order);
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
            self.make(first, all);
        }
        if rows.is_some() {
            self.experts.insert(name("ffn_down_exps"), all(&None, &rows));
        }
    }

    fn branch(&mut self, i: usize, branch: &Branch, weights: &dyn Weights, alone: bool) {
        let owner = Owner::of(i, branch);
        for part in &branch.parts {
            match &part.op {
                Op::Moe(m) => {
                    if !m.expert.bias && branch.shared.is_none() {
                        self.mixture(i, m, weights);
                    }
                    m.shared.iter().for_each(|s| self.down(owner, "_shexp", &s.mlp, weights));
                }
                Op::Mlp(m) => self.down(owner, "", m, weights),
                Op::Mla(m) if branch.shared.is_none() => self.latent(i, m, weights),
                _ => {}
            }
        }
        let norm = layer(owner, branch_norms(branch).0);
        let Branch { parts, pre: Some(Norm { kind, .. }), skip: Skip::Stream, .. } = branch else {
            return;
        };
        if !alone || branch.reads != Reads::Stream || branch.shared.is_some() {
            return;
        }
        // A bundle has what is packed in its order, and says in which norms are to make theirs.
        if let Some(order) = weights.stored_order(&norm) {
            return self.make(norm, order);
        }
        let [part] = &parts[..] else { return };
        if part.pre.is_some() || *kind == NormKind::None {
            return;
        }
        let inputs: Vec<String> = match &part.op {
            // What is added to their products reads the norm's own order.
            Op::Attention(Attention { adapter: Some(_), .. })
            | Op::Mlp(Mlp { adapter: Some(_), .. }) => return,
            Op::Attention(a) => attention::inputs(a).map(|part| layer(i, part)).collect(),
            Op::Mlp(m) => mlp::inputs(m).map(|part| layer(i, part)).collect(),
            _ => return,
        };
        self.fold(norm, inputs, weights);
    }

    /// A latent vector's elements come in the order of what makes keys and values of it: the rows that make
    /// it, but those of its rotated part, and its norm.
    fn latent(&mut self, i: usize, m: &Mla, weights: &dyn Weights) {
        let stacks = ["attn_k_b", "attn_v_b"].map(|part| layer(i, part));
        let of = |stack: &String| weights.part_order(&format!("{stack}.weight"), 0);
        let [Some((_, order)), Some((_, other))] = stacks.each_ref().map(of) else { return };
        if order != other || weights.across(&format!("{}.weight", stacks[0]), true).is_none() {
            return;
        }
        let heads = vec![[None, Some(order.clone())]; m.heads];
        self.experts.extend(stacks.map(|stack| (stack, heads.clone())));
        let rotated = m.kv_rank..m.kv_rank + m.rope_dim;
        let rows = order.iter().copied().chain(rotated.map(|row| row as u32)).collect();
        self.rows.insert(layer(i, "attn_kv_a_mqa"), rows);
        self.rows.insert(layer(i, "attn_kv_a_norm"), order);
    }

    /// Has a norm make its output in the order of all that read it, if they have one in common.
    fn fold(&mut self, norm: String, inputs: Vec<String>, weights: &dyn Weights) {
        let all: Option<Vec<Order>> = inputs.iter().map(|name| stored_in(weights, name)).collect();
        let Some([order, others @ ..]) = all.as_deref() else { return };
        if others.iter().any(|other| other != order) {
            return;
        }
        self.rows.insert(norm.clone(), order.clone());
        self.columns.extend(inputs.into_iter().map(|input| (input, order.clone())));
        self.make(norm, order.clone());
    }

    /// The rows of a gate and an up, and of what is added to them, come in the order of the down that reads
    /// what they make. A cut of sparse gates is of all of them, in whatever order.
    fn down(&mut self, owner: Owner, suffix: &str, m: &Mlp, weights: &dyn Weights) {
        let down = layer(owner, &format!("ffn_down{suffix}"));
        let Some(order) = stored_in(weights, &down) else { return };
        for part in mlp::inputs(m) {
            let added = m.adapter.map(|adapter| format!("{part}_lora_b.{}", adapter.nth));
            for part in [Some(format!("{part}{suffix}")), added].into_iter().flatten() {
                self.rows.insert(layer(owner, &part), order.clone());
            }
        }
        self.columns.insert(down, order);
    }

    /// Every other matrix has its input gathered.
    fn gather(&mut self, spec: &ModelSpec, weights: &dyn Weights) {
        for need in needs(spec).iter().filter(|need| need.packed && need.shape.len() == 2) {
            let stem = need.name.strip_suffix(".weight").unwrap_or(&need.name);
            if self.columns.contains_key(stem) || !gathers(stem) {
                continue;
            }
            let order = weights.stored_order(stem).or_else(|| {
                let order = stored_in(weights, stem)?;
                self.columns.insert(stem.to_owned(), order.clone());
                Some(order)
            });
            if let Some(order) = order {
                self.widths.push(order.len());
                self.make(stem.to_owned(), order);
            }
        }
    }

    /// Says in which order what is called so is made.
    fn make(&mut self, name: String, order: Order) {
        self.bytes += size_of_val(&order[..]);
        self.made.insert(name, order);
    }
}

/// The order in which the columns of the matrix called so, without a suffix, are stored.
fn stored_in(weights: &dyn Weights, stem: &str) -> Option<Order> {
    weights.order(&format!("{stem}.weight")).map(|(_, order)| order)
}

/// Whether an input of the matrix called so can be gathered: tables have none, what a head reads is made
/// in 8 bits twice, and what a down reads is its unit's.
fn gathers(stem: &str) -> bool {
    let part = stem.rsplit('.').next().unwrap_or(stem);
    !matches!(
        part,
        "token_embd" | "token_types" | "position_embd" | "per_layer_token_embd" | "output"
    ) && !part.starts_with("ffn_down")
}

/// Brings `row` in an order.
pub(crate) fn turn(row: &mut Vec<f32>, order: &[u32]) {
    *row = order.iter().map(|k| row[*k as usize]).collect();
}
