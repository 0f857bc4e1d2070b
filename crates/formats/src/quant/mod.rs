//! Block formats: how many elements a block holds, in how many bytes, and what they mean.
//!
//! A format either yields [`Codes`], the integers and scales that kernels compute with, or only
//! floats. Both are exact: floats equal llama.cpp's bit for bit, and codes give the same floats.
mod bits;
mod codes;
mod encode;
mod float;
mod folder;
mod fp4;
mod grid;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod k;
mod legacy;
mod ternary;
mod values;

pub use codes::{Codes, Packs};
pub use encode::quantise;
pub(crate) use folder::from_e4m3;
pub(crate) use values::{FP4, NF4};

use crate::tensor::DType;

/// A storage format of GGUF or safetensors.
#[derive(Debug)]
pub struct Format {
    /// The type.
    pub dtype: DType,
    /// The field's name for it.
    pub name: &'static str,
    /// Its number in GGUF, if it has one.
    pub ggml: Option<u32>,
    /// Elements to a block.
    pub elems: usize,
    /// Bytes to a block.
    pub bytes: usize,
    /// How a row is read, if it holds weights.
    decode: Decode,
}

/// How whole blocks are read.
#[derive(Clone, Copy, Debug)]
enum Decode {
    /// As codes, into lists that have the right lengths.
    Codes(Packs, fn(&[u8], &mut Codes)),
    /// As floats.
    Floats(fn(&[u8], &mut [f32])),
    /// Not at all.
    Never,
}
use Decode::{Floats, Never};

