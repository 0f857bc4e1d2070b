//! What a GGUF file leaves to its readers: activations, patterns of windows, scales. By architecture, as
//! llama.cpp has it.
use serde_json::{Map, Value as Json, json};

/// What an architecture leaves unsaid.
pub(super) struct Architecture {
    /// `general.architecture`.
    pub(super) gguf: &'static str,
    /// `model_type`.
    hf: &'static str,
    /// `model_type` where there are experts, if that is another.
    hf_experts: Option<&'static str>,
    /// The activation, under the key that Hugging Face reads.
    act: (&'static str, &'static str),
    /// Values of keys that the file does not state.
    unless_stated: &'static [(&'static str, Unsaid)],
    /// If it scales queries by `query_pre_attn_scalar`: how many layers the size has that derives it
    /// from the model's width; other sizes from the head's.
    query_scalar_by_width: Option<u64>,
}

/// A number that a file may leave unsaid.
#[derive(Clone, Copy)]
enum Unsaid {
    Count(u64),
    Float(f64),
}
use Unsaid::{Count, Float};

const SILU: (&str, &str) = ("hidden_act", "silu");
const GELU: (&str, &str) = ("hidden_activation", "gelu_pytorch_tanh");
const GELU_TANH: (&str, &str) = ("hidden_act", "gelu_pytorch_tanh");
const GELU_ERF: (&str, &str) = ("hidden_act", "gelu");
const RELU2: (&str, &str) = ("hidden_act", "relu2");

const PLAIN: Architecture = Architecture {
    gguf: "llama",
    hf: "llama",
    hf_experts: None,
    act: SILU,
    unless_stated: &[],
    query_scalar_by_width: None,
};
pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture { hf_experts: Some("mixtral"), ..PLAIN },
    Architecture { gguf: "command-r", hf: "cohere", ..PLAIN },
    Architecture {
        gguf: "cohere2",
        hf: "cohere2",
        unless_stated: &[("sliding_window_pattern", Count(4))],
        ..PLAIN
    },
    Architecture {
        gguf: "exaone4",
        hf: "exaone4",
        unless_stated: &[("sliding_window_pattern", Count(4))],
        ..PLAIN
    },
    Architecture { gguf: "hunyuan-dense", hf: "hunyuan_v1_dense", ..PLAIN },
    Architecture { gguf: "olmo2", hf: "olmo2", ..PLAIN },
    Architecture { gguf: "smollm3", hf: "smollm3", ..PLAIN },
    Architecture { gguf: "stablelm", hf: "stablelm", ..PLAIN },
    Architecture { gguf: "qwen2", hf: "qwen2", ..PLAIN },
    Architecture { gguf: "qwen3", hf: "qwen3", ..PLAIN },
    Architecture { gguf: "qwen2moe", hf: "qwen2_moe", ..PLAIN },
    Architecture { gguf: "qwen3moe", hf: "qwen3_moe", ..PLAIN },
    Architecture { gguf: "minimax-m2", hf: "minimax_m2", ..PLAIN },
    Architecture { gguf: "glm4moe", hf: "glm4_moe", ..PLAIN },
    Architecture { gguf: "dots1", hf: "dots1", ..PLAIN },
    Architecture { gguf: "olmoe", hf: "olmoe", ..PLAIN },
    Architecture { gguf: "granitemoe", hf: "granitemoe", ..PLAIN },
    Architecture { gguf: "bailingmoe", hf: "bailing_moe", ..PLAIN },
    Architecture { gguf: "ernie4_5-moe", hf: "ernie4_5_moe", ..PLAIN },
    Architecture { gguf: "gpt-oss", hf: "gpt_oss", ..PLAIN },
    Architecture { gguf: "llama4", hf: "llama4_text", ..PLAIN },
    Architecture { gguf: "apertus", hf: "apertus", ..PLAIN },
    Architecture { gguf: "arcee", hf: "arcee", act: RELU2, ..PLAIN },
    Architecture { gguf: "chatglm", hf: "chatglm", ..PLAIN },
    Architecture { gguf: "ernie4_5", hf: "ernie4_5", ..PLAIN },
    Architecture { gguf: "falcon", hf: "falcon", act: GELU_ERF, ..PLAIN },
    Architecture { gguf: "glm4", hf: "glm4", ..PLAIN },
    Architecture { gguf: "gpt2", hf: "gpt2", act: GELU_TANH, ..PLAIN },
    Architecture { gguf: "gptneox", hf: "gpt_neox", act: GELU_ERF, ..PLAIN },
    Architecture { gguf: "granite", hf: "granite", ..PLAIN },
    Architecture { gguf: "internlm2", hf: "internlm2", ..PLAIN },
    Architecture { gguf: "minicpm", hf: "minicpm", ..PLAIN },
    Architecture { gguf: "nemotron", hf: "nemotron", act: RELU2, ..PLAIN },
    Architecture { gguf: "phi2", hf: "phi", act: GELU_TANH, ..PLAIN },
    Architecture { gguf: "phi3", hf: "phi3", ..PLAIN },
    Architecture { gguf: "seed_oss", hf: "seed_oss", ..PLAIN },
    Architecture { gguf: "starcoder2", hf: "starcoder2", act: GELU_TANH, ..PLAIN },
    Architecture { gguf: "deepseek2", hf: "deepseek_v2", ..PLAIN },
    Architecture { gguf: "gemma", hf: "gemma", act: GELU, ..PLAIN },
    Architecture {
        gguf: "gemma2",
        hf: "gemma2",
        act: GELU,
        unless_stated: &[
            ("attn_logit_softcapping", Float(50.0)),
            ("final_logit_softcapping", Float(30.0)),
            ("sliding_window", Count(4096)),
        ],
        query_scalar_by_width: Some(46),
        ..PLAIN
    },
    Architecture {
        gguf: "gemma3",
        hf: "gemma3_text",
        act: GELU,
        unless_stated: &[
            ("sliding_window_pattern", Count(6)),
            ("rope_local_base_freq", Float(10_000.0)),
        ],
        query_scalar_by_width: Some(62),
        ..PLAIN
    },
    Architecture {
        gguf: "gemma-embedding",
        hf: "gemma3_text",
        act: GELU,
        unless_stated: &[
            ("sliding_window_pattern", Count(6)),
            ("rope_local_base_freq", Float(10_000.0)),
        ],
        query_scalar_by_width: Some(62),
        ..PLAIN
    },
    Architecture {
        gguf: "gemma3n",
        hf: "gemma3n_text",
        act: GELU,
        unless_stated: &[("final_logit_softcapping", Float(30.0))],
        ..PLAIN
    },
    Architecture { gguf: "gemma4", hf: "gemma4_text", act: GELU, ..PLAIN },
];

