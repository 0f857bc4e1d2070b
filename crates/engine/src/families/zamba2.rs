//! Zamba 2: Mamba-2, and in some layers before it a transformer block over the stream and the
//! tokens, which all share but for adapters. Glorioso et al. 2024, arXiv:2411.15242.
use super::Family;
use super::Rename::{self, *};
use super::common::mixers::{HYBRID, Keys, mamba2, typed};
use super::common::{Common, four_times, inverse_root};
use crate::config::{Config, ConfigError};
use crate::spec::*;
use serde_json::json;

pub static ZAMBA2: Family = Family {
    name: "zamba2",
    hf: &["zamba2"],
    gguf: &[],
    spec,
    names: &[
        NAMES,
        mamba2!("model.layers.{}.mamba."),
        mamba2!("model.layers.{}.mamba_decoder.mamba."),
    ],
    gguf_names: &[],
};

const KEYS: Keys = Keys {
    bias: "add_bias_linear",
    inner: "",
    heads: "n_mamba_heads",
    head_dim: "",
    groups: "mamba_ngroups",
    // Its mixer's is fixed.
    act: "",
    ..HYBRID
};

fn spec(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "vocab_size": 32_000, "hidden_size": 2560, "num_hidden_layers": 54,
        "num_attention_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        "mamba_d_state": 64, "n_mamba_heads": 8, "tie_word_embeddings": true,
    }));
    // Which rotary base that means differs between the class's versions.
    cfg.only(&[("use_long_context", json!(false))])?;
    // A head's share of an input twice as wide, whatever is stated.
    let (width, heads) = (2 * cfg.size("hidden_size")?, cfg.size("num_attention_heads")?);
    let c = Common::read(&four_times(cfg)?.with(json!({"head_dim": width / heads})))?;
    let mixer = Mamba2 {
        // The class reads no key for these.
        conv_bias: true,
        dt_limit: (cfg.float_or("time_step_min", 0.001)?, f32::INFINITY),
        ..KEYS.mamba2(cfg, Some(Norm::rms(1e-5)))?
    };
    let block = block(cfg, &c)?;
    let kinds = kinds(cfg, c.layers)?;
    let blocks = cfg.size_or("num_mem_blocks", 1)?;
    let hybrid: Vec<usize> = (0..c.layers).filter(|i| kinds[*i]).collect();
    let mut spec = c.model((0..c.layers).map(|i| {
        let nth = hybrid.iter().position(|h| *h == i);
        // A block's tensors are stored in the first layer that has it.
        let before = nth.map(|nth| block(nth, hybrid[nth % blocks])).into_iter().flatten();
        let reads = if kinds[i] { Reads::Aside } else { Reads::Stream };
        let mixer = Branch { reads, ..Branch::pre(c.rms(), Op::Mamba2(mixer.clone())) };
        before.chain([mixer]).collect()
    }));
    if !rotates(cfg)? {
        spec.ropes = Vec::new();
    }
    Ok(spec)
}

fn rotates(cfg: &Config) -> Result<bool, ConfigError> {
    cfg.flag("use_mem_rope", false)
}

/// What the `nth` use of the block stored in a layer sets aside, added to the stream.
fn block(cfg: &Config, c: &Common) -> Result<impl Fn(usize, usize) -> [Branch; 3], ConfigError> {
    let attention = Attention {
        scale: inverse_root(c.head_dim as f64 / 2.0),
        rope: rotates(cfg)?.then_some(RopeId(0)),
        ..c.attention()
    };
    let bias = cfg.flag("add_bias_linear", false)?;
    let mlp = Mlp { bias, ..c.gated(cfg.act("hidden_act", Act::Gelu)?) };
    let rank = cfg.size_or("adapter_rank", 128)?;
    let adapts = cfg.flag("use_shared_attention_adapter", false)?;
    let norm = c.rms();
    Ok(move |nth, stored| {
        let adapter = Some(Adapter { rank, nth });
        let attention = Attention { adapter: adapter.filter(|_| adapts), ..attention.clone() };
        let (attention, mlp) = (Op::Attention(attention), Op::Mlp(Mlp { adapter, ..mlp.clone() }));
        let (shared, skip) = (Some(stored), Skip::Aside { stream: false });
        let aside = |op| Branch { reads: Reads::Aside, skip, shared, ..Branch::pre(norm, op) };
        let last = Branch::bare(vec![Op::Linear.into()]);
        [
            Branch { reads: Reads::StreamAndTokens, ..aside(attention) },
            aside(mlp),
            Branch { reads: Reads::Aside, skip: Skip::Aside { stream: true }, ..last },
        ]
    })
}

/// For each layer whether it has a block.
fn kinds(cfg: &Config, layers: usize) -> Result<Vec<bool>, ConfigError> {
    let stated = typed(cfg, layers, &["hybrid"], &["linear_attention", "mamba"])?;
    // As the class has them where a config has none.
    let usual = |i| matches!(i, 47 | 51) || i < 43 && i > 0 && i % 6 == 0;
    let usual = (layers == 54).then(|| (0..54).map(usual).collect());
    let expected = format!("{layers} of linear_attention or hybrid");
    stated.or(usual).ok_or_else(|| cfg.refuse("layers_block_type", &expected))
}

/// One matrix of a block's adapters, of which each use has its own.
macro_rules! adapter {
    ($list:literal, $matrix:literal, $to:literal) => {
        To(
            concat!("model.layers.{}.shared_transformer.", $list, ".{e}.", $matrix),
            concat!("shared.{}.", $to, ".{e}"),
        )
    };
}

const NAMES: &[Rename] = &[
    To("model.embed_tokens", "token_embd"),
    To("model.final_layernorm", "output_norm"),
    To("lm_head", "output"),
    To("model.layers.{}.input_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.mamba_decoder.input_layernorm", "blk.{}.attn_norm"),
    To("model.layers.{}.linear", "blk.{}.linear"),
    To("model.layers.{}.shared_transformer.input_layernorm", "shared.{}.attn_norm"),
    To("model.layers.{}.shared_transformer.self_attn.q_proj", "shared.{}.attn_q"),
    To("model.layers.{}.shared_transformer.self_attn.k_proj", "shared.{}.attn_k"),
    To("model.layers.{}.shared_transformer.self_attn.v_proj", "shared.{}.attn_v"),
    To("model.layers.{}.shared_transformer.self_attn.o_proj", "shared.{}.attn_output"),
    To("model.layers.{}.shared_transformer.pre_ff_layernorm", "shared.{}.ffn_norm"),
    Split(
        "model.layers.{}.shared_transformer.feed_forward.gate_up_proj",
        &["shared.{}.ffn_gate", "shared.{}.ffn_up"],
    ),
    To("model.layers.{}.shared_transformer.feed_forward.down_proj", "shared.{}.ffn_down"),
    adapter!("feed_forward.gate_up_proj_adapter_list", 0, "ffn_lora_a"),
    Split(
        "model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{e}.1",
        &["shared.{}.ffn_gate_lora_b.{e}", "shared.{}.ffn_up_lora_b.{e}"],
    ),
    adapter!("self_attn.linear_q_adapter_list", 0, "attn_q_lora_a"),
    adapter!("self_attn.linear_q_adapter_list", 1, "attn_q_lora_b"),
    adapter!("self_attn.linear_k_adapter_list", 0, "attn_k_lora_a"),
    adapter!("self_attn.linear_k_adapter_list", 1, "attn_k_lora_b"),
    adapter!("self_attn.linear_v_adapter_list", 0, "attn_v_lora_a"),
    adapter!("self_attn.linear_v_adapter_list", 1, "attn_v_lora_b"),
];
