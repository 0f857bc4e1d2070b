//! Llama 2 and 3, and Mistral, which is Llama with a window.
//! Touvron et al. 2023, arXiv:2307.09288; Grattafiori et al. 2024, arXiv:2407.21783;
//! Jiang et al. 2023, arXiv:2310.06825.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use crate::config::{Config, ConfigError};
use crate::spec::*;

pub static LLAMA: Family =
    Family { name: "llama", hf: &["llama"], gguf: &["llama"], spec, names: NAMES };
pub static MISTRAL: Family =
    Family { name: "mistral", hf: &["mistral", "ministral"], gguf: &[], spec, names: NAMES };

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let mut c = Common::read(cfg)?;
    // GGUF's converter permutes q and k rows for this architecture.
    c.rope.layout = cfg.pick(RopeLayout::Halves, RopeLayout::Pairs);
    let attention = c.biased(cfg)?;
    let windows = cfg.windows(c.layers, |_| true)?;
    let mlp =
        Mlp { bias: cfg.flag("mlp_bias", false)?, ..c.gated(cfg.act("hidden_act", Act::Silu)?) };
    Ok(c.model(windows.into_iter().map(|window| {
        vec![
            Branch::pre(c.rms(), Op::Attention(Attention { window, ..attention.clone() })),
            Branch::pre(c.rms(), Op::Mlp(mlp.clone())),
        ]
    })))
}

/// The names that most Hugging Face decoders share.
pub const NAMES: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    To("model.norm", "output_norm"),
    To("lm_head", "output"),
    To("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"),
    To("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"),
    To("model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"),
    To("model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"),
    Ignore("model.layers.{}.self_attn.rotary_emb.inv_freq"),
    Ignore("model.rotary_emb.inv_freq"),
];
