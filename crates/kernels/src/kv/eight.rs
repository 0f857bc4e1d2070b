//! Pages in 8 bits: two packed matrices of [`Layout::W8`] for each K/V head, so that attention's
//! products are the weights'.
//!
//! - Keys: `[64 positions, k_dim]`, a position's scale f16 per 32 channels, filled up with what
//!   counts for nothing where `k_dim` is no multiple of 32.
//! - Values: `[v_dim, 64 positions]`, all scales 1; then an f32 scale for each position, of its
//!   whole head. It multiplies the position's weight before that is brought to 8 bits.
//!
//! A position's codes and scales depend on its own key and value alone.
use super::{KvShape, PAGE};
use crate::act::SMALLEST;
use crate::layout::{Layout, PANEL, panel_bytes};
use half::f16;
use std::ops::Range;

/// Inputs to a block of the layout.
const BLOCK: usize = Layout::W8.block();
/// What a code is biased by.
const BIAS: i32 = Layout::W8.offset();

/// What is added to it and taken away again is rounded to a whole number, ties to even ones; by an
/// instruction that every CPU has.
const ROUND: f32 = 1.5 * (1 << 23) as f32;

/// Where a head's parts lie in a page.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    k_dim: usize,
    v_dim: usize,
}

impl Head {
    pub(crate) const fn of(shape: KvShape) -> Head {
        Head { k_dim: shape.k_dim, v_dim: shape.v_dim }
    }
    /// Inputs of the keys' matrix.
    pub(crate) const fn key_inputs(self) -> usize {
        self.k_dim.next_multiple_of(BLOCK)
    }
    /// Bytes of the keys.
    pub(crate) const fn keys(self) -> usize {
        PAGE / PANEL * panel_bytes(Layout::W8, self.key_inputs())
    }
    /// Bytes of the values' codes.
    pub(crate) const fn values(self) -> usize {
        self.v_dim.div_ceil(PANEL) * panel_bytes(Layout::W8, PAGE)
    }
    /// Bytes of all.
    pub(crate) const fn bytes(self) -> usize {
        self.keys() + self.values() + PAGE * size_of::<f32>()
    }
    /// What a position's key has in block `b`: its scale, and its first four codes, the others
    /// following four by four in steps of a vector.
    const fn key(self, position: usize, b: usize) -> (usize, usize) {
        let panel = position / PANEL * panel_bytes(Layout::W8, self.key_inputs());
        let (head, codes) = Layout::W8.place(b);
        let lane = position % PANEL;
        (panel + head + 2 * lane, panel + codes + 4 * lane)
    }
    /// The code of a position's value in a channel, from the values' first on.
    const fn value(self, position: usize, channel: usize) -> usize {
        let panel = channel / PANEL * panel_bytes(Layout::W8, PAGE);
        let (_, codes) = Layout::W8.place(position / BLOCK);
        let group = position % BLOCK / 4;
        panel + codes + VECTOR * group + 4 * (channel % PANEL) + position % 4
    }
    /// Bytes that a position's own scales and codes take.
    pub(crate) const fn position(self) -> usize {
        let blocks = self.key_inputs() / BLOCK;
        blocks * (2 + BLOCK) + self.v_dim + size_of::<f32>()
    }
    /// Where these lie in the head's part of a page.
    pub(crate) fn used(self, position: usize) -> impl Iterator<Item = Range<usize>> {
        let keys = (0..self.key_inputs() / BLOCK).flat_map(move |b| {
            let (scale, codes) = self.key(position, b);
            let codes = (0..BLOCK / 4).map(move |g| (codes + VECTOR * g, 4));
            std::iter::once((scale, 2)).chain(codes)
        });
        let values = (0..self.v_dim).map(move |c| (self.keys() + self.value(position, c), 1));
        let scale = (self.keys() + self.values() + 4 * position, 4);
        keys.chain(values).chain([scale]).map(|(from, len)| from..from + len)
    }
}

/// Bytes to four inputs of a panel.
const VECTOR: usize = 4 * PANEL;

/// Writes some channels, from block `first` on, of a position's key.
///
/// # Safety
/// `keys` is such a head's keys, and these channels are nobody else's meanwhile.
pub(crate) unsafe fn put_key(keys: *mut u8, head: Head, position: usize, first: usize, x: &[f32]) {
    for (b, x) in x.chunks(BLOCK).enumerate() {
        let (scale, inverse) = scales(x);
        let (to_scale, to_codes) = head.key(position, first + b);
        let mut codes = [BIAS as u8; BLOCK];
        codes.iter_mut().zip(x).for_each(|(code, x)| *code = biased(*x, inverse));
        // SAFETY: the caller's promise; the places lie within the keys.
        unsafe {
            keys.add(to_scale).cast::<[u8; 2]>().write(f16::from_f32(scale).to_le_bytes());
            for (g, four) in codes.as_chunks::<4>().0.iter().enumerate() {
                keys.add(to_codes + VECTOR * g).cast::<[u8; 4]>().write(*four);
            }
        }
    }
}

/// Writes a position's value; the page's first one makes the matrix' scales.
///
/// # Safety
/// `values` is such a head's values, and nobody else's meanwhile.
pub(crate) unsafe fn put_value(values: *mut u8, head: Head, position: usize, x: &[f32]) {
    if position == 0 {
        // SAFETY: the caller's promise.
        unsafe { begin(values, head) };
    }
    let (scale, inverse) = scales(x);
    // SAFETY: the caller's promise; the places lie within the values.
    unsafe {
        for (channel, x) in x.iter().enumerate() {
            values.add(head.value(position, channel)).write(biased(*x, inverse));
        }
        values.add(head.values()).cast::<f32>().add(position).write(scale);
    }
}

/// Makes the scales of the values' matrix.
///
/// # Safety
/// As [`put_value`].
pub(crate) unsafe fn begin(values: *mut u8, head: Head) {
    for panel in 0..head.v_dim.div_ceil(PANEL) {
        for b in 0..PAGE / BLOCK {
            let at = panel * panel_bytes(Layout::W8, PAGE) + Layout::W8.place(b).0;
            // SAFETY: the caller's promise.
            unsafe {
                values.add(at).cast::<[[u8; 2]; PANEL]>().write([f16::ONE.to_le_bytes(); 16])
            };
        }
    }
}

/// What a code is multiplied by, and what makes one. What is no number shows in the scale.
fn scales(x: &[f32]) -> (f32, f32) {
    let wide = |most: f32, x: &f32| if x.is_finite() { most.max(x.abs()) } else { f32::NAN };
    let most = x.iter().fold(0.0, |most: f32, x| if most.is_nan() { most } else { wide(most, x) });
    match most {
        most if most.is_nan() => (f32::NAN, 0.0),
        most if most < SMALLEST => (0.0, 0.0),
        most => (most / 127.0, 127.0 / most),
    }
}

fn biased(x: f32, inverse: f32) -> u8 {
    // What is no number counts as zero here.
    ((x * inverse + ROUND - ROUND) as i32 + BIAS) as u8
}
