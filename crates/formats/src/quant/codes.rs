//! A row as the integers and scales that kernels compute with.
use super::folder::from_e4m3;
use super::values::{self, FP4, NF4};
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

/// What codes mean: `x` is an element, `q` its code, `d`, `m` and `scale` belong to its block, `s`
/// and `t` to its sub-block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packs {
    /// `f32`.
    F32,
    /// `half`, as IEEE half.
    F16,
    /// `half`, as bfloat16.
    Bf16,
    /// `d·(q - 128)`; blocks of 32.
    W8,
    /// `scale·(q - 128)`; blocks of 32.
    W8F,
    /// `d·(q - z)`, 8 bits; blocks of 32.
    W8Z,
    /// `scale·(q - z)`, 8 bits; blocks of 32.
    W8FZ,
    /// The same; blocks of 16, in twos.
    W8H,
    /// `scale·e(q)`, codes being E4M3s; blocks of 32. A block with one that is no number has none for its
    /// scale.
    W8E,
    /// `d·(q - 1)`, 2 bits; blocks of 32.
    W2,
    /// `d·(q - 8)`; blocks of 32.
    W4,
    /// `d·(q - z)`, 4 bits; blocks of 32.
    W4Z,
    /// The same, `d` being a bfloat16.
    W4B,
    /// `scale·(q - z)`, 4 bits; blocks of 16, in twos.
    W4H,
    /// `scale·t(q)`, codes being bitsandbytes' NF4; blocks of 32.
    W4N,
    /// The same of its FP4.
    W4P,
    /// `d·t(q)`, codes being IQ4's; blocks of 32.
    W4L,
    /// `d·t(q)`, codes being E2M1s, of which `t` is twice the value, `d` a bfloat16; blocks of 32.
    W4E,
    /// The same, `d` being an f16; blocks of 16, in twos.
    W4V,
    /// `d·q + m`, 4 bits; blocks of 32.
    W4M,
    /// `d·(q - 16)`; blocks of 32.
    W5,
    /// `d·q + m`, 5 bits; blocks of 32.
    W5M,
    /// `d·s·q - m·t`, 2 bits; blocks of 256, sub-blocks of 16.
    W2K,
    /// `d·s·q - m·t`, 4 bits; blocks of 256, sub-blocks of 32.
    W4K,
    /// `d·s·q - m·t`, 5 bits; blocks of 256, sub-blocks of 32.
    W5K,
    /// `d·s·(q - 32)`, `s` signed; blocks of 256, sub-blocks of 16.
    W6K,
    /// `d·s·(q - 4)`, 3 bits, `s` signed; blocks of 256, sub-blocks of 16.
    W3K,
    /// `d·(2s + 1)/8·t(q)`, codes being IQ1's; blocks of 256, sub-blocks of 16.
    W3I1,
    /// The same, codes being IQ2's.
    W3I2,
    /// `d·(2s + 1)/4·t(q)`, codes being IQ3_XXS's; blocks of 256, sub-blocks of 16.
    W4I3,
    /// `d·(2s + 1)·t(q)`, codes being IQ3_S's; blocks of 256, sub-blocks of 16.
    W4I3S,
    /// `d·s·t(q)`, `s` signed, codes being IQ4's; blocks of 256, sub-blocks of 32.
    W4I4,
}

/// One row. Which lists have elements follows from [`Packs`]; the others are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Codes {
    /// One unsigned code an element, bias included.
    pub q: Vec<u8>,
    /// f16 bits (bfloat16 in W4B and W4E), one a block.
    pub d: Vec<u16>,
    /// f16 bits, one a block.
    pub m: Vec<u16>,
    /// One a sub-block; in W6K, W3K and W4I4 an `i8`'s bits.
    pub s: Vec<u8>,
    /// One a sub-block.
    pub t: Vec<u8>,
    /// One a block.
    pub z: Vec<u16>,
    /// One a block.
    pub scale: Vec<f32>,
    /// The elements themselves.
    pub f32: Vec<f32>,
    /// The elements themselves, as bits.
    pub half: Vec<u16>,
}

