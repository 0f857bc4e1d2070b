//! The operations of a forward pass, parallel on the team, with a safe interface: shapes are
//! checked once here, in release too. Each file holds one operation.
//!
//! A backend composes them; none of them knows about models. Everything works on a batch of rows,
//! and one row's numbers never depend on another's.
mod attention;
mod embed;
mod glu;
mod linear;
mod norm;
mod quantise;
mod residual;
mod rotate;
mod softcap;

pub use attention::{Attend, AttendRow, AttentionScratch, attention};
pub use embed::embed;
pub use glu::{Glu, glu};
pub use linear::{Linear, linear};
pub use norm::{Norm, NormKind, norm};
pub use quantise::quantise;
pub use residual::{Residual, residual};
pub use rotate::{HeadNorm, RopeLayout, Rotate, rotate};
pub use softcap::softcap;

use crate::{Kernels, Team};

/// Who computes: the threads and the instruction tier.
pub struct Ctx {
    /// The threads.
    pub team: Team,
    /// The instruction tier.
    pub kernels: &'static Kernels,
}
