//! From a reference to an executor: the one load path.
use crate::backend::{Backend, Executor, Kv, Limits, LoadError, Quant, Resident};
use crate::bundle::About;
use crate::config::{Config, Source};
use crate::cpu::Cpu;
use crate::cpu::flow::Flow;
use crate::embed::pooling;
use crate::error::{Error, Result};
use crate::families::Family;
use crate::fit::Fit;
use crate::language::Language;
use crate::lora::{Adapter, Adapters};
use crate::memory;
use crate::spec::{Head, ModelSpec};
use crate::threads::Processors;
use crate::weights;
use rinfer_formats::{Checkpoint, DType, Tensor, Weights};
use rinfer_kernels::Kernels;
use rinfer_kernels::kv::PAGE;
use rinfer_text::template::DateTime;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct Load {
    /// Tokens of a sequence, prompt and answer together. The default is the model's own, at most
    /// 4096.
    pub context: Option<usize>,
    /// Sequences at once.
    pub sequences: usize,
    /// Positions of all sequences together. The default is those of one whole context: sequences
    /// share them, and what is kept for later ones has what they leave.
    pub positions: Option<usize>,
    /// Rows of one forward pass.
    pub batch: usize,
    /// Bytes that the model may take. The default is what the system says is available.
    pub memory: Option<usize>,
    /// Threads of a forward pass. The default follows from the machine: see [`Processors`].
    pub threads: Option<usize>,
    /// How cached keys and values are stored.
    pub kv: Kv,
    /// How weights are held.
    pub quant: Quant,
    /// What is merged into them first.
    pub adapters: Vec<Adapter>,
    /// The CPU tier, by name. The default is the fastest that runs here.
    pub tier: Option<String>,
    /// The time, for templates that print the date. The default is always 26 July 2024, the day
    /// that such templates fall back to: nothing here asks the system.
    pub clock: fn() -> DateTime,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            context: None,
            sequences: 4,
            positions: None,
            batch: 512,
            memory: None,
            threads: None,
            kv: Kv::F16,
            quant: Quant::Native,
            adapters: Vec::new(),
            tier: None,
            clock: || DateTime::from_unix(1_721_952_000),
        }
    }
}

/// The context that is used when none is asked for, if the model has as much.
const DEFAULT_CONTEXT: usize = 4096;
/// Beyond these, sums of bytes could overflow before memory is found too small.
const MOST_ROWS: usize = 1 << 16;
const MOST_POSITIONS: usize = 1 << 40;
/// Threads that may be asked for on any machine.
const MOST_THREADS: usize = 64;
/// What a process takes besides, where weights come and go: the program, the tokenizer, vectors.
const BESIDE: usize = 48 << 20;

impl Load {
    /// What an executor for `spec` is sized for, were memory no concern.
    ///
    /// # Errors
    /// An option of zero or beyond all bounds, or a context that the model is not made for.
    pub fn limits(&self, spec: &ModelSpec) -> Result<Limits> {
        let context = self.context.unwrap_or(DEFAULT_CONTEXT.min(spec.context));
        if context > spec.context {
            let problem = format!("the model is made for at most {} positions", spec.context);
            return Err(option("context", context, problem));
        }
        let positions = self.positions.unwrap_or(context);
        for (name, count, least, most) in [
            ("context", context, 1, MOST_POSITIONS),
            ("sequences", self.sequences, 1, MOST_ROWS),
            ("batch", self.batch, 1, MOST_ROWS),
            ("positions", positions, context, MOST_POSITIONS),
        ] {
            if count < least {
                return Err(option(name, count, format!("must be {least} or more")));
            }
            if count > most {
                return Err(option(name, count, format!("must be at most {most}")));
            }
        }
        Ok(Limits {
            slots: self.sequences,
            context,
            positions: positions.next_multiple_of(PAGE),
            // Every sequence has a row when all decode.
            batch: self.batch.max(self.sequences),
            kv: self.kv,
            quant: self.quant,
            keep: !self.adapters.is_empty(),
            resident: None,
        })
    }

    /// The CPU tier that the options ask for.
    ///
    /// # Errors
    /// One that does not run here.
    pub fn kernels(&self) -> Result<&'static Kernels> {
        let Some(name) = &self.tier else { return Ok(Kernels::best()) };
        Kernels::named(name).map_err(|usable| {
            let problem = format!("not a tier that runs here; these do: {}", usable.join(", "));
            option("tier", name, problem)
        })
    }

    /// Threads of a forward pass.
    ///
    /// # Errors
    /// None at all, or so many that they would only wait for each other.
    pub fn threads(&self) -> Result<usize> {
        match self.threads {
            Some(0) => return Err(option("threads", 0, "must be 1 or more".into())),
            Some(threads) if threads <= MOST_THREADS => return Ok(threads),
            _ => {}
        }
        let own = Processors::detect().threads();
        let (threads, most) = (self.threads.unwrap_or(own), MOST_THREADS.max(4 * own));
        if threads > most {
            let problem = format!("must be at most {most}; {own} suit this machine");
            return Err(option("threads", threads, problem));
        }
        Ok(threads)
    }

    /// The backend that the options ask for.
    ///
    /// # Errors
    /// As [`Load::kernels`] and [`Load::threads`].
    pub fn backend(&self) -> Result<Cpu> {
        Ok(Cpu::new(self.threads()?, self.kernels()?))
    }
}

