//! CPU kernels: packed weight layouts, instruction tiers, the thread team, and the safe parallel
//! operations that a forward pass is made of.
//!
//! Three promises hold for everything here, and tests compare bits to keep them:
//! a row's result does not depend on the other rows of its batch (I1), nor on the number of
//! threads or their timing (I2), nor on the instruction tier (I3). The means is one rule: *reduce
//! down, not across*. SIMD lanes are outputs, integer dots are exact, f32 work is fused
//! multiply-add in a fixed order, and transcendental functions are our own polynomials.
//! Where a sum must cross lanes (a norm, a softmax), it is sixteen partial sums, element `i` going
//! to sum `i % 16`, added in a fixed tree on every tier.

pub mod act;
mod generic;
mod isa;
pub mod kv;
pub mod layout;
pub mod machine;
pub mod mat;
pub mod ops;
pub mod room;
pub mod team;
pub mod tier;

pub use act::Act;
pub use layout::{Layout, Packed};
pub use mat::{Mat, Rows};
pub use team::Team;
pub use tier::{Kernels, TIERS};
