//! Products with packed integers across their rows: a lane is an input, and an output is the sum of
//! lanes at last.
//!
//! Lane `r` of an output adds up inputs `r`, `16 + r` and so on, each by one fused multiply-add; then the
//! lanes are joined, those eight apart first.
use crate::isa::Isa;
use crate::layout::{PANEL, Wide};
use crate::ops::AcrossTask;
use std::ops::Range;

/// Batch rows for which weights are widened once.
const TILE: usize = 32;
/// Panels that are widened at a time.
const PANELS: usize = 8;

/// Of 32 outputs, what their lanes have added up.
type Sums = [[f32; PANEL]; 32];

#[inline(always)]
pub(crate) unsafe fn across<S: Isa>(t: &AcrossTask<'_>, runs: Range<usize>) {
    let (rows, panels) = (t.input.rows(), t.weights.rows().div_ceil(PANEL));
    let mut wide: [Wide; PANELS] = [[[0.0; PANEL]; 32]; PANELS];
    let mut sums: [Sums; TILE] = [[[0.0; PANEL]; 32]; TILE];
    for (run, first) in runs.flat_map(|run| (0..rows).step_by(TILE).map(move |row| (run, row))) {
        let sums = &mut sums[..TILE.min(rows - first)];
        sums.fill([[0.0; PANEL]; 32]);
        for from in (0..panels).step_by(PANELS) {
            let wide = &mut wide[..PANELS.min(panels - from)];
            for (p, wide) in wide.iter_mut().enumerate() {
                t.weights.wide(from + p, run, wide);
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: passed on: nobody writes the input meanwhile, and the CPU has the set.
                unsafe { add::<S>(wide, &t.input.row(first + i)[PANEL * from..], sums) };
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            // SAFETY: these outputs are this task's, and the CPU has the set.
            unsafe {
                let out = t.out.part(first + i, 32 * run, 32);
                for (out, lanes) in out.iter_mut().zip(sums) {
                    *out = joined::<S>(lanes);
                }
            }
        }
    }
}

/// Adds to each output's lanes their inputs of some panels, from the first element of `x` on.
#[inline(always)]
unsafe fn add<S: Isa>(wide: &[Wide], x: &[f32], sums: &mut Sums) {
    let mut padded = [0.0; PANEL * PANELS];
    let count = x.len().min(padded.len());
    padded[..count].copy_from_slice(&x[..count]);
    // SAFETY: the caller's promise: the CPU has the set.
    unsafe {
        match wide.as_array() {
            // A number that the compiler knows keeps the inputs in registers.
            Some(wide) => add_all::<S, PANELS>(wide, &padded, sums),
            None => {
                for (p, wide) in wide.iter().enumerate() {
                    add_all::<S, 1>(std::array::from_ref(wide), &padded[PANEL * p..], sums);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn add_all<S: Isa, const P: usize>(wide: &[Wide; P], x: &[f32], sums: &mut Sums) {
    for at in (0..PANEL).step_by(S::LANES) {
        // SAFETY: the CPU has the set, vectors end within the sixteen of a panel.
        unsafe {
            let mut inputs = [S::splat(0.0); P];
            for (p, input) in inputs.iter_mut().enumerate() {
                *input = S::load(x[PANEL * p..][..PANEL].as_ptr().add(at));
            }
            for (k, sum) in sums.iter_mut().enumerate() {
                let to = sum.as_mut_ptr().add(at);
                let mut lanes = S::load(to);
                for p in 0..P {
                    lanes = S::fma(S::load(wide[p][k].as_ptr().add(at)), inputs[p], lanes);
                }
                S::store(to, lanes);
            }
        }
    }
}

/// The sum of all lanes: first those eight apart are added, then those four, two and one apart.
#[inline(always)]
unsafe fn joined<S: Isa>(lanes: &[f32; PANEL]) -> f32 {
    // SAFETY: the CPU has the set; vectors that would begin beyond the sixteen are not read.
    unsafe {
        let at = |i: usize| if i * S::LANES < PANEL { i * S::LANES } else { 0 };
        let mut vectors = [S::splat(0.0); 4];
        for (i, vector) in vectors.iter_mut().enumerate() {
            *vector = S::load(lanes.as_ptr().add(at(i)));
        }
        S::sum_16(vectors)
    }
}