pub(crate) fn option(option: &'static str, found: impl ToString, problem: String) -> Error {
    Error::Option { option, found: found.to_string(), problem }
}

/// A checkpoint whose metadata is read and understood; its weights are not loaded yet.
pub struct Opened {
    /// The file or folder, for messages.
    pub name: String,
    /// What to compute.
    pub spec: ModelSpec,
    /// Who said so.
    pub family: &'static Family,
    /// The open files.
    pub files: Checkpoint,
    /// What a bundle says of its model.
    pub about: Option<About>,
    /// What others say of theirs.
    pub(crate) config: Option<Config>,
    pub(crate) adapters: Adapters,
}

/// The files' tensors, with adapters.
impl Weights for Opened {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.adapters.get(self.files.weights(), name)
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        self.adapters.part(self.files.weights(), name, i)
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.adapters.describe(self.files.weights(), name)
    }
    // The columns of what is merged lie as they are.
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        self.files.weights().order(name).filter(|_| !self.adapters.has(name))
    }
    fn in_order(&self, name: &str) -> Option<Tensor<'_>> {
        self.files.weights().in_order(name)
    }
    fn alike(&self, name: &str) -> usize {
        self.files.weights().alike(name)
    }
    fn names(&self) -> Vec<&str> {
        self.files.weights().names()
    }
    fn release(&self, bytes: &[u8]) {
        self.files.weights().release(bytes);
    }
}

impl Opened {
    /// Opens what a reference names: a bundle, a GGUF file, or a Hugging Face folder.
    ///
    /// # Errors
    /// What is missing, wrong or not supported.
    pub fn open(reference: impl AsRef<Path>) -> Result<Opened> {
        let path = reference.as_ref();
        refuse_remote(path)?;
        Opened::of(path.display().to_string(), rinfer_formats::open(path)?)
    }

