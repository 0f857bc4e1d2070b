//! Integers of several types as those of one that holds all of them without loss: of experts that were
//! quantised in several ways.
use super::zeros::{Run, dtype, put};
use crate::quant::{Codes, codes};
use crate::tensor::DType;
use half::{bf16, f16};

/// What blocks of 32 integers hold.
#[derive(Clone, Copy)]
struct Kind {
    bits: usize,
    /// Whether scales are f16, or else f32.
    short: bool,
    /// Whether all zeros are half of the codes' range.
    middle: bool,
    /// Whether each half has a scale and a zero of its own.
    halves: bool,
}

impl Kind {
    fn of(dtype: DType) -> Option<Kind> {
        let kind = |bits, short, middle, halves| Some(Kind { bits, short, middle, halves });
        match dtype {
            DType::Q4_0 => kind(4, true, true, false),
            DType::Q4_Z => kind(4, true, false, false),
            DType::Q4_B => kind(4, false, false, false),
            DType::Q4_H => kind(4, false, false, true),
            DType::Q8_0 => kind(8, true, true, false),
            DType::Q8_Z => kind(8, true, false, false),
            DType::Q8_F => kind(8, false, true, false),
            DType::Q8_FZ => kind(8, false, false, false),
            DType::Q8_H => kind(8, false, false, true),
            _ => None,
        }
    }
}

/// The smallest type of blocks that holds those of both; none if there is none.
pub fn common(a: DType, b: DType) -> Option<DType> {
    if a == b {
        return Some(a);
    }
    let (a, b) = (Kind::of(a)?, Kind::of(b)?);
    let scales = if a.short && b.short { DType::F16 } else { DType::F32 };
    let run = if a.halves || b.halves { Run::Half } else { Run::Whole };
    Some(dtype(scales, a.bits.max(b.bits), a.middle && b.middle, run))
}

/// Rows of `cols` elements of one type as those of another, which [`common`] has found to hold them.
pub fn recast(from: DType, to: DType, rows: &[u8], cols: usize) -> Vec<u8> {
    let stride = cols / from.format().elems * from.format().bytes;
    let (mut row, mut out) = (Codes::default(), Vec::new());
    let Some(kind) = Kind::of(from).filter(|_| from != to && stride > 0) else {
        return rows.to_vec();
    };
    for bytes in rows.chunks_exact(stride) {
        codes(from, bytes, cols, &mut row).expect("a type with codes");
        for (b, q) in row.q.chunks_exact(32).enumerate() {
            let half = |h: usize| {
                let at = if kind.halves { 2 * b + h } else { b };
                let scale = match row.d.get(at) {
                    Some(d) if kind.short => f16::from_bits(*d).to_f32(),
                    Some(d) => bf16::from_bits(*d).to_f32(),
                    None => row.scale[at],
                };
                let middle = 1 << (kind.bits - 1);
                (scale, row.z.get(at).map_or(middle, |z| i32::from(*z)))
            };
            put(to, q, [half(0), half(1)], &mut out);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::dequantise;

    const TYPES: [DType; 9] = [
        DType::Q4_0,
        DType::Q4_Z,
        DType::Q4_B,
        DType::Q4_H,
        DType::Q8_0,
        DType::Q8_Z,
        DType::Q8_F,
        DType::Q8_FZ,
        DType::Q8_H,
    ];

    /// Three rows of two blocks, with scales that are numbers and zeros in the codes' range.
    fn rows(dtype: DType) -> Vec<u8> {
        let kind = Kind::of(dtype).expect("integers");
        let mut out = Vec::new();
        for b in 0..6u8 {
            let q: Vec<u8> = (0..32u8).map(|k| k.wrapping_mul(37) ^ b.wrapping_mul(91)).collect();
            let q: Vec<u8> = q.iter().map(|q| q & ((1 << kind.bits) - 1) as u8).collect();
            let middle = 1 << (kind.bits - 1);
            let scale = f32::from(b) * 0.375 - 1.0;
            let scale = if kind.short || dtype == DType::Q4_B { scale } else { scale / 3.0 };
            let zero = if kind.middle { middle } else { i32::from(b) };
            let second = if kind.halves { (scale * 0.7, zero + 1) } else { (scale, zero) };
            put(dtype, &q, [(scale, zero), second], &mut out);
        }
        out
    }

    #[test]
    fn one_type_holds_two() {
        let floats = |dtype, bytes: &[u8]| {
            let mut out = vec![0.0; 3 * 64];
            dequantise(dtype, bytes, &mut out).expect("weights");
            out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        for a in TYPES {
            for b in TYPES {
                let both = common(a, b).expect("a type");
                assert_eq!(Some(both), common(b, a), "{a:?} and {b:?}");
                let rows = rows(a);
                for c in TYPES {
                    let all = common(both, c).expect("a type");
                    assert_eq!(common(all, a), Some(all), "{a:?} {b:?} {c:?}");
                    let made = recast(a, all, &rows, 64);
                    assert!(floats(all, &made) == floats(a, &rows), "{a:?} as {all:?}");
                }
            }
        }
        assert_eq!(common(DType::Q4_0, DType::Q8_0), Some(DType::Q8_0));
        assert_eq!(common(DType::Q4_0, DType::Q4_Z), Some(DType::Q4_Z));
        assert_eq!(common(DType::F16, DType::F16), Some(DType::F16));
        assert_eq!(common(DType::F16, DType::Q4_0), None);
        assert_eq!(common(DType::Q4_K, DType::Q4_0), None);
    }
}
