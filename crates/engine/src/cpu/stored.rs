//! A bundle's matrices, packed already: they are read where the file is mapped.
use super::lie::Lie;
use crate::backend::LoadError;
use rinfer_formats::Weights;
use rinfer_formats::map::Bytes;
use rinfer_kernels::Packed;
use rinfer_kernels::room::{Aligned, Fixed};
use std::ops::Range;

fn known(name: &str, layout: &str) -> Result<Lie, LoadError> {
    let (tensor, found) = (name.to_owned(), layout.to_owned());
    Lie::named(name, layout).ok_or(LoadError::Layout { name: tensor, found })
}

/// The matrices of a bundle's tensor where they lie; none if it is not packed.
///
/// # Errors
/// A layout that is not known here, or bytes that are not as many as it takes.
pub(crate) fn stored(weights: &dyn Weights, name: &str) -> Result<Option<Vec<Packed>>, LoadError> {
    let Some(stored) = weights.prepared(name) else { return Ok(None) };
    let [ref count @ .., rows, cols] = *stored.shape else {
        return Err(LoadError::Missing { name: name.to_owned() });
    };
    let (lie, count) = (known(name, stored.layout)?, count.iter().product::<usize>());
    let (layout, each, [rows, cols]) = (lie.layout, lie.size(rows, cols), lie.shape(rows, cols));
    let length = |need: usize| LoadError::Length {
        name: name.to_owned(),
        found: stored.bytes.len(),
        expected: need,
    };
    let need = each.saturating_mul(count);
    if stored.bytes.len() != need || !cols.is_multiple_of(layout.block()) {
        return Err(length(need));
    }
    let part = |i: usize| {
        let data = fixed(&stored.bytes, i * each..(i + 1) * each).ok_or_else(|| length(need))?;
        Packed::from_bytes(layout, rows, cols, data).map_err(length)
    };
    (0..count).map(part).collect::<Result<_, _>>().map(Some)
}

/// A part of a mapping where it lies; of memory, which no file gives, a copy.
fn fixed(bytes: &Bytes, part: Range<usize>) -> Option<Fixed> {
    match bytes {
        Bytes::Mapped(map, all) => Fixed::of_map(map, all.start + part.start..all.start + part.end),
        Bytes::Owned(bytes) => {
            let mut copy = Aligned::zeroed(part.len());
            copy.bytes_mut().copy_from_slice(bytes.get(part)?);
            Some(copy.into())
        }
    }
}
