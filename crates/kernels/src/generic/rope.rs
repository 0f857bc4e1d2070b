//! Rotary positions of one head.
use crate::{isa::Isa, ops::RopeLayout};
pub(crate) unsafe fn rope<S: Isa>(l: RopeLayout, x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let _ = (l, x, cos, sin);
    todo!()
}