/// Every format, one line each.
#[rustfmt::skip]
pub static FORMATS: &[Format] = &[
    //     type            name       ggml id   elems bytes decode
    format(DType::F32,     "F32",     Some(0),     1,   4, coded(Packs::F32, float::f32)),
    format(DType::F16,     "F16",     Some(1),     1,   2, coded(Packs::F16, float::half)),
    format(DType::Q4_0,    "Q4_0",    Some(2),    32,  18, coded(Packs::W4, legacy::q4_0)),
    format(DType::Q4_1,    "Q4_1",    Some(3),    32,  20, coded(Packs::W4M, legacy::q4_1)),
    format(DType::Q5_0,    "Q5_0",    Some(6),    32,  22, coded(Packs::W5, legacy::q5_0)),
    format(DType::Q5_1,    "Q5_1",    Some(7),    32,  24, coded(Packs::W5M, legacy::q5_1)),
    format(DType::Q8_0,    "Q8_0",    Some(8),    32,  34, coded(Packs::W8, legacy::q8_0)),
    format(DType::Q2_K,    "Q2_K",    Some(10),  256,  84, coded(Packs::W2K, k::q2)),
    format(DType::Q3_K,    "Q3_K",    Some(11),  256, 110, coded(Packs::W3K, k::q3)),
    format(DType::Q4_K,    "Q4_K",    Some(12),  256, 144, coded(Packs::W4K, k::q4)),
    format(DType::Q5_K,    "Q5_K",    Some(13),  256, 176, coded(Packs::W5K, k::q5)),
    format(DType::Q6_K,    "Q6_K",    Some(14),  256, 210, coded(Packs::W6K, k::q6)),
    format(DType::Q8_K,    "Q8_K",    Some(15),  256, 292, Never),
    format(DType::IQ2_XXS, "IQ2_XXS", Some(16),  256,  66, coded(Packs::W3I2, iq2::xxs)),
    format(DType::IQ2_XS,  "IQ2_XS",  Some(17),  256,  74, coded(Packs::W3I2, iq2::xs)),
    format(DType::IQ3_XXS, "IQ3_XXS", Some(18),  256,  98, coded(Packs::W4I3, iq3::xxs)),
    format(DType::IQ1_S,   "IQ1_S",   Some(19),  256,  50, coded(Packs::W3I1, iq1::s)),
    format(DType::IQ4_NL,  "IQ4_NL",  Some(20),   32,  18, coded(Packs::W4L, iq4::nl)),
    format(DType::IQ3_S,   "IQ3_S",   Some(21),  256, 110, coded(Packs::W4I3S, iq3::s)),
    format(DType::IQ2_S,   "IQ2_S",   Some(22),  256,  82, coded(Packs::W3I2, iq2::s)),
    format(DType::IQ4_XS,  "IQ4_XS",  Some(23),  256, 136, coded(Packs::W4I4, iq4::xs)),
    format(DType::I8,      "I8",      Some(24),    1,   1, Never),
    format(DType::I16,     "I16",     Some(25),    1,   2, Never),
    format(DType::I32,     "I32",     Some(26),    1,   4, Never),
    format(DType::I64,     "I64",     Some(27),    1,   8, Never),
    format(DType::F64,     "F64",     Some(28),    1,   8, Never),
    format(DType::IQ1_M,   "IQ1_M",   Some(29),  256,  56, coded(Packs::W3I1, iq1::m)),
    format(DType::Bf16,    "BF16",    Some(30),    1,   2, coded(Packs::Bf16, float::half)),
    format(DType::TQ1_0,   "TQ1_0",   Some(34),  256,  54, coded(Packs::W2, ternary::tq1)),
    format(DType::TQ2_0,   "TQ2_0",   Some(35),  256,  66, coded(Packs::W2, ternary::tq2)),
    format(DType::MXFP4,   "MXFP4",   Some(39),   32,  17, coded(Packs::W4E, fp4::mxfp4)),
    format(DType::NVFP4,   "NVFP4",   Some(40),   64,  36, coded(Packs::W4V, fp4::nvfp4)),
    format(DType::Q1_0,    "Q1_0",    Some(41),  128,  18, coded(Packs::W2, ternary::q1)),
    format(DType::Q2_0,    "Q2_0",    Some(42),   64,  18, coded(Packs::W2, ternary::q2)),
    format(DType::U8,      "U8",      None,        1,   1, Never),
    format(DType::Bool,    "BOOL",    None,        1,   1, Never),
    format(DType::F8_E4M3, "F8_E4M3", None,        1,   1, Floats(folder::e4m3)),
    format(DType::Q4_Z,    "Q4_Z",    None,       32,  19, coded(Packs::W4Z, folder::q4_z)),
    format(DType::Q4_B,    "Q4_B",    None,       32,  19, coded(Packs::W4B, folder::q4_z)),
    format(DType::Q8_Z,    "Q8_Z",    None,       32,  36, coded(Packs::W8Z, folder::q8_z)),
    format(DType::Q8_F,    "Q8_F",    None,       32,  36, coded(Packs::W8F, folder::q8_f)),
    format(DType::Q8_E,    "Q8_E",    None,       32,  36, coded(Packs::W8E, folder::q8_f)),
    format(DType::Q8_FZ,   "Q8_FZ",   None,       32,  38, coded(Packs::W8FZ, folder::q8_fz)),
    format(DType::Q8_H,    "Q8_H",    None,       32,  44, coded(Packs::W8H, folder::q8_h)),
    format(DType::Q4_H,    "Q4_H",    None,       32,  26, coded(Packs::W4H, folder::q4_h)),
    format(DType::NF4,     "NF4",     None,       32,  20, coded(Packs::W4N, folder::q4_f)),
    format(DType::FP4,     "FP4",     None,       32,  20, coded(Packs::W4P, folder::q4_f)),
];

const fn format(
    dtype: DType,
    name: &'static str,
    ggml: Option<u32>,
    elems: usize,
    bytes: usize,
    decode: Decode,
) -> Format {
    Format { dtype, name, ggml, elems, bytes, decode }
}
const fn coded(packs: Packs, read: fn(&[u8], &mut Codes)) -> Decode {
    Decode::Codes(packs, read)
}

