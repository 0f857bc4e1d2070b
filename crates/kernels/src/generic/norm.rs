//! Norms of a row.
use crate::{isa::Isa, ops::Norm};
pub(crate) unsafe fn norm<S: Isa>(n: &Norm<'_>, x: &[f32], out: &mut [f32]) {
    let _ = (n, x, out);
    todo!()
}
