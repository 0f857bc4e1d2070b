//! The registry: one line a family.
use crate::spec::ModelSpec;

/// What a family is: how its hyper-parameters become a spec, and what its tensors are called.
pub struct Family {
    /// For people.
    pub name: &'static str,
    /// `model_type` values of config.json.
    pub hf: &'static [&'static str],
    /// `general.architecture` values of GGUF.
    pub gguf: &'static [&'static str],
    /// The pure function from hyper-parameters to a model.
    pub spec: fn(&crate::config::Config) -> Result<ModelSpec, crate::config::ConfigError>,
    /// Hugging Face's names to canonical names; GGUF's are the canonical ones.
    pub names: &'static [Rename],
}

/// How a Hugging Face tensor becomes a canonical one. `{}` is the layer, `{e}` the expert; names
/// stand without their `.weight` or `.bias`.
#[derive(Clone, Copy, Debug)]
pub enum Rename {
    /// The same data.
    To(&'static str, &'static str),
    /// Rows of one tensor are several, in this order; the spec gives the sizes.
    Split(&'static str, &'static [&'static str]),
    /// `{e}` runs over experts, stacked on a new first axis.
    Stack(&'static str, &'static str),
    /// As `To`, adding one to every element (Gemma's norms).
    PlusOne(&'static str, &'static str),
    /// As `To`, mapping a to -exp(a) (Mamba's A_log).
    NegExp(&'static str, &'static str),
    /// Present in checkpoints, not used by us.
    Ignore(&'static str),
}
