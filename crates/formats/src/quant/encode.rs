//! From floats to blocks: what is rounded is chosen so that the weighted square error is least.
use super::{DType, NotWritten};
use half::{bf16, f16};

/// Appends whole blocks.
type Encode = fn(&[f32], &mut Vec<u8>);

/// How a format is written, if it is.
fn encoder(dtype: DType) -> Option<Encode> {
    Some(match dtype {
        DType::F32 => |x, out| x.iter().for_each(|x| out.extend(x.to_le_bytes())),
        DType::F16 => |x, out| x.iter().for_each(|x| out.extend(f16::from_f32(*x).to_le_bytes())),
        DType::Bf16 => |x, out| x.iter().for_each(|x| out.extend(bf16::from_f32(*x).to_le_bytes())),
        DType::Q8_0 => |x, out| each(x, out, q8_0),
        DType::Q4_0 => |x, out| each(x, out, q4_0),
        _ => return None,
    })
}

/// Appends `x` as whole blocks of a type.
///
/// # Errors
/// If the type is not written.
///
/// # Panics
/// If `x` is no whole number of blocks.
pub fn quantise(dtype: DType, x: &[f32], out: &mut Vec<u8>) -> Result<(), NotWritten> {
    let format = dtype.format();
    assert!(x.len().is_multiple_of(format.elems), "{} elements of {}", x.len(), format.name);
    encoder(dtype).ok_or(NotWritten(format.name))?(x, out);
    Ok(())
}

fn each<const N: usize>(x: &[f32], out: &mut Vec<u8>, block: fn(&[f32; 32]) -> [u8; N]) {
    x.as_chunks().0.iter().for_each(|x| out.extend(block(x)));
}

/// d, 32 signed bytes.
fn q8_0(x: &[f32; 32]) -> [u8; 34] {
    let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
    let d = f16::from_f32(most / 127.0);
    let inverse = if d.to_f32() > 0.0 { 1.0 / d.to_f32() } else { 0.0 };
    let mut out = [0; 34];
    out[..2].copy_from_slice(&d.to_le_bytes());
    for (out, x) in out[2..].iter_mut().zip(x) {
        *out = (x * inverse).round_ties_even().clamp(-127.0, 127.0) as i8 as u8;
    }
    out
}

/// d, 16 bytes of nibbles: codes from -8 to 7, biased by 8.
fn q4_0(x: &[f32; 32]) -> [u8; 18] {
    let (d, q) = least_squares(x, -8.0, 7.0);
    let mut out = [0; 18];
    out[..2].copy_from_slice(&d.to_le_bytes());
    for (i, out) in out[2..].iter_mut().enumerate() {
        *out = (q[i] + 8) as u8 | ((q[i + 16] + 8) as u8) << 4;
    }
    out
}

/// Candidates for the largest element's code, around the end of the range that it points to.
const CANDIDATES: std::ops::RangeInclusive<i32> = -9..=9;

/// The scale and the codes within `low..=high` that come nearest to `x`, each element weighted by
/// its square, over some choices of the code of the largest.
fn least_squares(x: &[f32; 32], low: f32, high: f32) -> (f16, [i8; 32]) {
    let by_size = |a: &&f32, b: &&f32| a.abs().total_cmp(&b.abs());
    let largest = x.iter().max_by(by_size).copied().unwrap_or(0.0);
    if largest == 0.0 || !largest.is_finite() {
        return (f16::from_f32(largest), [0; 32]);
    }
    let codes = |inverse: f32| x.map(|x| (x * inverse).round_ties_even().clamp(low, high));
    let mut best = (0.0, 0.0);
    for step in CANDIDATES {
        let code = codes((low + 0.1 * step as f32) / largest);
        let weighted = |of: fn(f32, f32) -> f32| -> f32 {
            x.iter().zip(code).map(|(x, q)| x * x * of(*x, q)).sum()
        };
        let (along, square) = (weighted(|x, q| x * q), weighted(|_, q| q * q));
        // What a scale of `along / square` takes off the error.
        let gain = along * along / square;
        if square > 0.0 && gain > best.0 {
            best = (gain, along / square);
        }
    }
    let d = f16::from_f32(best.1);
    let inverse = if d.to_f32() == 0.0 { 0.0 } else { 1.0 / d.to_f32() };
    (d, codes(inverse).map(|q| q as i8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::dequantise;

    /// A seeded block.
    fn block(seed: u32) -> [f32; 32] {
        let mut state = seed;
        std::array::from_fn(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
    }

    fn error(dtype: DType, x: &[f32]) -> f32 {
        let (mut bytes, mut y) = (Vec::new(), vec![0.0; x.len()]);
        quantise(dtype, x, &mut bytes).expect("a written type");
        dequantise(dtype, &bytes, &mut y).expect("a type of weights");
        let square: f32 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
        (square / x.len() as f32).sqrt()
    }

    /// Root mean square errors of numbers spread evenly over ±1: half-steps of each type.
    #[test]
    fn errors_are_small() {
        for (dtype, most) in [
            (DType::F32, 0.0),
            (DType::F16, 2e-4),
            (DType::Bf16, 2e-3),
            (DType::Q8_0, 2.6e-3),
            (DType::Q4_0, 4.5e-2),
        ] {
            let all: Vec<f32> = (0..64).flat_map(block).collect();
            let found = error(dtype, &all);
            assert!(found <= most, "{dtype:?}: {found}");
        }
    }

    /// The plain rule puts the largest element at -8; ours is nowhere worse, weighted by squares.
    #[test]
    fn least_squares_are_least() {
        for seed in 0..200 {
            let x = block(seed);
            let weighted = |d: f32, q: [f32; 32]| -> f32 {
                x.iter().zip(q).map(|(x, q)| x * x * (x - d * q) * (x - d * q)).sum()
            };
            let largest =
                x.iter().copied().fold(0f32, |a, b| if b.abs() > a.abs() { b } else { a });
            let plain = largest / -8.0;
            let plain = weighted(plain, x.map(|x| (x / plain).round_ties_even().clamp(-8.0, 7.0)));
            let (d, q) = least_squares(&x, -8.0, 7.0);
            let ours = weighted(d.to_f32(), q.map(f32::from));
            assert!(ours <= plain * 1.001, "block {seed}: {ours} against {plain}");
        }
    }

    #[test]
    fn odd_blocks() {
        assert_eq!(error(DType::Q4_0, &[0.0; 32]), 0.0);
        assert_eq!(error(DType::Q8_0, &[0.0; 32]), 0.0);
        assert!(error(DType::Q4_0, &[1e-9; 32]) <= 1e-9);
        assert_eq!(quantise(DType::Q6_K, &[0.0; 256], &mut Vec::new()), Err(NotWritten("Q6_K")));
    }
}