impl Codes {
    /// Gives every list its length for `cols` elements. What the lists hold is left as it is.
    pub(super) fn reset(&mut self, packs: Packs, cols: usize) {
        let (mut q, mut d, mut m, mut s, mut t) = (cols, 0, 0, 0, 0);
        let (mut z, mut scale, mut f32, mut half) = (0, 0, 0, 0);
        match packs {
            Packs::F32 => (q, f32) = (0, cols),
            Packs::F16 | Packs::Bf16 => (q, half) = (0, cols),
            Packs::W8F | Packs::W8E | Packs::W4N | Packs::W4P => scale = cols / 32,
            Packs::W8FZ => (scale, z) = (cols / 32, cols / 32),
            Packs::W8H | Packs::W4H => (scale, z) = (cols / 16, cols / 16),
            Packs::W8Z | Packs::W4Z | Packs::W4B => (d, z) = (cols / 32, cols / 32),
            Packs::W8 | Packs::W2 | Packs::W4 | Packs::W5 => d = cols / 32,
            Packs::W4L | Packs::W4E => d = cols / 32,
            Packs::W4V => d = cols / 16,
            Packs::W4M | Packs::W5M => (d, m) = (cols / 32, cols / 32),
            Packs::W2K => (d, m, s, t) = (cols / 256, cols / 256, cols / 16, cols / 16),
            Packs::W4K | Packs::W5K => {
                (d, m, s, t) = (cols / 256, cols / 256, cols / 32, cols / 32)
            }
            Packs::W6K | Packs::W3K | Packs::W3I1 | Packs::W3I2 | Packs::W4I3 | Packs::W4I3S => {
                (d, s) = (cols / 256, cols / 16)
            }
            Packs::W4I4 => (d, s) = (cols / 256, cols / 32),
        }
        self.q.resize(q, 0);
        self.d.resize(d, 0);
        self.m.resize(m, 0);
        self.s.resize(s, 0);
        self.t.resize(t, 0);
        self.z.resize(z, 0);
        self.scale.resize(scale, 0.0);
        self.f32.resize(f32, 0.0);
        self.half.resize(half, 0);
    }

