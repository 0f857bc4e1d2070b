//! The language of a bundle: the tokenizer's own file, and what other files say beside it.
use super::{Parts, folder, gguf};
use crate::error::{Error, Result};
use crate::generation::{Defaults, Generation};
use rinfer_formats::{Bundle, Checkpoint, Gguf};
use rinfer_text::tokenizer::{Roles, Tokenizer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a bundle keeps beside the tokenizer's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The template's source.
    pub template: Option<String>,
    /// Special tokens' texts, for the template, by name.
    pub tokens: BTreeMap<String, String>,
    /// Tokens with a task, where the tokenizer's file does not say so itself.
    pub roles: BTreeMap<String, u32>,
    /// Tokens that end an answer.
    pub end: Vec<u32>,
    /// The sampling defaults.
    pub sampling: Defaults,
}

impl Stored {
    /// The tokenizer as the metadata of a GGUF file.
    pub const GGUF: &str = "tokenizer.gguf";
    /// The tokenizer as Hugging Face has it.
    pub const JSON: &str = "tokenizer.json";

    /// What is to be kept of an open checkpoint that is no bundle.
    ///
    /// # Errors
    /// As of its parts.
    pub fn of(files: &Checkpoint) -> Result<Stored> {
        let Parts { tokenizer, template, tokens, generation } = Parts::of(files)?;
        let roles = match files {
            Checkpoint::Folder(_) => named(*tokenizer.roles()),
            _ => BTreeMap::new(),
        };
        let Generation { sampling, end } = generation;
        Ok(Stored { template, tokens, roles, end, sampling: Defaults::of(&sampling) })
    }

    /// The parts again.
    ///
    /// # Errors
    /// A tokenizer that is missing or can't be read, and defaults out of their range.
    pub(super) fn parts(&self, bundle: &Bundle) -> Result<Parts> {
        let file = bundle.path().display().to_string();
        let tokenizer = if let Some(bytes) = bundle.file(Stored::GGUF) {
            let path = PathBuf::from(format!("{file}: {}", Stored::GGUF));
            gguf::tokenizer(&Gguf::over(&path, bytes)?)?
        } else if let Some(bytes) = bundle.file(Stored::JSON) {
            let file = format!("{file}: {}", Stored::JSON);
            let cause = |cause| Error::Tokenizer { file, cause };
            Tokenizer::from_json(&bytes).map_err(cause)?.with_roles(roles(&self.roles))
        } else {
            return Err(Error::Field {
                file,
                field: "the tokenizer".into(),
                found: "missing".into(),
                expected: format!("a file {} or {}", Stored::GGUF, Stored::JSON),
            });
        };
        let generation = Generation { sampling: self.sampling.sampling(), end: self.end.clone() };
        let generation = generation.checked(&file)?;
        let (template, tokens) = (self.template.clone(), self.tokens.clone());
        Ok(Parts { tokenizer, template, tokens, generation })
    }
}

impl Parts {
    /// Of an open checkpoint that is no bundle.
    pub(super) fn of(files: &Checkpoint) -> Result<Parts> {
        let (tokenizer, template, tokens) = match files {
            Checkpoint::Folder(f) => {
                (folder::tokenizer(f)?, folder::template(f)?, folder::special(f)?)
            }
            Checkpoint::Gguf(g) => (gguf::tokenizer(g)?, gguf::template(g)?, BTreeMap::new()),
            Checkpoint::Bundle(bundle) => {
                return Err(Error::Reference {
                    reference: bundle.path().display().to_string(),
                    problem: "is a bundle, which describes its language itself".into(),
                });
            }
        };
        Ok(Parts { tokenizer, template, tokens, generation: Generation::of(files)? })
    }
}

fn named(roles: Roles) -> BTreeMap<String, u32> {
    let Roles { bos, eos, eot, eom, unk, sep, pad, cls, mask } = roles;
    let all = [
        ("bos", bos),
        ("eos", eos),
        ("eot", eot),
        ("eom", eom),
        ("unk", unk),
        ("sep", sep),
        ("pad", pad),
        ("cls", cls),
        ("mask", mask),
    ];
    all.into_iter().filter_map(|(name, id)| Some((name.to_owned(), id?))).collect()
}

fn roles(named: &BTreeMap<String, u32>) -> Roles {
    let id = |name: &str| named.get(name).copied();
    Roles {
        bos: id("bos"),
        eos: id("eos"),
        eot: id("eot"),
        eom: id("eom"),
        unk: id("unk"),
        sep: id("sep"),
        pad: id("pad"),
        cls: id("cls"),
        mask: id("mask"),
    }
}
