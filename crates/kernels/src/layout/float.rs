//! F32, F16 and BF16 panels: 16 rows' elements of one input after another.
use super::{Layout, PANEL, RowCodes};
use half::{bf16, f16};

pub(super) fn put(layout: Layout, rows: &[RowCodes; PANEL], panel: &mut [u8]) {
    match layout {
        Layout::F32 => interleave(rows, panel, |row, k| row.f32[k].to_le_bytes()),
        _ => interleave(rows, panel, |row, k| row.half[k].to_le_bytes()),
    }
}

fn interleave<const N: usize>(
    rows: &[RowCodes; PANEL],
    panel: &mut [u8],
    element: impl Fn(&RowCodes, usize) -> [u8; N],
) {
    for (k, input) in panel.chunks_exact_mut(N * PANEL).enumerate() {
        let (lanes, _) = input.as_chunks_mut::<N>();
        for (lane, row) in lanes.iter_mut().zip(rows) {
            *lane = element(row, k);
        }
    }
}

pub(super) fn get(layout: Layout, panel: &[u8], r: usize, out: &mut [f32]) {
    match layout {
        Layout::F32 => extract(panel, r, out, f32::from_le_bytes),
        Layout::F16 => extract(panel, r, out, |b| f16::from_le_bytes(b).to_f32()),
        _ => extract(panel, r, out, |b| bf16::from_le_bytes(b).to_f32()),
    }
}

fn extract<const N: usize>(panel: &[u8], r: usize, out: &mut [f32], f: impl Fn([u8; N]) -> f32) {
    for (input, out) in panel.chunks_exact(N * PANEL).zip(out) {
        *out = f(input.as_chunks().0[r]);
    }
}
