//! The operations of a forward pass, parallel on the team, with a safe interface: shapes are
//! checked once here, in release too. Each file holds one operation: a function that does it by
//! itself, and a method of [`Chain`] that adds it to others, to be done with them.
//!
//! A backend composes them; none of them knows about models. Everything works on a batch of rows,
//! and one row's numbers never depend on another's.
mod across;
mod attention;
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
mod plain;
mod quantise;
mod recurrent;
mod residual;
mod rotate;
mod softcap;
mod sparsify;
mod streams;
mod turn;
mod weighted;

pub use across::AcrossTask;
pub use attention::{Attend, AttendRow, AttentionScratch, Heads, Places, attention};
pub use chain::{Chain, Room, Stage, Watch};
pub use choose::{Choose, ChooseScratch, Chosen, ChosenSlot, choose};
pub use embed::embed;
pub use experts::{Choice, Choices, Experts, ExpertsScratch, Router, Stack, Weighs, experts};
pub use gate::{Gate, gate};
pub use gate_heads::gate_heads;
pub use gated::{FEW_ROWS, Gated, GatedScratch, gated};
pub use glu::{Glu, glu};
pub use latent::latent;
pub use linear::{Linear, Product, Weights, linear};
pub use norm::{Norm, NormKind, norm, norm_in_order, norm_in_place};
pub use per_head::{PerHead, per_head};
pub use plain::Plain;
pub use quantise::quantise;
pub use recurrent::*;
pub use residual::{Residual, residual};
pub use rotate::{HeadNorm, RopeLayout, Rotate, rotate};
pub use softcap::softcap;
pub use sparsify::sparsify;
pub use streams::{Turn, average, expand, turn};
pub use turn::{Turned, linear_in_orders};
pub use weighted::weighted;

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

/// Elements of one phase's work that threads in a run don't share: handing it on costs as much.
const LITTLE: usize = 512;

/// Whether so many tasks of so many elements each are one, or fewer elements than `least`.
fn few(tasks: usize, each: usize, least: usize) -> bool {
    tasks < 2 || tasks * each < least
}

impl Ctx {
    /// `task(i)` for every row `i`, on the team if there is enough to do.
    fn each_row(&self, rows: usize, cols: usize, task: impl Fn(usize) + Sync) {
        if rows < 2 || rows * cols < FEW {
            return (0..rows).for_each(task);
        }
        self.team.run(|worker| by_rows(worker, rows, &task));
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
