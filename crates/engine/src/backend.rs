//! The seam: a backend compiles a spec and its weights into an executor, and the executor owns
//! all device memory, the state of sequences included.
use crate::batch::{Batch, Logits, Slot, TokenId};
use crate::profile::Profile;
use crate::spec::ModelSpec;
use rinfer_formats::Weights;
use rinfer_formats::gguf::recipe::{RECIPES, Recipe};
use std::io::{self, Read, Write};

/// A kind of device.
pub trait Backend: Sync {
    /// As `--backend` spells it.
    fn name(&self) -> &'static str;
    /// Whether it can run `spec`; if not, the first thing that it can't, in words.
    fn check(&self, spec: &ModelSpec) -> Result<(), String>;
    /// Takes the weights over and allocates everything that a forward will need.
    fn load(
        &self,
        spec: &ModelSpec,
        weights: &dyn Weights,
        limits: &Limits,
    ) -> Result<Box<dyn Executor>, LoadError>;
}

/// What an executor is sized for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sequences at once.
    pub slots: usize,
    /// Positions of one sequence.
    pub context: usize,
    /// Positions of all sequences together.
    pub positions: usize,
    /// Rows of one batch.
    pub batch: usize,
    /// How cached keys and values are stored.
    pub kv: Kv,
    /// How weights are held.
    pub quant: Quant,
    /// Whether what is quantised already is left as it is, where others are converted; else that is an
    /// error.
    pub keep: bool,
    /// What of a bundle's weights may be in memory; none is all of them.
    pub resident: Option<Resident>,
}

/// What of a bundle's weights may be in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// In bytes.
    pub bytes: usize,
    /// Whether the system has no more, so that what leaves is not even kept as a copy of the file.
    pub scarce: bool,
}

/// How cached keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kv {
    /// Half precision.
    F16,
    /// Exact: for parity.
    F32,
    /// 8 bits: keys with a scale per 32 channels, values with one a head. Half the memory, and
    /// attention in whole numbers.
    Q8,
}

impl Kv {
    /// Every precision.
    pub const ALL: [Kv; 3] = [Kv::F16, Kv::F32, Kv::Q8];
    /// As `--kv` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Kv::F16 => "f16",
            Kv::F32 => "f32",
            Kv::Q8 => "q8",
        }
    }
}

/// How weights are held (`--quant`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quant {
    /// As the file has them, without loss.
    Native,
    /// Widened to f32, multiplied with f32 activations: the reference.
    F32,
    /// bfloat16, f32 activations.
    Bf16,
    /// IEEE halves, f32 activations.
    F16,
    /// 8 bits and a scale per 32, f32 activations.
    Int8,
    /// 8 bits and a scale per 32, activations too.
    Int8Int8,
    /// 4 bits and a scale per 32, embeddings and head 8; activations 8.
    Int4,
    /// As a GGUF file of that name has them; activations 8 bits.
    Gguf(&'static Recipe),
}

impl Quant {
    /// Every precision: what it is called, what it is.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str, Quant)> {
        let own = [
            ("native", "As the file has them", Quant::Native),
            ("f32", "Widened, with f32 activations: the reference", Quant::F32),
            ("bf16", "bfloat16, with f32 activations", Quant::Bf16),
            ("f16", "IEEE halves, with f32 activations", Quant::F16),
            ("int8", "8 bits and a scale per 32, with f32 activations", Quant::Int8),
            ("int8int8", "8 bits and a scale per 32, activations too", Quant::Int8Int8),
            (
                "int4",
                "4 bits and a scale per 32, embeddings and head 8; activations 8",
                Quant::Int4,
            ),
        ];
        let recipes = RECIPES.iter().map(|r| (r.name, "The GGUF recipe", Quant::Gguf(r)));
        own.into_iter().chain(recipes)
    }
}

impl Quant {
    /// As `--quant` and bundles spell it.
    pub fn name(self) -> &'static str {
        match self {
            Quant::Native => "native",
            Quant::F32 => "f32",
            Quant::Bf16 => "bf16",
            Quant::F16 => "f16",
            Quant::Int8 => "int8",
            Quant::Int8Int8 => "int8int8",
            Quant::Int4 => "int4",
            Quant::Gguf(recipe) => recipe.name,
        }
    }
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No family has this name.
    #[error("architecture '{found}' is not supported{}; supported: {supported}", meant(*.nearest))]
    Architecture {
        /// As the checkpoint says it.
        found: String,
        /// A supported name that is much like it.
        nearest: Option<&'static str>,
        /// Names, with commas.
        supported: String,
    },
    /// A hyper-parameter is wrong.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// The model needs a tensor that the checkpoint has not.
    #[error("tensor '{name}' is missing from the checkpoint")]
    Missing {
        /// Canonical name.
        name: String,
    },
    /// A tensor's shape is not what the hyper-parameters say.
    #[error("tensor '{name}' has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Canonical name.
        name: String,
        /// Outermost axis first.
        found: Vec<usize>,
        /// Outermost axis first.
        expected: Vec<usize>,
    },
    /// The checkpoint has a tensor that the model does not use.
    #[error("tensor '{name}' is not part of this architecture; refusing to ignore weights")]
    Unused {
        /// Name in the checkpoint.
        name: String,
    },
    /// A tensor holds no weights.
    #[error("tensor '{name}': {source}")]
    Type {
        /// Canonical name.
        name: String,
        /// Its type.
        source: rinfer_formats::quant::NotWeights,
    },
    /// A conversion of a tensor that is quantised.
    #[error(
        "tensor '{name}' is {found} already, and only 16- and 32-bit checkpoints are converted: take \
         it as it is (native), or widened (f32)"
    )]
    Quantised {
        /// Canonical name.
        name: String,
        /// Its type.
        found: &'static str,
    },
    /// A conversion of numbers beyond a type's range.
    #[error("tensor '{name}' has numbers beyond the range of {to}: convert to bf16")]
    Range {
        /// Canonical name.
        name: String,
        /// The type.
        to: &'static str,
    },
    /// A bundle's matrix in a layout of another version.
    #[error(
        "tensor '{name}' is packed as '{found}', which this version does not know: bundle the model \
         again with it"
    )]
    Layout {
        /// Canonical name.
        name: String,
        /// As the bundle calls it.
        found: String,
    },
    /// A bundle's order of a norm's output, or of a matrix's input, that is none of its elements.
    #[error(
        "the order of '{name}' has {found} numbers, expected {width}, each below that: bundle the \
         model again"
    )]
    Order {
        /// Canonical name.
        name: String,
        /// Numbers.
        found: usize,
        /// Elements.
        width: usize,
    },
    /// A bundle's matrix that is not as long as its layout makes it.
    #[error("tensor '{name}' has {found} packed bytes, expected {expected}: the bundle is damaged")]
    Length {
        /// Canonical name.
        name: String,
        /// In bytes.
        found: usize,
        /// In bytes.
        expected: usize,
    },
    /// The backend declines the model.
    #[error("{0}")]
    Unsupported(String),
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default()
}