    /// The elements, by the formula at [`Packs`], each product and difference rounded.
    pub(super) fn floats(&self, packs: Packs, out: &mut [f32]) {
        match packs {
            Packs::F32 => out.copy_from_slice(&self.f32),
            Packs::F16 => self.half.reinterpret_cast::<f16>().convert_to_f32_slice(out),
            Packs::Bf16 => each(out, &self.half, |h| f32::from_bits(u32::from(h) << 16)),
            Packs::W8 => self.scaled(out, widened(&self.d), 128),
            Packs::W8F => self.scaled(out, self.scale.iter().copied(), 128),
            Packs::W8E => self.floating(out),
            Packs::W4N => self.listed::<32, _>(out, self.scale.iter().copied(), &NF4),
            Packs::W4P => self.listed::<32, _>(out, self.scale.iter().copied(), &FP4),
            Packs::W4L => self.listed::<32, _>(out, widened(&self.d), &values::IQ4),
            Packs::W4E => self.listed::<32, _>(out, brains(&self.d), &values::E2M1),
            Packs::W4V => self.listed::<16, _>(out, widened(&self.d), &values::E2M1),
            Packs::W3I1 => self.listed::<16, _>(out, self.odd(0.125), &values::IQ1),
            Packs::W3I2 => self.listed::<16, _>(out, self.odd(0.125), &values::IQ2),
            Packs::W4I3 => self.listed::<16, _>(out, self.odd(0.25), &values::IQ3_XXS),
            Packs::W4I3S => self.listed::<16, _>(out, self.odd(1.0), &values::IQ3_S),
            Packs::W4I4 => {
                let scales = self.subs::<8>().map(|(d, s)| d * f32::from(s as i8));
                self.listed::<32, _>(out, scales, &values::IQ4);
            }
            Packs::W8FZ => self.zeroed::<32>(out, self.scale.iter().copied()),
            Packs::W8H | Packs::W4H => self.zeroed::<16>(out, self.scale.iter().copied()),
            Packs::W8Z | Packs::W4Z => self.zeroed::<32>(out, widened(&self.d)),
            Packs::W4B => self.zeroed::<32>(out, brains(&self.d)),
            Packs::W2 => self.scaled(out, widened(&self.d), 1),
            Packs::W4 => self.scaled(out, widened(&self.d), 8),
            Packs::W5 => self.scaled(out, widened(&self.d), 16),
            Packs::W4M | Packs::W5M => self.shifted(out),
            Packs::W2K => self.doubly_shifted::<16>(out),
            Packs::W4K | Packs::W5K => self.doubly_shifted::<32>(out),
            Packs::W6K => self.doubly_scaled(out, 32),
            Packs::W3K => self.doubly_scaled(out, 4),
        }
    }
    fn scaled(&self, out: &mut [f32], scales: impl Iterator<Item = f32>, bias: i32) {
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(self.q.as_chunks::<32>().0);
        for ((out, q), d) in blocks.zip(scales) {
            each(out, q, |q| d * (i32::from(q) - bias) as f32);
        }
    }
    fn zeroed<const N: usize>(&self, out: &mut [f32], scales: impl Iterator<Item = f32>) {
        let blocks = out.as_chunks_mut::<N>().0.iter_mut().zip(self.q.as_chunks::<N>().0);
        for ((out, q), (d, z)) in blocks.zip(scales.zip(&self.z)) {
            each(out, q, |q| d * (i32::from(q) - i32::from(*z)) as f32);
        }
    }
    fn floating(&self, out: &mut [f32]) {
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(self.q.as_chunks::<32>().0);
        for ((out, q), scale) in blocks.zip(&self.scale) {
            each(out, q, |q| scale * from_e4m3(q));
        }
    }
    fn listed<const N: usize, T: Copy + Into<f32>>(
        &self,
        out: &mut [f32],
        scales: impl Iterator<Item = f32>,
        table: &[T; 16],
    ) {
        let blocks = out.as_chunks_mut::<N>().0.iter_mut().zip(self.q.as_chunks::<N>().0);
        for ((out, q), scale) in blocks.zip(scales) {
            each(out, q, |q| scale * table[usize::from(q & 15)].into());
        }
    }
    /// Scales that are odd numbers of `d` times `unit`.
    fn odd(&self, unit: f32) -> impl Iterator<Item = f32> {
        self.subs::<16>().map(move |(d, s)| d * f32::from(2 * s + 1) * unit)
    }
    /// Every sub-block's `d` and `s`, of which a block has `N`.
    fn subs<const N: usize>(&self) -> impl Iterator<Item = (f32, u8)> {
        let blocks = widened(&self.d).zip(self.s.as_chunks::<N>().0);
        blocks.flat_map(|(d, s)| s.iter().map(move |s| (d, *s)))
    }
    fn shifted(&self, out: &mut [f32]) {
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(self.q.as_chunks::<32>().0);
        for ((out, q), (d, m)) in blocks.zip(widened(&self.d).zip(widened(&self.m))) {
            each(out, q, |q| d * f32::from(q) + m);
        }
    }
    fn doubly_shifted<const SUB: usize>(&self, out: &mut [f32]) {
        let mut subs = out
            .as_chunks_mut::<SUB>()
            .0
            .iter_mut()
            .zip(self.q.as_chunks::<SUB>().0)
            .zip(self.s.iter().zip(&self.t));
        for (d, m) in widened(&self.d).zip(widened(&self.m)) {
            for ((out, q), (s, t)) in subs.by_ref().take(256 / SUB) {
                let (scale, shift) = (d * f32::from(*s), m * f32::from(*t));
                each(out, q, |q| scale * f32::from(q) - shift);
            }
        }
    }
    fn doubly_scaled(&self, out: &mut [f32], bias: i32) {
        let mut subs =
            out.as_chunks_mut::<16>().0.iter_mut().zip(self.q.as_chunks::<16>().0).zip(&self.s);
        for d in widened(&self.d) {
            for ((out, q), s) in subs.by_ref().take(16) {
                let scale = d * f32::from(*s as i8);
                each(out, q, |q| scale * (i32::from(q) - bias) as f32);
            }
        }
    }
}

fn widened(halves: &[u16]) -> impl Iterator<Item = f32> {
    halves.iter().map(|h| f16::from_bits(*h).to_f32())
}

fn brains(halves: &[u16]) -> impl Iterator<Item = f32> {
    halves.iter().map(|h| f32::from_bits(u32::from(*h) << 16))
}

fn each<T: Copy>(out: &mut [f32], from: &[T], read: impl Fn(T) -> f32) {
    for (out, from) in out.iter_mut().zip(from) {
        *out = read(*from);
    }
}
