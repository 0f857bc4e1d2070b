//! Algorithms, written once over the [`crate::isa::Isa`] token and instantiated by every tier.
pub(crate) mod across;
pub(crate) mod act;
pub(crate) mod attend;
mod element;
pub(crate) mod gate;
pub(crate) mod glu;
pub(crate) mod index;
pub(crate) mod lanes;
pub(crate) mod math;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod recurrent;
pub(crate) mod rope;