/// A loaded model. One thread drives it; it parallelises inside.
///
/// Invariant: a row's logits do not depend on the other rows of its batch, on how its prompt was
/// cut into chunks, or on the number of threads.
pub trait Executor: Send {
    /// Runs the batch: appends to its sequences' state and writes the wanted rows' logits.
    ///
    /// # Errors
    /// Only what a device can fail with; a batch that breaks the executor's limits is a bug of the
    /// caller and panics.
    fn forward(&mut self, batch: &Batch, out: &mut Logits) -> Result<(), DeviceError>;
    /// What sequences remember.
    fn state(&mut self) -> &mut dyn State;
    /// What the passes since the last call took, if they were counted; passes from now on are if
    /// `on`, which changes none of their numbers. None of a backend that does not count.
    fn profile(&mut self, on: bool) -> Option<Profile> {
        let _ = on;
        None
    }
}

/// A device failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(pub String);

/// What sequences remember: pages of keys and values, and recurrent states.
pub trait State {
    /// A new, empty sequence, if a slot is free.
    fn open(&mut self) -> Option<Slot>;
    /// Says how long the prompt of an empty sequence is; otherwise that is as many rows as come
    /// first. There are positions that depend on it: [`crate::rope::Scaling::LongRope`].
    fn begin(&mut self, slot: Slot, prompt: usize) {
        let _ = (slot, prompt);
    }
    /// Begins an empty sequence with the longest start of `tokens` that earlier ones left: pages are shared,
    /// and copied before they are written. Returns how many of them it then holds.
    fn resume(&mut self, slot: Slot, tokens: &[TokenId]) -> usize;
    /// Leaves what `slot` holds, which are `tokens`, to later sequences whose prompts are of the same kind
    /// and begin alike. It may be called again as the sequence grows; of a prompt under way, whole pages
    /// are left.
    fn keep(&mut self, slot: Slot, tokens: &[TokenId]);
    /// Whether another sequence, whose prompt is so long, can begin with the first `len` positions of `slot`
    /// once these are computed and [kept](State::keep); a copy of recurrent states is then made there.
    fn expect(&mut self, slot: Slot, len: usize, prompt: usize) -> bool {
        let _ = (slot, len, prompt);
        true
    }
    /// How many of the next `rows` rows of `slot` may come at once, so that recurrent states are copied
    /// where they are wanted.
    fn stride(&self, slot: Slot, rows: usize) -> usize {
        let _ = slot;
        rows
    }
    /// Positions that are kept for later sequences.
    fn kept(&self) -> usize;
    /// The longest length up to `len` that `slot` can be truncated to: short of `len` where a window has moved on, or a recurrent state has no copy there.
    fn reach(&self, slot: Slot, len: usize) -> usize;
    /// Makes sure that `slot` has pages for `len` positions, if need be of those that are only kept for
    /// later sequences; false if there is no room.
    fn reserve(&mut self, slot: Slot, len: usize) -> bool;
    /// Forgets positions from `len` on; false where they are out of [`State::reach`].
    fn truncate(&mut self, slot: Slot, len: usize) -> bool;
    /// Ends the sequence and frees its pages.
    fn close(&mut self, slot: Slot);
    /// Positions held by `slot`.
    fn len(&self, slot: Slot) -> usize;
    /// Free positions, those that are kept for later sequences not among them.
    fn room(&self) -> usize;
    /// Writes what is kept of `tokens`, or all that is kept, as [`State::restore`] reads it. Returns how many
    /// positions that are.
    ///
    /// # Errors
    /// Those of writing.
    fn save(&self, tokens: Option<&[TokenId]>, out: &mut dyn Write) -> io::Result<usize>;
    /// Keeps what was written by the state of the same model. Returns how many positions that are.
    ///
    /// # Errors
    /// What is wrong with it, or that there is no room for all of it; nothing of it is then kept.
    fn restore(&mut self, from: &mut dyn Read) -> Result<usize, String>;
}
