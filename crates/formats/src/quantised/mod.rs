//! Quantised Hugging Face folders: what they store in several tensors a matrix is one tensor of row
//! blocks here, `[out, in]` under the matrix's own name, so that nobody else knows of it.
//!
//! `quantization_config` says how a folder is to be read ([`scheme`]), and headers say of each matrix
//! what it is. A matrix is translated when it is asked for, from the mapping, with no rounding.
mod common;
mod fp8;
mod integers;
mod mxfp4;
mod nf4;
mod parts;
mod scheme;
mod unpack;
mod zeros;

pub use common::{common, recast};
pub use fp8::turned;

use crate::error::Error;
use crate::tensor::{DType, Tensor, Weights};
use parts::Parts;
use scheme::Scheme;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a folder's tensors are made to.
#[derive(Debug)]
pub(crate) struct Quantised {
    made: HashMap<String, Made>,
    /// Of all tensors, in the files' order.
    names: Vec<String>,
}

/// One matrix, or a stack of them.
#[derive(Debug)]
pub(crate) struct Made {
    dtype: DType,
    /// Outermost axis first.
    shape: Vec<usize>,
    rows: Box<dyn Rows>,
    /// Its type with its columns in another order, if it has one.
    sorted: Option<(DType, Arc<[u32]>)>,
    /// What it is made of.
    sources: Vec<String>,
}

/// Rows of blocks from a folder's tensors, whose shapes were checked.
trait Rows: Debug + Send + Sync {
    /// Appends `rows` to `out`.
    fn write(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>);
    /// The same with columns in another order, of what has one.
    fn write_sorted(&self, raw: &dyn Weights, rows: Range<usize>, out: &mut Vec<u8>) {
        self.write(raw, rows, out);
    }
    /// How many rows, from a multiple of that many on, have the scales of each of their columns in common.
    fn alike(&self) -> usize {
        1
    }
}

/// Rows that are translated together: what is packed across them is read once.
const TILE: usize = 64;
/// Elements that are worth a thread.
const MUCH: usize = 1 << 20;

