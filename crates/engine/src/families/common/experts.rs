//! Mixtures of experts as most families describe them.
use super::Common;
use crate::config::{Config, ConfigError};
use crate::families::Rename::{self, *};
use crate::spec::*;
use serde_json::json;

impl Common {
    /// Gated experts, as many, as many to a row and as wide as the config says.
    ///
    /// # Errors
    /// What is missing, and what no model can have.
    pub fn moe(&self, c: &Config, act: Act, router: Router) -> Result<Moe, ConfigError> {
        let experts = c.size(first(
            c,
            &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"],
        ))?;
        let key = first(c, &["num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"]);
        let top_k = c.same_size(key)?;
        if top_k > experts {
            return Err(c.refuse(key, &format!("at most the number of experts, {experts}")));
        }
        if let Some(g) = router.groups {
            if !experts.is_multiple_of(g.count) {
                return Err(c.refuse("n_group", "a divisor of the number of experts"));
            }
            if g.top > g.count || g.top * (experts / g.count) < top_k {
                let expected = format!("at most {} groups, of {top_k} experts or more", g.count);
                return Err(c.refuse("topk_group", &expected));
            }
        }
        let d_ff = c.same_size(first(c, &["moe_intermediate_size", "intermediate_size"]))?;
        let expert = Mlp { d_ff, ..self.gated(act) };
        Ok(Moe { experts, top_k, expert, router, shared: None })
    }
    /// A decoder of pre-norm layers: an attention, then an MLP or a mixture, where `sparse` says so.
    pub fn sparse_decoder(
        &self,
        attentions: impl Iterator<Item = Attention>,
        mlp: &Mlp,
        moe: &Moe,
        sparse: &[bool],
    ) -> ModelSpec {
        self.model(attentions.zip(sparse).map(|(attention, sparse)| {
            let feed = if *sparse { Op::Moe(moe.clone()) } else { Op::Mlp(mlp.clone()) };
            vec![Branch::pre(self.norm, Op::Attention(attention)), Branch::pre(self.norm, feed)]
        }))
    }
}

/// The first of `keys` that is there, or else the first.
fn first<'k>(c: &Config, keys: &[&'k str]) -> &'k str {
    keys.iter().find(|k| c.get(k).is_some()).unwrap_or(&keys[0])
}

/// Which layers have experts: as `mlp_layer_types` says or, without it, those that `otherwise`.
///
/// # Errors
/// What is no such list.
pub fn sparse_layers(
    c: &Config,
    layers: usize,
    otherwise: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, ConfigError> {
    let types = c.texts("mlp_layer_types")?;
    if types.is_empty() {
        return Ok((0..layers).map(otherwise).collect());
    }
    let known = types.iter().all(|t| t == "sparse" || t == "dense");
    if !known || types.len() != layers {
        return Err(c.refuse("mlp_layer_types", &format!("{layers} of sparse or dense")));
    }
    Ok(types.iter().map(|t| t == "sparse").collect())
}

/// The layers that `mlp_only_layers` says have none.
///
/// # Errors
/// What is no list of layers.
pub fn dense_layers(c: &Config, layers: usize) -> Result<Vec<usize>, ConfigError> {
    let key = "mlp_only_layers";
    let dense = c.sizes(key)?;
    let there = dense.iter().all(|i| *i < layers);
    if there { Ok(dense) } else { Err(c.refuse(key, &format!("layers below {layers}"))) }
}

/// All from layer `first_k_dense_replace` on.
///
/// # Errors
/// What is no such list or number.
pub fn after_dense(c: &Config, layers: usize) -> Result<Vec<bool>, ConfigError> {
    c.only(&[("moe_layer_freq", json!(1))])?;
    let dense = c.count_or("first_k_dense_replace", 0)?;
    sparse_layers(c, layers, |i| i >= dense)
}

/// Softmax over all experts, then the choice.
pub fn by_softmax(renormalise: bool) -> Router {
    let renormalise = if renormalise { Renormalise::Sum { plus: 0.0 } } else { Renormalise::No };
    Router {
        score: Score::Softmax,
        renormalise,
        scale: 1.0,
        bias: false,
        select_bias: false,
        groups: None,
        weighs_input: false,
        input: RouterInput::Same,
        expert_scale: false,
    }
}

/// Each expert's sigmoid, a bias for the choice, and groups of which the best by two experts are
/// chosen from. DeepSeek-V3, arXiv:2412.19437.
///
/// # Errors
/// What no model can have.
pub fn by_sigmoid(c: &Config) -> Result<Router, ConfigError> {
    // One family says in the first what it means by the second.
    if !matches!(c.text("scoring_func")?, None | Some("sigmoid" | "noaux_tc")) {
        return Err(c.refuse("scoring_func", "sigmoid"));
    }
    c.only(&[("score_func", json!("sigmoid")), ("topk_method", json!("noaux_tc"))])?;
    in_groups(c)
}

/// The same, however a config calls it.
///
/// # Errors
/// What no model can have.
pub fn in_groups(c: &Config) -> Result<Router, ConfigError> {
    let (count, top) = (c.size_or("n_group", 1)?, c.size_or("topk_group", 1)?);
    let plus = if c.flag("norm_topk_prob", true)? {
        Renormalise::Sum { plus: 1e-20 }
    } else {
        Renormalise::No
    };
    Ok(Router {
        score: Score::Sigmoid,
        renormalise: plus,
        scale: c.float_or("routed_scaling_factor", 1.0)?,
        select_bias: true,
        groups: (count > 1).then_some(Groups { count, top, best: 2 }),
        ..by_softmax(false)
    })
}

impl Moe {
    /// The same with an expert of width `d_ff` that every row visits; none of width zero.
    pub fn and_shared(self, d_ff: usize) -> Moe {
        let mlp = Mlp { d_ff, ..self.expert.clone() };
        let shared = (d_ff > 0).then_some(Shared { mlp, sigmoid_gate: false });
        Moe { shared, ..self }
    }
    /// The same with one as wide as so many experts as `key` says; GGUF states its width.
    ///
    /// # Errors
    /// What is no count.
    pub fn and_shared_by(self, c: &Config, key: &str) -> Result<Moe, ConfigError> {
        let width = match c.optional_size("shared_expert_intermediate_size")? {
            Some(width) => width,
            None => self.expert.d_ff * c.count_or(key, 0)?,
        };
        Ok(self.and_shared(width))
    }
}

/// Of experts that are MLPs of their own, and of fused ones; of a router, and of shared experts.
pub const EXPERTS: &[Rename] = &[
    To("model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"),
    To("model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"),
    Stack("model.layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps"),
    Stack("model.layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps"),
    Stack("model.layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps"),
    Split(
        "model.layers.{}.mlp.experts.gate_up_proj",
        &["blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"],
    ),
    To("model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight"),
    To("model.layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp"),
    To("model.layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp"),
    To("model.layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp"),
];

/// Of one shared expert, and what weighs it.
pub const SHARED_EXPERT: &[Rename] = &[
    To("model.layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp"),
    To("model.layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp"),
    To("model.layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp"),
    To("model.layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp"),
];
