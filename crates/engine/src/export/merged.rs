//! A GGUF file's tensors with what adapters add: rows of canonical ones, brought together again.
use super::Stored;
use super::folder::entry;
use crate::config::{Config, Source};
use crate::error::{Error, Result};
use crate::load::Opened;
use crate::weights::moved::Moved;
use crate::weights::{Checkpoint, Filed, Piece, floats, wide};
use rinfer_formats::gguf::write::Planned;
use rinfer_formats::{DType, Gguf, Tensor, Weights};
use std::collections::{HashMap, HashSet};

/// The file's tensors, and the canonical ones that those are made of to which something is added.
pub(super) struct Merged<'a> {
    raw: &'a Gguf,
    canonical: Box<dyn Weights + 'a>,
    /// By the file's name.
    made: HashMap<String, Vec<Piece>>,
    /// Of all of those.
    pieces: HashSet<String>,
}

impl<'a> Merged<'a> {
    /// Of a file with its adapters.
    ///
    /// # Errors
    /// A tensor that is more than rows of what is added to.
    pub fn of(raw: &'a Gguf, opened: &'a Opened) -> Result<Merged<'a>> {
        let config = Config::new(raw.config()?, Source::Gguf);
        let checkpoint = Checkpoint::open(config, raw).map_err(|cause| opened.at(cause))?;
        let added: HashSet<&str> = opened.added().collect();
        let mut made = checkpoint.within();
        made.retain(|_, pieces| pieces.iter().any(|piece| added.contains(&*piece.name)));
        let pieces: HashSet<String> =
            made.values().flatten().map(|piece| piece.name.clone()).collect();
        let lost = added.iter().find(|name| !pieces.contains(**name)).copied();
        let twice =
            || raw.names().into_iter().find(|n| pieces.contains(*n) && !made.contains_key(*n));
        let part = || {
            let parts = |(name, pieces): &(&String, &Vec<Piece>)| !covers(raw, name, pieces);
            made.iter().find(parts).map(|(name, _)| name.as_str())
        };
        if let Some(name) = lost.or_else(twice).or_else(part) {
            let problem = format!(
                "'{name}', which is added to, is not some rows of one of its tensors; pack it as .rinf \
                 instead"
            );
            return Err(Error::Export { file: opened.name.clone(), problem });
        }
        Ok(Merged { raw, canonical: opened.weights()?, made, pieces })
    }
    /// A tensor of the file: of its pieces, if something is added to them.
    pub fn stored(&self, planned: Planned) -> Stored {
        let Some(pieces) = self.made.get(&planned.name) else { return Stored::whole(planned) };
        let (name, shape) = (planned.name.clone(), planned.shape.clone());
        let filed = Filed { name, shape, pieces: pieces.clone() };
        entry(filed, planned, &Moved::default(), Vec::new())
    }
}

/// What is merged is f32, and so is all that lies in one tensor with it.
fn all_wide<'t>(tensor: &Tensor<'_>) -> Option<Tensor<'t>> {
    Some(floats(&wide(tensor)?, tensor.shape.to_vec()))
}

/// Whether the pieces are all rows of the file's tensor called `name`.
fn covers(raw: &Gguf, name: &str, pieces: &[Piece]) -> bool {
    let rows: Option<usize> = pieces.iter().map(|p| p.rows.as_ref().map(Vec::len)).sum();
    let all = raw.describe(name).and_then(|(_, shape)| shape.iter().rev().nth(1).copied());
    matches!(pieces, [Piece { rows: None, .. }]) || rows.is_some() && rows == all
}

impl Weights for Merged<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        match self.pieces.contains(name) {
            true => all_wide(&self.canonical.get(name)?),
            false => self.raw.get(name),
        }
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        match self.pieces.contains(name) {
            true => all_wide(&self.canonical.part(name, i)?),
            false => self.raw.part(name, i),
        }
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        let (dtype, shape) = self.raw.describe(name)?;
        Some((if self.made.contains_key(name) { DType::F32 } else { dtype }, shape))
    }
    fn names(&self) -> Vec<&str> {
        self.raw.names()
    }
    fn release(&self, bytes: &[u8]) {
        self.raw.release(bytes);
    }
}
