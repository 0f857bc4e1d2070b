//! A panel's weights as floats, 32 inputs of all its rows at a time.
use super::packed::value;
use super::{Layout, PANEL, Panels, codes, scales};

/// Of 32 inputs, each row's weight.
pub(crate) type Wide = [[f32; PANEL]; 32];

impl Panels<'_> {
    /// Inputs `32·run` and on of panel `p`, of a layout of integers: the numbers of
    /// [`Packed::row`](super::Packed::row).
    #[inline(always)]
    pub(crate) fn wide(self, p: usize, run: usize, out: &mut Wide) {
        let (layout, panel) = (self.layout(), self.panel(p));
        let (block, within) = (32 * run / layout.block(), 32 * run % layout.block());
        let (head, codes) = layout.place(block);
        let (head, vectors) = (&panel[head..], 64 * layout.bits());
        let codes = &panel[codes + within / 32 * vectors..][..vectors];
        let first = within / layout.sub();
        match layout.bits() {
            8 => widened(layout, head, first, &codes::all::<8>(codes), out),
            6 => widened(layout, head, first, &codes::all::<6>(codes), out),
            5 => widened(layout, head, first, &codes::all::<5>(codes), out),
            4 => widened(layout, head, first, &codes::all::<4>(codes), out),
            3 => widened(layout, head, first, &codes::all::<3>(codes), out),
            _ => widened(layout, head, first, &codes::all::<2>(codes), out),
        }
    }
}

/// What `codes` are with their scales, which begin with the `first` sub-block's of a head.
#[inline(always)]
fn widened(layout: Layout, head: &[u8], first: usize, codes: &[[u32; PANEL]; 32], out: &mut Wide) {
    let subs = out.chunks_exact_mut(layout.sub()).zip(codes.chunks_exact(layout.sub()));
    for (j, (out, codes)) in subs.enumerate() {
        let (mut scale, mut min, mut zero) = ([0.0; PANEL], [0.0; PANEL], [0; PANEL]);
        for r in 0..PANEL {
            let head = scales::Head::new(layout, head, r);
            (scale[r], min[r]) = head.affine(first + j);
            zero[r] = head.zero(j);
        }
        for (out, q) in out.iter_mut().zip(codes) {
            let steps = steps(layout, q, &zero);
            for r in 0..PANEL {
                out[r] = scale[r] * steps[r] - min[r];
            }
        }
    }
}

/// What codes stand for, before scales. Only numbers in tables are looked up one by one.
#[inline(always)]
fn steps(layout: Layout, q: &[u32; PANEL], zero: &[i32; PANEL]) -> [f32; PANEL] {
    let plain = layout.table().is_none() && layout.values().is_none() && layout != Layout::W8E;
    match plain {
        true => std::array::from_fn(|r| (q[r] as i32 - zero[r]) as f32),
        false => std::array::from_fn(|r| value(layout, q[r] as u8, zero[r])),
    }
}
