//! RecurrentGemma: gated linear recurrences, and attention within a window in every third layer.
//! Botev et al. 2024, arXiv:2404.07839.
use super::Family;
use super::Rename::{self, *};
use super::common::{Common, bf16};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static RECURRENT_GEMMA: Family = Family {
    name: "recurrent_gemma",
    hf: &["recurrent_gemma"],
    gguf: &[],
    spec,
    names: &[NAMES],
    gguf_names: &[],
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "partial_rotary_factor": 0.5, "tie_word_embeddings": true, "attention_window_size": 2048,
        "block_types": ["recurrent", "recurrent", "attention"], "logits_soft_cap": 30.0,
        "max_position_embeddings": 8192,
    }));
    let c = Common::read(cfg)?;
    let act = cfg.act("hidden_activation", Act::GeluTanh)?;
    // The configured width is that of gate and up together.
    let mlp = Mlp { d_ff: c.d_ff / 2, bias: true, ..c.gated(act) };
    let width = cfg.size_or("lru_width", c.d_model)?;
    if !width.is_multiple_of(c.heads) {
        return Err(cfg.refuse("lru_width", "a multiple of num_attention_heads"));
    }
    let mixer = RgLru { width, heads: c.heads, conv: cfg.size_or("conv1d_width", 4)?, act };
    let reach = Reach::Window(cfg.size("attention_window_size")?);
    let attention = Attention { reach, out_bias: true, ..c.biased(cfg)? };
    let kinds = cfg.texts("block_types")?;
    if !kinds.iter().all(|kind| kind == "recurrent" || kind == "attention") {
        return Err(cfg.refuse("block_types", "a list of recurrent and attention"));
    }
    let mut spec = c.model(kinds.iter().cycle().take(c.layers).map(|kind| {
        let mixer = match kind.as_str() {
            "attention" => Op::Attention(attention.clone()),
            _ => Op::RgLru(mixer.clone()),
        };
        vec![Branch::pre(c.rms(), mixer), Branch::pre(c.rms(), Op::Mlp(mlp.clone()))]
    }));
    // As the class keeps it.
    spec.embed.scale = bf16((c.d_model as f64).sqrt() as f32);
    let softcap = cfg.optional_positive("logits_soft_cap")?;
    spec.head = Head::Lm { tied: c.tied, bias: false, scale: 1.0, softcap };
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    PlusOne("model.final_norm", "output_norm"),
    To("lm_head", "output"),
    PlusOne("model.layers.{}.temporal_pre_norm", "blk.{}.attn_norm"),
    To("model.layers.{}.temporal_block.q_proj", "blk.{}.attn_q"),
    To("model.layers.{}.temporal_block.k_proj", "blk.{}.attn_k"),
    To("model.layers.{}.temporal_block.v_proj", "blk.{}.attn_v"),
    To("model.layers.{}.temporal_block.o_proj", "blk.{}.attn_output"),
    To("model.layers.{}.temporal_block.linear_x", "blk.{}.rec_x"),
    To("model.layers.{}.temporal_block.linear_y", "blk.{}.rec_y"),
    To("model.layers.{}.temporal_block.linear_out", "blk.{}.rec_out"),
    To("model.layers.{}.temporal_block.conv_1d", "blk.{}.rec_conv1d"),
    To("model.layers.{}.temporal_block.rg_lru.recurrent_param", "blk.{}.rec_a"),
    To("model.layers.{}.temporal_block.rg_lru.recurrent_gate_weight", "blk.{}.rec_forget.weight"),
    To("model.layers.{}.temporal_block.rg_lru.recurrent_gate_bias", "blk.{}.rec_forget.bias"),
    To("model.layers.{}.temporal_block.rg_lru.input_gate_weight", "blk.{}.rec_take.weight"),
    To("model.layers.{}.temporal_block.rg_lru.input_gate_bias", "blk.{}.rec_take.bias"),
    PlusOne("model.layers.{}.channel_pre_norm", "blk.{}.ffn_norm"),
    To("model.layers.{}.mlp_block.gate_proj", "blk.{}.ffn_gate"),
    To("model.layers.{}.mlp_block.up_proj", "blk.{}.ffn_up"),
    To("model.layers.{}.mlp_block.down_proj", "blk.{}.ffn_down"),
];