    /// Of open files, which messages call `name`.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn of(name: String, files: Checkpoint) -> Result<Opened> {
        let config = match &files {
            Checkpoint::Gguf(gguf) => Config::new(gguf.config()?, Source::Gguf),
            Checkpoint::Folder(f) => {
                let config = Config::new(f.config().clone(), Source::HuggingFace);
                pooling(f)?.map_or(config.clone(), |pooling| config.with(pooling))
            }
            Checkpoint::Bundle(bundle) => {
                let (about, family) = About::of(bundle)?;
                let (spec, about) = (about.spec.clone(), Some(about));
                let adapters = Adapters::default();
                return Ok(Opened { name, spec, family, files, about, config: None, adapters });
            }
        };
        let named = weights::Checkpoint::open(config.clone(), files.weights());
        let (spec, family) = match named {
            Ok(checkpoint) => (checkpoint.spec, checkpoint.family),
            Err(cause) => return Err(Error::Load { file: name, cause }),
        };
        let (config, adapters) = (Some(config), Adapters::default());
        Ok(Opened { name, spec, family, files, about: None, config, adapters })
    }

    /// Tokenizer, template, end tokens and sampling defaults.
    ///
    /// # Errors
    /// As [`Language::of`].
    pub fn language(&self) -> Result<Language> {
        Language::of(&self.files, self.about.as_ref().map(|about| &about.language))
    }

    /// The tensors under canonical names.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn weights(&self) -> Result<Box<dyn Weights + '_>> {
        if self.config.is_none() {
            let ready = Box::new(weights::Ready(self.files.weights()));
            return Ok(self.adapters.over_canonical(ready));
        }
        Ok(self.adapters.over_canonical(Box::new(self.named()?)))
    }

    /// The same of what is no bundle, and which of the files' tensors they are.
    pub(crate) fn named(&self) -> Result<weights::Checkpoint<'_>> {
        let empty = || Config::new(Value::Null, Source::HuggingFace);
        let config = self.config.clone().unwrap_or_else(empty);
        weights::Checkpoint::open(config, self).map_err(|cause| self.at(cause))
    }

    /// What a load takes beside what there is: from the files' headers, not from weights.
    ///
    /// # Errors
    /// An option out of its range.
    pub fn fit(&self, load: &Load) -> Result<Fit> {
        let asked = load.limits(&self.spec)?;
        // A bundle's weights are where they will be; others are mapped beside what is made of them.
        let mapped = if let Checkpoint::Bundle(bundle) = &self.files { bundle.len() } else { 0 };
        let threads = load.threads()?;
        let room = memory::room(Path::new("/"), load.memory, mapped, threads);
        let weights = self.weights()?;
        let free = load.context.is_none();
        Ok(Fit::of(&self.spec, &*weights, asked, free, room, threads))
    }

    /// What an executor that writes texts is sized for. A default context is the largest, up to 4096 and
    /// at least 512, that memory has room for.
    ///
    /// # Errors
    /// An option out of its range; a model or context that memory has no room for; a model that writes
    /// no texts.
    pub fn limits(&self, load: &Load) -> Result<Limits> {
        match self.spec.head {
            Head::Lm { .. } => self.room(load),
            Head::Pool { scores: false, .. } => Err(self.unfit(
                "makes vectors of texts, and writes none: take rinfer embed, the route \
                 /v1/embeddings, or an Embedder",
            )),
            Head::Pool { .. } => Err(self.unfit(
                "scores pairs of texts, and writes none: take the route /v1/rerank, or a Reranker",
            )),
        }
    }

    /// As [`Opened::limits`], of any model.
    pub(crate) fn room(&self, load: &Load) -> Result<Limits> {
        self.agree(load.quant)?;
        let fit = self.fit(load)?;
        let Some(room) = fit.room.filter(|_| !fit.fits()) else { return Ok(fit.limits) };
        if let Some(limits) = self.in_part(&fit, room)? {
            return Ok(limits);
        }
        let advice = match (fit.most, load.quant) {
            (Some(most), _) => format!("a context of {most} would fit"),
            (None, Quant::Native | Quant::F32) if self.is_adapted() => {
                "what adapters are merged into is held as f32: take --quant q8_0 or q4_k_m, which \
                 convert that alone where the rest is quantised"
                    .into()
            }
            (None, Quant::F32) => "hold the weights as the file has them".into(),
            (None, _) if self.about.is_some() => "even in part: take a smaller context".into(),
            (None, _) => {
                "take a smaller model or quantisation; or bundle it (rinfer bundle MODEL -o \
                          FILE): of a bundle, a part of the weights is in memory at a time"
                    .into()
            }
        };
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        Err(Error::Memory {
            needed: mib(fit.takes.total()),
            available: mib(room),
            context: fit.limits.context,
            advice,
        })
    }

    /// Of a bundle, a part of the weights is enough, if there is room for that. What is merged has no place
    /// in the file to come from again.
    fn in_part(&self, fit: &Fit, room: usize) -> Result<Option<Limits>> {
        if self.about.is_none() || self.is_adapted() {
            return Ok(None);
        }
        let least = Flow::least(&self.spec, &*self.weights()?);
        let others = fit.takes.total() - fit.takes.weights + BESIDE;
        let bytes = room.checked_sub(others).filter(|bytes| *bytes >= least);
        let system = memory::available(Path::new("/"));
        let scarce = system.is_some_and(|system| system < fit.takes.total());
        let resident = bytes.map(|bytes| Resident { bytes, scarce });
        Ok(resident.map(|_| Limits { resident, ..fit.limits.clone() }))
    }

    /// A bundle's weights were converted when it was made; what is merged is converted now.
    ///
    /// # Errors
    /// That they are to be converted to something else.
    pub(crate) fn agree(&self, quant: Quant) -> Result<()> {
        let (asked, Some(about)) = (quant.name(), &self.about) else { return Ok(()) };
        if quant == Quant::Native || asked == about.quant || self.is_adapted() {
            return Ok(());
        }
        let problem = format!(
            "the bundle {} holds its weights as {}: leave it out, or bundle the model anew with it",
            self.name, about.quant
        );
        Err(option("quant", asked, problem))
    }

    pub(crate) fn at(&self, cause: LoadError) -> Error {
        Error::Load { file: self.name.clone(), cause }
    }

    /// Loads the weights.
    ///
    /// # Errors
    /// A tensor that is missing, misshapen or of a kind that the backend has not.
    pub fn executor(&self, backend: &dyn Backend, limits: &Limits) -> Result<Box<dyn Executor>> {
        let weights = self.weights()?;
        backend.load(&self.spec, &*weights, limits).map_err(|cause| self.at(cause))
    }
}

/// References that whoever opens files has to have resolved.
fn refuse_remote(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    let problem = if text.starts_with("hf:") {
        "is on the hub: fetch it with `rinfer pull`, or as rinfer::hub does, and give its path"
    } else if text.starts_with("demo:") {
        "names a pinned model: fetch it with `rinfer pull`, or as rinfer::hub does, and give its path"
    } else if text.is_empty() {
        "names no model: give the path of a .gguf file or of a Hugging Face folder"
    } else {
        return Ok(());
    };
    Err(Error::Reference { reference: text.into_owned(), problem: problem.into() })
}
