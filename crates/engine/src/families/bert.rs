//! BERT, and RoBERTa, which is BERT without kinds of texts and with positions that begin after the
//! padding's number. Devlin et al. 2018, arXiv:1810.04805; Liu et al. 2019, arXiv:1907.11692; Conneau
//! et al. 2019, arXiv:1911.02116. Encoders: all positions see each other, norms follow sums.
use super::Family;
use super::Rename::{self, *};
use super::common::Common;
use super::common::encoders::{post_normed, scores};
use crate::config::{Config, ConfigError, Source};
use crate::spec::*;
use serde_json::json;

pub static BERT: Family = Family {
    name: "bert",
    hf: &["bert"],
    gguf: &["bert"],
    spec: bert,
    names: &[NAMES],
    gguf_names: &[GGUF_NAMES],
};
pub static ROBERTA: Family = Family {
    name: "roberta",
    hf: &["xlm-roberta", "roberta"],
    gguf: &[],
    spec: roberta,
    names: &[ROBERTA_NAMES, NAMES],
    ..BERT
};

fn bert(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"type_vocab_size": 2, "vocab_size": 30_522}));
    read(cfg, 0)
}

fn roberta(cfg: &Config) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({"type_vocab_size": 2, "vocab_size": 50_265}));
    read(cfg, cfg.count_or("pad_token_id", 1)? + 1)
}

/// With so many rows before the first position's.
fn read(cfg: &Config, offset: usize) -> Result<ModelSpec, ConfigError> {
    let cfg = &cfg.with_defaults(json!({
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "max_position_embeddings": 512, "layer_norm_eps": 1e-12,
    }));
    cfg.only(&[
        ("position_embedding_type", json!("absolute")),
        ("is_decoder", json!(false)),
        ("add_cross_attention", json!(false)),
    ])?;
    let mut c = Common::read(cfg)?;
    c.norm = Norm::layer(c.eps);
    let rows = c.context;
    let key = "max_position_embeddings";
    let room = rows.checked_sub(offset).filter(|context| *context > 0);
    c.context = room.ok_or_else(|| cfg.refuse(key, &format!("more than {offset}")))?;
    let attention = Attention { rope: None, qkv_bias: true, out_bias: true, ..c.attention() };
    let mlp = c.plain(cfg.act("hidden_act", Act::Gelu)?, true);
    let mut spec = post_normed(&c, &attention, &mlp);
    spec.ropes.clear();
    spec.embed.types = match cfg.source {
        Source::HuggingFace => Some(cfg.size("type_vocab_size")?),
        Source::Gguf => cfg.optional_size("type_vocab_size")?,
    };
    spec.embed.positions = Some(Positions { rows, offset });
    if let Some(labels) = scores(cfg)? {
        let dense = |width, act| Dense { width, bias: true, act, norm: None };
        let dense = vec![dense(c.d_model, Some(DenseAct::Tanh)), dense(labels, None)];
        spec.head = Head::Pool { how: Pool::Cls, dense, normalise: false, scores: true };
    }
    Ok(spec)
}

const NAMES: &[Rename] = &[
    To("bert.embeddings.word_embeddings", "token_embd"),
    To("bert.embeddings.token_type_embeddings", "token_types"),
    To("bert.embeddings.position_embeddings", "position_embd"),
    To("bert.embeddings.LayerNorm", "token_embd_norm"),
    Ignore("bert.embeddings.position_ids"),
    To("bert.encoder.layer.{}.attention.self.query", "blk.{}.attn_q"),
    To("bert.encoder.layer.{}.attention.self.key", "blk.{}.attn_k"),
    To("bert.encoder.layer.{}.attention.self.value", "blk.{}.attn_v"),
    To("bert.encoder.layer.{}.attention.output.dense", "blk.{}.attn_output"),
    To("bert.encoder.layer.{}.attention.output.LayerNorm", "blk.{}.ffn_norm"),
    To("bert.encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up"),
    To("bert.encoder.layer.{}.output.dense", "blk.{}.ffn_down"),
    Next("bert.encoder.layer.{}.output.LayerNorm", "blk.{}.attn_norm", "output_norm"),
    // What scores a text: else it is of other tasks.
    To("bert.pooler.dense", "cls"),
    Ignore("bert.pooler.dense"),
    To("classifier", "cls.output"),
    Ignore("cls.*"),
];

const ROBERTA_NAMES: &[Rename] = &[
    To("classifier.dense", "cls"),
    To("classifier.out_proj", "cls.output"),
    Ignore("roberta.pooler.dense"),
    Ignore("lm_head.*"),
    Ignore("roberta.embeddings.position_ids"),
    To("roberta.embeddings.word_embeddings", "token_embd"),
    To("roberta.embeddings.token_type_embeddings", "token_types"),
    To("roberta.embeddings.position_embeddings", "position_embd"),
    To("roberta.embeddings.LayerNorm", "token_embd_norm"),
    To("roberta.encoder.layer.{}.attention.self.query", "blk.{}.attn_q"),
    To("roberta.encoder.layer.{}.attention.self.key", "blk.{}.attn_k"),
    To("roberta.encoder.layer.{}.attention.self.value", "blk.{}.attn_v"),
    To("roberta.encoder.layer.{}.attention.output.dense", "blk.{}.attn_output"),
    To("roberta.encoder.layer.{}.attention.output.LayerNorm", "blk.{}.ffn_norm"),
    To("roberta.encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up"),
    To("roberta.encoder.layer.{}.output.dense", "blk.{}.ffn_down"),
    Next("roberta.encoder.layer.{}.output.LayerNorm", "blk.{}.attn_norm", "output_norm"),
];

/// A norm that follows a sum is what the next branch reads.
const GGUF_NAMES: &[Rename] = &[
    To("blk.{}.attn_output_norm", "blk.{}.ffn_norm"),
    Next("blk.{}.layer_output_norm", "blk.{}.attn_norm", "output_norm"),
];
