//! Matrix products of one input with one or several weights, in one pass of the team.
use super::Ctx;
use crate::act::Act;
use crate::layout::Packed;
use crate::mat::{Mat, Store};

/// One product: `out[m, n] (+)= Σ_k weights[n, k]·x[m, k] + bias[n]`.
pub struct Linear<'a> {
    /// `[n, k]`.
    pub weights: &'a Packed,
    /// `n` long.
    pub bias: Option<&'a [f32]>,
    /// Replace or add.
    pub store: Store,
    /// Takes the input's row count; with [`Store::Add`] it must have it already.
    pub out: &'a mut Mat,
}

/// Computes all of `jobs` from `x`, whose 8-bit form is made here if a layout reads it and it is
/// stale. Tasks are groups of panels over all jobs.
pub fn linear(ctx: &Ctx, x: &mut Act, jobs: &mut [Linear<'_>]) {
    let _ = (ctx, x, jobs);
    todo!()
}
