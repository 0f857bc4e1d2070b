//! Instruction tiers: one table of functions each, fastest first, chosen once at run time.
use crate::act::QuantRow;
use crate::isa;
use crate::kv::{IndexTask, MergeTask, PAGE, PageTask};
use crate::layout::Layout;
use crate::mat::MatmulTask;
use crate::ops::{
    AcrossTask, ConvTask, DeltaTask, Gate, Glu, LinearStateTask, Norm, RgLruTask, RopeLayout,
    SelectiveTask,
};
use std::ops::Range;

/// Multiplies the panels of one task: `out[m, n] = Σ_k w[n, k]·x[m, k] (+ bias[n])`.
///
/// # Safety
/// The tier is usable on this CPU; the task's shapes agree, and the 8-bit form of its rows is grouped
/// by the tier's [`Kernels::tile`]; no other thread writes the same panels.
pub type MatmulFn = unsafe fn(&MatmulTask<'_>, Range<usize>);

/// A tier: what runs on one kind of CPU, all of it written by the macro `tier!` in [`crate::isa`]
/// over one instruction set.
///
/// Every entry is unsafe to call: the tier must be [usable](Kernels::usable) on this CPU and the
/// slices must have the lengths that the field's comment names. The safe callers are in
/// [`crate::ops`].
#[derive(Clone, Copy)]
pub struct Kernels {
    /// As `RINFER_TIER` spells it.
    pub name: &'static str,
    /// Whether this CPU has the tier's instructions.
    pub usable: fn() -> bool,
    /// Batch rows that a tile of a product holds, by which the 8-bit form of rows is grouped.
    pub tile: usize,
    /// By `Layout as usize`.
    pub matmul: [MatmulFn; Layout::COUNT],
    /// Multiplies across rows of packed integers, some runs of 32 outputs: see [`AcrossTask`].
    pub across: unsafe fn(&AcrossTask<'_>, Range<usize>),
    /// One row of f32 to 8 bits: see [`crate::act`].
    pub quantise: unsafe fn(&[f32], QuantRow<'_>),
    /// `x = norm(x)`, weights and biases as long.
    pub norm: unsafe fn(&Norm<'_>, &mut [f32]),
    /// `x = y·scale + x`, one fused multiply-add an element, equal lengths.
    pub add: unsafe fn(&[f32], f32, &mut [f32]),
    /// Rotates the leading `2·cos.len()` elements of one head: head, cos, sin.
    pub rope: unsafe fn(RopeLayout, &mut [f32], &[f32], &[f32]),
    /// `out = act(gate)·up`; an empty `up` is all ones.
    pub glu: unsafe fn(Glu, &[f32], &[f32], &mut [f32]),
    /// `x = cap·tanh(x / cap)`.
    pub softcap: unsafe fn(&mut [f32], f32),
    /// One K/V page's share of one query's attention: see [`crate::kv`].
    pub attend_page: unsafe fn(&PageTask<'_>),
    /// Joins a page's share to the running result: see [`crate::kv`].
    pub merge: unsafe fn(MergeTask<'_>),
    /// Scores of a page's positions: see [`crate::kv`].
    pub index_page: unsafe fn(&IndexTask<'_>, &mut [f32; PAGE]),
    /// `out = gate(x)`, equal lengths, the gate's parameters too.
    pub gate: unsafe fn(Gate<'_>, &[f32], &mut [f32]),
    /// Some channels of one run through the causal convolution.
    pub conv: unsafe fn(&ConvTask<'_>),
    /// Some channels of one run through the selective scan.
    pub selective: unsafe fn(&SelectiveTask<'_>),
    /// One head of one run through a linear state.
    pub linear_state: unsafe fn(&LinearStateTask<'_>),
    /// One head of one run through the delta rule.
    pub delta: unsafe fn(&DeltaTask<'_>),
    /// Some channels of one run through the gated linear recurrent unit.
    pub rg_lru: unsafe fn(&RgLruTask<'_>),
}

/// All tiers of this architecture, fastest first by measurement. The last is the scalar tier,
/// which is the definition of every number and usable everywhere.
pub static TIERS: &[&Kernels] = isa::TIERS;

impl Kernels {
    /// The fastest tier that this CPU can run.
    pub fn best() -> &'static Kernels {
        TIERS.iter().find(|t| (t.usable)()).copied().unwrap_or(&isa::scalar::KERNELS)
    }

    /// The tier called `name`, if this CPU can run it.
    ///
    /// # Errors
    /// The names that would be accepted here.
    pub fn named(name: &str) -> Result<&'static Kernels, Vec<&'static str>> {
        let usable = || TIERS.iter().filter(|t| (t.usable)());
        usable().find(|t| t.name == name).copied().ok_or_else(|| usable().map(|t| t.name).collect())
    }
}
