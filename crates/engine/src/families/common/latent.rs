//! Latent attention as most families describe it.
use super::{Common, inverse_root, yarn_scale};
use crate::config::{Config, ConfigError};
use crate::families::{
    Cut,
    Rename::{self, *},
};
use crate::spec::*;
use serde_json::json;

/// Of compressed queries, keys and values, whatever the model's own norms have.
const EPS: f32 = 1e-6;

/// The config with what [`Common`] reads of heads: the elements that rotate are one.
///
/// # Errors
/// What no model can have.
pub fn latent_heads(c: &Config) -> Result<Config, ConfigError> {
    let rope = c.size("qk_rope_head_dim")?;
    if !rope.is_multiple_of(2) {
        return Err(c.refuse("qk_rope_head_dim", "an even number"));
    }
    Ok(c.with(json!({"head_dim": rope, "num_key_value_heads": 1, "partial_rotary_factor": 1.0})))
}

impl Common {
    /// Latent attention to all keys, of a config that went through [`latent_heads`].
    ///
    /// # Errors
    /// What is missing, and what no model can have.
    pub fn latent(&self, c: &Config) -> Result<Mla, ConfigError> {
        let (nope_dim, rope_dim) = (c.size("qk_nope_head_dim")?, c.size("qk_rope_head_dim")?);
        let stretched = match self.rope.scaling {
            Scaling::None => 1.0,
            _ => {
                let m = c.float_or("rope_scaling.mscale_all_dim", 0.0)?;
                yarn_scale(c.float_or("rope_scaling.factor", 1.0)?, m)
            }
        };
        Ok(Mla {
            heads: self.heads,
            q_rank: c.optional_size("q_lora_rank")?.unwrap_or(0),
            kv_rank: c.size("kv_lora_rank")?,
            nope_dim,
            rope_dim,
            v_dim: c.size("v_head_dim")?,
            scale: inverse_root((nope_dim + rope_dim) as f64) * stretched * stretched,
            rope: Some(RopeId(0)),
            norm: Norm::rms(EPS),
            bias: c.flag("attention_bias", false)?,
            temperature: None,
            out_gate: None,
            keys: Keys::All,
        })
    }
    /// The layout of the elements that rotate.
    ///
    /// # Errors
    /// What is no flag.
    pub fn latent_rope(&self, c: &Config) -> Result<Rope, ConfigError> {
        let pairs = c.flag("rope_interleave", true)?;
        let layout = if pairs { RopeLayout::Pairs } else { RopeLayout::Halves };
        Ok(Rope { layout, ..self.rope.clone() })
    }
    /// A decoder of pre-norm layers: a latent attention, then an MLP or a mixture.
    pub fn latent_decoder(
        &self,
        latents: impl IntoIterator<Item = Mla>,
        feeds: impl IntoIterator<Item = Op>,
    ) -> ModelSpec {
        let layers = latents.into_iter().zip(feeds);
        self.model(layers.map(|(latent, feed)| {
            vec![Branch::pre(self.rms(), Op::Mla(latent)), Branch::pre(self.rms(), feed)]
        }))
    }
}

/// An indexer whose queries and keys rotate by table `rope`.
///
/// # Errors
/// What is missing, and what no model can have.
pub fn indexer(c: &Config, rope: RopeId) -> Result<Indexer, ConfigError> {
    let head_dim = c.size("index_head_dim")?;
    if head_dim < c.size("qk_rope_head_dim")? {
        return Err(c.refuse("index_head_dim", "at least qk_rope_head_dim"));
    }
    Ok(Indexer {
        heads: c.size("index_n_heads")?,
        head_dim,
        top_k: c.size("index_topk")?,
        rope,
        norm: Norm::layer(EPS),
    })
}

/// Of latent attentions and their indexers.
pub const LATENT: &[Rename] = &[
    To("model.layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a"),
    To("model.layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm"),
    To("model.layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b"),
    To("model.layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa"),
    To("model.layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm"),
    Cut(
        "model.layers.{}.self_attn.kv_b_proj",
        Cut::KeysValues,
        &["blk.{}.attn_k_b", "blk.{}.attn_v_b"],
    ),
    To("model.layers.{}.self_attn.indexer.wq_b", "blk.{}.indexer.attn_q_b"),
    To("model.layers.{}.self_attn.indexer.wk", "blk.{}.indexer.attn_k"),
    To("model.layers.{}.self_attn.indexer.k_norm", "blk.{}.indexer.k_norm"),
    To("model.layers.{}.self_attn.indexer.weights_proj", "blk.{}.indexer.proj"),
];

/// Of files from before keys and values had tensors of their own.
pub const GGUF_LATENT: &[Rename] =
    &[Cut("blk.{}.attn_kv_b", Cut::KeysValues, &["blk.{}.attn_k_b", "blk.{}.attn_v_b"])];
