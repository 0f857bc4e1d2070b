//! Packing: from rows' codes to panels, side by side on a team, in memory that is given back as
//! the rows are done with.
use super::{Layout, PANEL, Packed, codes, float, panel_bytes, scales};
use crate::Team;
use crate::mat::Lent;
use crate::room::Room;
use std::cell::RefCell;
use std::ops::Range;

/// Where a matrix's rows come from.
pub trait Source: Sync {
    /// Replaces `out` by row `i`. It holds another row before, whose memory is used again.
    fn row(&self, i: usize, out: &mut RowCodes);
    /// Called when these rows are packed and will not be asked for again.
    fn packed(&self, _rows: Range<usize>) {}
}

impl<F: Fn(usize, &mut RowCodes) + Sync> Source for F {
    fn row(&self, i: usize, out: &mut RowCodes) {
        self(i, out);
    }
}

/// One row before packing: codes and scales as a checkpoint's format yields them. Which fields a
/// layout reads, and how many elements each has, follows from the formula at [`Layout`]; the others
/// stay empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowCodes {
    /// One unsigned code an input (bias included).
    pub q: Vec<u8>,
    /// f16 bits: `d` per block, in W4V per half; in W4B and W4E a bfloat16's.
    pub d: Vec<u16>,
    /// f16 bits: `m` per block.
    pub m: Vec<u16>,
    /// `s` per sub-block (W6K, W3K, W4I4: an `i8`'s bits).
    pub s: Vec<u8>,
    /// `t` per sub-block.
    pub t: Vec<u8>,
    /// Zeros per block, in W8H and W4H per half: up to 256, of 4 bits up to 255.
    pub z: Vec<u16>,
    /// f32 scales per block, in W8H and W4H per half.
    pub scale: Vec<f32>,
    /// F32's elements.
    pub f32: Vec<f32>,
    /// F16's and BF16's elements, as bits.
    pub half: Vec<u16>,
}

impl RowCodes {
    /// A row of zeros.
    fn zero(&mut self, layout: Layout, cols: usize) {
        let [q, d, m, s, t, z, scale, f32, half] = lengths(layout, cols);
        *self = RowCodes {
            q: vec![0; q],
            d: vec![0; d],
            m: vec![0; m],
            s: vec![0; s],
            t: vec![0; t],
            z: vec![0; z],
            scale: vec![0.0; scale],
            f32: vec![0.0; f32],
            half: vec![0; half],
        };
    }
    /// Elements of each field, in order.
    fn lengths(&self) -> [usize; 9] {
        let RowCodes { q, d, m, s, t, z, scale, f32, half } = self;
        [q.len(), d.len(), m.len(), s.len(), t.len(), z.len(), scale.len(), f32.len(), half.len()]
    }
}

/// Elements that each field of a row's codes has, in their order.
fn lengths(layout: Layout, cols: usize) -> [usize; 9] {
    let (blocks, subs) = (cols / layout.block(), cols / layout.sub());
    match layout {
        Layout::F32 => [0, 0, 0, 0, 0, 0, 0, cols, 0],
        Layout::F16 | Layout::Bf16 => [0, 0, 0, 0, 0, 0, 0, 0, cols],
        Layout::W8F | Layout::W8E | Layout::W4N | Layout::W4P => {
            [cols, 0, 0, 0, 0, 0, blocks, 0, 0]
        }
        Layout::W8FZ | Layout::W8H | Layout::W4H => [cols, 0, 0, 0, 0, subs, subs, 0, 0],
        Layout::W8 | Layout::W8X | Layout::W2 | Layout::W4 | Layout::W5 => {
            [cols, blocks, 0, 0, 0, 0, 0, 0, 0]
        }
        Layout::W4L | Layout::W4E => [cols, blocks, 0, 0, 0, 0, 0, 0, 0],
        Layout::W4V => [cols, subs, 0, 0, 0, 0, 0, 0, 0],
        Layout::W8Z | Layout::W4Z | Layout::W4B => [cols, blocks, 0, 0, 0, blocks, 0, 0, 0],
        Layout::W4M | Layout::W5M => [cols, blocks, blocks, 0, 0, 0, 0, 0, 0],
        Layout::W2K | Layout::W4K | Layout::W5K => [cols, blocks, blocks, subs, subs, 0, 0, 0, 0],
        Layout::W6K | Layout::W3K | Layout::W4I4 => [cols, blocks, 0, subs, 0, 0, 0, 0, 0],
        Layout::W3I1 | Layout::W3I2 | Layout::W4I3 | Layout::W4I3S => {
            [cols, blocks, 0, subs, 0, 0, 0, 0, 0]
        }
    }
}

/// Packed bytes after which a source hears that its rows are done with.
const PART: usize = 2 << 20;

impl Packed {
    /// Packs `rows` rows of `cols` inputs in memory of `room`. Panels are packed side by side on the
    /// team.
    ///
    /// # Panics
    /// If `cols` is no multiple of the layout's block, or a row's codes have the wrong lengths.
    pub fn pack(
        team: &Team,
        room: &Room,
        layout: Layout,
        rows: usize,
        cols: usize,
        source: &impl Source,
    ) -> Packed {
        assert!(cols.is_multiple_of(layout.block()), "{layout:?} of {cols} inputs");
        let mut data = room.take(Packed::size(layout, rows, cols));
        let panel = panel_bytes(layout, cols);
        let part = (PART / panel.max(1)).max(team.threads());
        for (i, bytes) in data.bytes_mut().chunks_mut(part * panel.max(1)).enumerate() {
            let from = i * part * PANEL;
            let until = rows.min(from + part * PANEL);
            let lent = Lent::new(bytes);
            team.run(|worker| {
                let codes = RefCell::new(Codes::default());
                worker.phase((until - from).div_ceil(PANEL), |p| {
                    let rows = from + p * PANEL..until.min(from + (p + 1) * PANEL);
                    // SAFETY: a phase hands out each panel's number once.
                    let panel = unsafe { lent.part(p * panel, panel) };
                    codes.borrow_mut().fill(layout, cols, source, rows).put(layout, cols, panel);
                });
            });
            source.packed(from..until);
        }
        Packed { layout, rows, cols, data: data.into(), order: None }
    }
}

/// The rows of a panel.
#[derive(Default)]
struct Codes([RowCodes; PANEL]);

impl Codes {
    /// Asks for `rows`; those beyond are zeros.
    fn fill(
        &mut self,
        layout: Layout,
        cols: usize,
        source: &impl Source,
        rows: Range<usize>,
    ) -> &Codes {
        for (r, codes) in self.0.iter_mut().enumerate() {
            match rows.start + r {
                i if i < rows.end => source.row(i, codes),
                _ => codes.zero(layout, cols),
            }
            assert_eq!(codes.lengths(), lengths(layout, cols), "{layout:?} of {cols}");
        }
        self
    }
    /// Writes a panel.
    fn put(&self, layout: Layout, cols: usize, panel: &mut [u8]) {
        if layout.floats() {
            return float::put(layout, &self.0, &mut panel[..cols * PANEL / 8 * layout.bits()]);
        }
        let rows = self.0.each_ref().map(|row| row.q.as_chunks().0);
        let each = layout.block() / 32;
        for b in 0..cols / layout.block() {
            let (head, codes) = layout.place(b);
            scales::put(layout, &self.0, b, &mut panel[head..][..layout.head()]);
            let vectors = panel[codes..][..layout.codes()].chunks_exact_mut(64 * layout.bits());
            for (k, out) in (b * each..).zip(vectors) {
                codes::put(layout.bits(), &rows.map(|row| &row[k]), out);
            }
        }
    }
}
