//! Which families GGUF's converter writes, and what it does to their rows and says in no key.
use crate::families::Family;
use crate::spec::{Head, ModelSpec, Op};

/// Families of which GGUF's converter permutes q and k rows of heads that nothing rotates.
const PERMUTED: [&str; 1] = ["nemotron_h"];
/// Families whose GGUF files have matrices that are multiplied by numbers which no key keeps.
const FOLDED: [&str; 1] = ["falcon_h1"];

/// Families whose checkpoints are written as GGUF, and the architecture that their files name: held
/// against what llama.cpp's converter writes of the same.
static WRITTEN: &[(&str, &str)] = &[
    ("llama", "llama"),
    ("mistral", "llama"),
    ("mixtral", "llama"),
    ("qwen2", "qwen2"),
    ("qwen3", "qwen3"),
    ("gemma", "gemma"),
    ("gemma2", "gemma2"),
    ("gemma3", "gemma3"),
    ("gemma3n", "gemma3n"),
    ("gemma4", "gemma4"),
    ("cohere", "command-r"),
    ("cohere2", "cohere2"),
    ("exaone4", "exaone4"),
    ("hunyuan", "hunyuan-dense"),
    ("olmo2", "olmo2"),
    ("smollm3", "smollm3"),
    ("stablelm", "stablelm"),
    ("minimax_m2", "minimax-m2"),
    ("qwen2_moe", "qwen2moe"),
    ("qwen3_moe", "qwen3moe"),
    ("glm4_moe", "glm4moe"),
    ("dots1", "dots1"),
    ("olmoe", "olmoe"),
    ("granitemoe", "granitemoe"),
    ("bailing_moe", "bailingmoe"),
    ("ernie4_5_moe", "ernie4_5-moe"),
    ("gpt_oss", "gpt-oss"),
    ("llama4", "llama4"),
    ("ernie4_5", "ernie4_5"),
    ("internlm2", "internlm2"),
    ("seed_oss", "seed_oss"),
    ("gpt2", "gpt2"),
    ("gpt_neox", "gptneox"),
    ("phi", "phi2"),
    ("falcon", "falcon"),
    ("glm4", "glm4"),
    ("chatglm", "chatglm"),
    ("granite", "granite"),
    ("minicpm", "minicpm"),
    ("arcee", "arcee"),
    ("nemotron", "nemotron"),
    ("apertus", "apertus"),
    ("phi3", "phi3"),
    ("starcoder2", "starcoder2"),
    ("deepseek_v2", "deepseek2"),
    ("deepseek_v3", "deepseek2"),
    ("glm4_moe_lite", "deepseek2"),
    ("mamba", "mamba"),
    ("mamba2", "mamba2"),
    ("nemotron_h", "nemotron_h"),
    ("granite_hybrid", "granitehybrid"),
    ("lfm2", "lfm2"),
    ("lfm2_moe", "lfm2moe"),
    ("qwen3.5", "qwen35"),
    ("qwen3.5_moe", "qwen35moe"),
    ("qwen3_next", "qwen3next"),
    ("jamba", "jamba"),
    ("falcon_h1", "falcon-h1"),
    ("kimi_linear", "kimi-linear"),
    ("bert", "bert"),
    ("roberta", "bert"),
    ("nomic_bert", "nomic-bert"),
    ("modernbert", "modern-bert"),
];

/// Those that have another name where a model makes vectors.
static POOLED: &[(&str, &str)] = &[("gemma3", "gemma-embedding")];

impl Family {
    /// The architecture that a GGUF file of this model names, if such are written: some have another
    /// name where there are experts.
    pub fn written(&self, spec: &ModelSpec) -> Option<String> {
        let pools = matches!(spec.head, Head::Pool { .. });
        let of = |table: &[(&str, &'static str)]| {
            table.iter().find(|(name, _)| *name == self.name).map(|found| found.1)
        };
        let plain = of(POOLED).filter(|_| pools).or_else(|| of(WRITTEN))?;
        let mixed = format!("{plain}_moe");
        let experts = spec.ops().any(|op| matches!(op, Op::Moe(_)));
        let mixed = Some(mixed).filter(|mixed| experts && self.gguf.contains(&&**mixed));
        Some(mixed.unwrap_or_else(|| plain.to_owned()))
    }
    /// Whether a GGUF file's heads are in pairs, even if nothing rotates them.
    pub fn permutes(&self) -> bool {
        PERMUTED.contains(&self.name)
    }
    /// Whether a GGUF file's matrices are not the folder's in another order, but multiplied by numbers
    /// that the file does not say.
    pub fn folds(&self) -> bool {
        FOLDED.contains(&self.name)
    }
}