/// A tensor that holds no weights: integers, truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type {0} stores no weights")]
pub struct NotWeights(pub &'static str);

/// A type that we read and do not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type {0} is read, not written")]
pub struct NotWritten(pub &'static str);

/// Whole blocks as f32.
///
/// # Errors
/// If the type holds no weights.
///
/// # Panics
/// If `bytes` are not the whole blocks of `out`.
pub fn dequantise(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), NotWeights> {
    let format = dtype.format();
    format.expect(bytes, out.len());
    match format.decode {
        Decode::Never => return Err(NotWeights(format.name)),
        Decode::Floats(read) => read(bytes, out),
        Decode::Codes(packs, read) => {
            // As many blocks at a time as stay in the nearest cache.
            let blocks = (4096 / format.elems).max(1);
            let mut codes = Codes::default();
            let parts = bytes.chunks(blocks * format.bytes);
            for (bytes, out) in parts.zip(out.chunks_mut(blocks * format.elems)) {
                codes.reset(packs, out.len());
                read(bytes, &mut codes);
                codes.floats(packs, out);
            }
        }
    }
    Ok(())
}

/// A row of `cols` elements as codes, in lists that are reused; what they mean is returned. A format
/// that has no codes yields floats.
///
/// # Errors
/// If the type holds no weights.
///
/// # Panics
/// If `row` is not the whole blocks of `cols` elements.
pub fn codes(dtype: DType, row: &[u8], cols: usize, out: &mut Codes) -> Result<Packs, NotWeights> {
    let format = dtype.format();
    format.expect(row, cols);
    let packs = format.packs().ok_or(NotWeights(format.name))?;
    out.reset(packs, cols);
    match format.decode {
        Decode::Codes(_, read) => read(row, out),
        Decode::Floats(read) => read(row, &mut out.f32),
        Decode::Never => {}
    }
    Ok(packs)
}

impl Format {
    /// The format with this number in GGUF.
    pub fn of_ggml(id: u32) -> Option<&'static Format> {
        FORMATS.iter().find(|f| f.ggml == Some(id))
    }
    /// The format with this name.
    pub fn of_name(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|f| f.name == name)
    }
    /// What [`codes()`] yields, if it holds weights.
    pub fn packs(&self) -> Option<Packs> {
        match self.decode {
            Decode::Codes(packs, _) => Some(packs),
            Decode::Floats(_) => Some(Packs::F32),
            Decode::Never => None,
        }
    }
    fn expect(&self, bytes: &[u8], elems: usize) {
        let blocks = elems / self.elems;
        let whole = elems.is_multiple_of(self.elems) && bytes.len() == blocks * self.bytes;
        assert!(whole, "{} bytes of {} for {elems} elements", bytes.len(), self.name);
    }
}

impl DType {
    /// Its line in [`FORMATS`].
    ///
    /// # Panics
    /// Never: a test holds that every type has its line.
    pub fn format(self) -> &'static Format {
        FORMATS.iter().find(|f| f.dtype == self).expect("every type has a format")
    }
    /// The field's name for it.
    pub fn name(self) -> &'static str {
        self.format().name
    }
}

/// What GGUF's numbers without a [`Format`] meant.
pub fn retired(id: u32) -> &'static str {
    match id {
        4 => "Q4_2, removed from the format",
        5 => "Q4_3, removed from the format",
        9 => "Q8_1, which is for activations only",
        31..=33 => "Q4_0 repacked, removed from the format",
        36..=38 => "IQ4_NL repacked, removed from the format",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_one_line() {
        use DType::*;
        // A new type does not compile here until it is listed.
        #[rustfmt::skip]
        fn listed(dtype: DType) {
            match dtype {
                F32 | F16 | Bf16 | F64 | I8 | I16 | I32 | I64 | U8 | Bool | Q4_0 | Q4_1 | Q5_0 | Q5_1
                | Q8_0 | Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | Q8_K | IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS
                | IQ2_S | IQ3_XXS | IQ3_S | IQ4_NL | IQ4_XS | TQ1_0 | TQ2_0 | MXFP4 | NVFP4 | Q1_0
                | Q2_0 | F8_E4M3 | Q4_Z | Q4_B | Q8_Z | Q8_F | Q8_E | Q8_FZ
                | Q8_H | Q4_H | NF4 | FP4 => {}
            }
        }
        let mut seen = std::collections::HashSet::new();
        for f in FORMATS {
            listed(f.dtype);
            assert!(
                seen.insert(f.dtype) && Format::of_name(f.name).is_some_and(|g| g.dtype == f.dtype)
            );
            assert!(
                f.ggml.is_none_or(|id| Format::of_ggml(id).is_some_and(|g| g.dtype == f.dtype))
            );
        }
        assert_eq!(seen.len(), 47);
    }

    #[test]
    fn integers_are_no_weights() {
        let error = dequantise(DType::I32, &[0; 4], &mut [0.0]).unwrap_err();
        assert_eq!(error.to_string(), "type I32 stores no weights");
        assert_eq!(
            codes(DType::Q8_K, &[0; 292], 256, &mut Codes::default()),
            Err(NotWeights("Q8_K"))
        );
    }
}