/// Architectures of which llama.cpp's readers take a window, and which layers have it.
const WINDOWED: [&str; 10] = [
    "cohere2",
    "exaone4",
    "gemma2",
    "gemma3",
    "gemma3n",
    "gemma4",
    "gemma-embedding",
    "gpt-oss",
    "modern-bert",
    "olmo2",
];

/// A value that says nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// None of it.
    Zero,
    /// That of the norms, whatever kind they are of.
    Epsilon,
}

/// Keys that llama.cpp's readers ask for also where they say nothing, by architecture.
const ASKED: &[(&str, &[(&str, Asked)])] = &[
    ("phi3", &[("attention.sliding_window", Asked::Zero)]),
    ("nemotron_h", &[("attention.layer_norm_epsilon", Asked::Epsilon)]),
    ("nemotron_h_moe", &[("attention.layer_norm_epsilon", Asked::Epsilon)]),
    (
        "gemma4",
        &[
            ("embedding_length_per_layer_input", Asked::Zero),
            ("attention.shared_kv_layers", Asked::Zero),
        ],
    ),
];

/// What readers of an architecture ask for.
pub fn asked(architecture: &str) -> &'static [(&'static str, Asked)] {
    let of = ASKED.iter().find(|(name, _)| *name == architecture);
    of.map_or(&[], |(_, keys)| keys)
}

/// Whether readers of an architecture heed that layers have windows.
pub fn takes_windows(architecture: &str) -> bool {
    WINDOWED.contains(&architecture)
}

/// A head's width, stated or derived.
pub(super) fn head_dim(config: &Map<String, Json>) -> Option<u64> {
    let number = |key| config.get(key).and_then(Json::as_u64);
    number("head_dim")
        .or_else(|| number("hidden_size")?.checked_div(number("num_attention_heads")?))
}

impl Architecture {
    /// Says what files leave unsaid.
    pub(super) fn add(&self, config: &mut Map<String, Json>) {
        let experts = config.get("num_local_experts").and_then(Json::as_u64).unwrap_or(0);
        let model_type = self.hf_experts.filter(|_| experts > 0).unwrap_or(self.hf);
        config.insert("model_type".to_owned(), model_type.into());
        config.insert(self.act.0.to_owned(), self.act.1.into());
        for (key, value) in self.unless_stated {
            let value = match *value {
                Count(n) => json!(n),
                Float(x) => json!(x),
            };
            config.entry(*key).or_insert(value);
        }
        let Some(layers) = self.query_scalar_by_width else { return };
        let number = |key: &str| config.get(key).and_then(Json::as_u64);
        let scalar = if number("num_hidden_layers") == Some(layers) {
            number("hidden_size")
                .zip(number("num_attention_heads"))
                .and_then(|(d, h)| d.checked_div(h))
        } else {
            head_dim(config)
        };
        if let Some(scalar) = scalar {
            config.insert("query_pre_attn_scalar".to_owned(), scalar.into());
        }
    }
}
