//! The operations of a forward pass, parallel on the team, with a safe interface: shapes are
//! checked once here, in release too. Each file holds one operation.
//!
//! A backend composes them; none of them knows about models. Everything works on a batch of rows,
//! and one row's numbers never depend on another's.
mod attention;
mod branch;
mod chain;
mod choose;
mod embed;
mod experts;
mod gate;
mod gate_heads;
mod gated;
mod glu;
mod latent;
mod linear;
mod norm;
mod per_head;
mod quantise;
mod recurrent;
mod residual;
mod rotate;
mod softcap;
mod sparsify;
mod streams;
mod turn;
mod weighted;

pub use attention::{Attend, AttendRow, AttentionScratch, Heads, attention};
pub use branch::*;
pub use chain::{Stage, Watch};
pub use choose::{Choose, ChooseScratch, Chosen, choose};
pub use embed::embed;
pub use experts::{Choice, Experts, ExpertsScratch, Routes, Stack, Weighs, experts};
pub use gate::{Gate, gate};
pub use gate_heads::gate_heads;
pub use gated::{Gated, GatedScratch, gated};
pub use glu::{Glu, glu};
pub use latent::latent;
pub use linear::{Linear, Weights, linear};
pub use norm::{Norm, NormKind, norm, norm_in_order, norm_in_place};
pub use per_head::{PerHead, per_head};
pub use quantise::quantise;
pub use recurrent::*;
pub use residual::{Residual, residual};
pub use rotate::{HeadNorm, RopeLayout, Rotate, rotate};
pub use softcap::softcap;
pub use sparsify::sparsify;
pub use streams::{average, correct, expand, predict, residual_of_others};
pub use turn::{Turned, linear_in_orders};
pub use weighted::weighted;

use crate::mat::{Lent, Mat};
use crate::team::Worker;
use crate::{Kernels, Team};

/// Who computes: the threads and the instruction tier.
pub struct Ctx {
    /// The threads.
    pub team: Team,
    /// The instruction tier.
    pub kernels: &'static Kernels,
}

/// Elements of elementwise work that are not worth waking the team for.
const FEW: usize = 8192;
/// Columns that elementwise work on one row is cut into: whole activation blocks.
const CHUNK: usize = 1024;

impl Ctx {
    /// `task(i)` for every row `i`, on the team if there is enough to do.
    fn each_row(&self, rows: usize, cols: usize, task: impl Fn(usize) + Sync) {
        if rows < 2 || rows * cols < FEW {
            return (0..rows).for_each(task);
        }
        self.team.run(|worker| by_rows(worker, rows, &task));
    }

    /// `task(i, from, len)` for every stretch of columns of every row.
    fn each_chunk(&self, rows: usize, cols: usize, task: impl Fn(usize, usize, usize) + Sync) {
        let chunks = cols.div_ceil(CHUNK);
        self.each_row(rows * chunks, cols.min(CHUNK), |i| {
            let from = i % chunks * CHUNK;
            task(i / chunks, from, CHUNK.min(cols - from));
        });
    }
}

/// Phase: `task(i)` for every row `i`.
fn by_rows(worker: &Worker<'_>, rows: usize, task: &dyn Fn(usize)) {
    // A few claims to a thread: enough to balance, too few to fight over.
    let group = rows.div_ceil(8 * worker.threads()).max(1);
    worker.phase(rows.div_ceil(group), |g| {
        (g * group..rows.min((g + 1) * group)).for_each(task);
    });
}

/// Phase: `task(i, from, len)` for every stretch of up to `chunk` columns of every row.
fn by_chunks(
    worker: &Worker<'_>,
    (rows, cols): (usize, usize),
    chunk: usize,
    task: &dyn Fn(usize, usize, usize),
) {
    let chunks = cols.div_ceil(chunk);
    by_rows(worker, rows * chunks, &|i| {
        let from = i % chunks * chunk;
        task(i / chunks, from, chunk.min(cols - from));
    });
}

/// `task` with every row of `x` and as large a part of `out`, in its order, on the team where there
/// is enough to do.
///
/// # Panics
/// If `out` is not the same for each row.
pub fn by_row<T: Send>(
    ctx: &Ctx,
    x: &mut Mat,
    out: &mut [T],
    task: impl Fn(&mut [f32], &mut [T]) + Sync,
) {
    let (rows, cols) = (x.rows(), x.cols());
    let each = out.len() / rows.max(1);
    assert_eq!(each * rows, out.len(), "parts of one size");
    let (x, out) = (x.shared(), Lent::new(out));
    // SAFETY: a row is one task's.
    ctx.each_row(rows, cols, |i| unsafe { task(x.part(i, 0, cols), out.part(i * each, each)) });
}
