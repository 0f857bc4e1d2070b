//! Elementwise work on activations.
use crate::{act::QuantRow, isa::Isa, ops::Glu};
pub(crate) unsafe fn quantise<S: Isa>(x: &[f32], out: QuantRow<'_>) {
    let _ = (x, out);
    todo!()
}
pub(crate) unsafe fn add<S: Isa>(y: &[f32], scale: f32, x: &mut [f32]) {
    let _ = (y, scale, x);
    todo!()
}
pub(crate) unsafe fn glu<S: Isa>(f: Glu, gate: &[f32], up: &[f32], out: &mut [f32]) {
    let _ = (f, gate, up, out);
    todo!()
}
pub(crate) unsafe fn softcap<S: Isa>(x: &mut [f32], cap: f32) {
    let _ = (x, cap);
    todo!()
}