impl Quantised {
    /// Of the folder at `path`; none if its config says nothing of it.
    ///
    /// # Errors
    /// A scheme that is not known; tensors that are missing or disagree.
    pub fn of(path: &Path, config: &Value, raw: &dyn Weights) -> Result<Option<Quantised>, Error> {
        let Some(scheme) = scheme::read(path, config)? else { return Ok(None) };
        let (mut made, mut targets, mut used) = (HashMap::new(), HashMap::new(), HashSet::new());
        let names = raw.names();
        for name in &names {
            let mut parts = Parts::new(raw, name);
            let found = module(&scheme, name, &mut parts);
            let Some((target, mut one)) = found.map_err(|cause| Error::at(path, cause))? else {
                continue;
            };
            one.sources = parts.used();
            used.extend(one.sources.iter().cloned());
            targets.insert((*name).to_owned(), target.clone());
            made.insert(target, one);
        }
        let target = |name: &&str| match targets.get(*name) {
            Some(target) => Some(target.clone()),
            None => (!used.contains(*name)).then(|| (*name).to_owned()),
        };
        let names = names.iter().filter_map(target).collect();
        Ok(Some(Quantised { made, names }))
    }
    /// What is made under `name`.
    pub fn get(&self, name: &str) -> Option<&Made> {
        self.made.get(name)
    }
    /// Of all tensors: those that are made, and those that are as they were.
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// The matrix that `name` is the first tensor of, and what it is called.
fn module(
    scheme: &Scheme,
    name: &str,
    parts: &mut Parts<'_>,
) -> Result<Option<(String, Made)>, crate::Cause> {
    let weight = |stem: &str| format!("{stem}.weight");
    let suffix = |suffix| name.strip_suffix(suffix);
    let whole = |made: Made| (name.to_owned(), made);
    Ok(match scheme {
        Scheme::Gptq(how) => match suffix(".qweight") {
            Some(stem) => Some((weight(stem), integers::gptq(how, stem, parts)?)),
            None => None,
        },
        Scheme::Awq { group } => match suffix(".qweight") {
            Some(stem) => Some((weight(stem), integers::awq(*group, stem, parts)?)),
            None => None,
        },
        Scheme::Fp8 { block } => match suffix(".weight") {
            Some(stem) if parts.is(name, DType::F8_E4M3) => {
                Some(whole(fp8::matrix(*block, stem, parts)?))
            }
            _ => None,
        },
        Scheme::Compressed { bits } => {
            if let Some(stem) = suffix(".weight_packed") {
                return Ok(Some((weight(stem), integers::packed(bits, stem, parts)?)));
            }
            match suffix(".weight") {
                Some(stem) if parts.is(name, DType::I8) => {
                    Some(whole(integers::bytes(stem, parts)?))
                }
                Some(stem) if parts.is(name, DType::F8_E4M3) => {
                    Some(whole(fp8::matrix(None, stem, parts)?))
                }
                _ => None,
            }
        }
        Scheme::Nf4 => match suffix(".weight") {
            Some(stem) if nf4::is_one(stem, parts) => Some(whole(nf4::matrix(stem, parts)?)),
            _ => None,
        },
        Scheme::Mxfp4 => match suffix("_blocks") {
            Some(stem) => Some(whole(mxfp4::stack(stem, parts)?)),
            None => None,
        },
    })
}

impl Made {
    fn new(dtype: DType, shape: Vec<usize>, rows: impl Rows + 'static) -> Made {
        Made { dtype, shape, rows: Box::new(rows), sorted: None, sources: Vec::new() }
    }
    /// The same, which has this type with its columns in another order.
    fn with_order(self, sorted: Option<(DType, Arc<[u32]>)>) -> Made {
        Made { sorted, ..self }
    }
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Outermost axis first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// Its type and order, if it has one.
    pub fn order(&self) -> Option<(DType, Arc<[u32]>)> {
        self.sorted.clone()
    }
    /// How many rows, from a multiple of that many on, have the scales of each of their columns in common.
    pub fn alike(&self) -> usize {
        self.rows.alike()
    }
    /// All of it. The files' memory is given back.
    pub fn tensor<'a>(&self, raw: &dyn Weights) -> Tensor<'a> {
        let write = |rows, out: &mut Vec<u8>| self.rows.write(raw, rows, out);
        self.whole(raw, self.dtype, write)
    }
    /// The same with its columns in its order, if it has one.
    pub fn in_order<'a>(&self, raw: &dyn Weights) -> Option<Tensor<'a>> {
        let (dtype, _) = self.sorted.as_ref()?;
        let write = |rows, out: &mut Vec<u8>| self.rows.write_sorted(raw, rows, out);
        Some(self.whole(raw, *dtype, write))
    }
    fn whole<'a>(
        &self,
        raw: &dyn Weights,
        dtype: DType,
        write: impl Fn(Range<usize>, &mut Vec<u8>) + Sync,
    ) -> Tensor<'a> {
        let rows = self.shape.split_last().map_or(0, |(_, outer)| outer.iter().product());
        let made = self.some(dtype, 0..rows, &self.shape, write);
        for tensor in self.sources.iter().filter_map(|name| raw.get(name)) {
            raw.release(&tensor.bytes);
        }
        made
    }
    /// Part `i` along the first axis.
    pub fn part<'a>(&self, raw: &dyn Weights, i: usize) -> Option<Tensor<'a>> {
        let (_, shape) = self.shape.split_first().filter(|(count, _)| i < **count)?;
        let each = shape.split_last().map_or(1, |(_, outer)| outer.iter().product());
        let write = |rows, out: &mut Vec<u8>| self.rows.write(raw, rows, out);
        Some(self.some(self.dtype, i * each..(i + 1) * each, shape, write))
    }
    fn some<'a>(
        &self,
        dtype: DType,
        rows: Range<usize>,
        shape: &[usize],
        write: impl Fn(Range<usize>, &mut Vec<u8>) + Sync,
    ) -> Tensor<'a> {
        let format = dtype.format();
        let cols = self.shape.last().copied().unwrap_or(0);
        let row = cols / format.elems * format.bytes;
        let some = |rows: Range<usize>| {
            let mut bytes = Vec::with_capacity(rows.len() * row);
            for from in rows.clone().step_by(TILE) {
                write(from..rows.end.min(from + TILE), &mut bytes);
            }
            bytes
        };
        // Side by side where there is enough to do.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let each = rows.len().div_ceil(threads).next_multiple_of(TILE);
        if rows.len() <= each || rows.len() * cols < MUCH {
            return Tensor { dtype, shape: shape.to_vec().into(), bytes: some(rows).into() };
        }
        let mut bytes = Vec::with_capacity(rows.len() * row);
        std::thread::scope(|scope| {
            let parts = rows.clone().step_by(each).map(|from| from..rows.end.min(from + each));
            let parts = parts.map(|part| scope.spawn(|| some(part)));
            for part in parts.collect::<Vec<_>>() {
                // A thread that panics takes its caller with it.
                part.join()
                    .map_or_else(|e| std::panic::resume_unwind(e), |part| bytes.extend(part));
            }
        });
        Tensor { dtype, shape: shape.to_vec().into(), bytes: bytes.into() }
    }
}
