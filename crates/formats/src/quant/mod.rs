//! Block formats: how many elements a block holds, in how many bytes, and what they mean.
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
}

/// Every format, one line each.
#[rustfmt::skip]
pub static FORMATS: &[Format] = &[
    //     type            name       ggml id    elems bytes
    format(DType::F32,     "F32",     Some(0),     1,   4),
    format(DType::F16,     "F16",     Some(1),     1,   2),
    format(DType::Q4_0,    "Q4_0",    Some(2),    32,  18),
    format(DType::Q4_1,    "Q4_1",    Some(3),    32,  20),
    format(DType::Q5_0,    "Q5_0",    Some(6),    32,  22),
    format(DType::Q5_1,    "Q5_1",    Some(7),    32,  24),
    format(DType::Q8_0,    "Q8_0",    Some(8),    32,  34),
    format(DType::Q2_K,    "Q2_K",    Some(10),  256,  84),
    format(DType::Q3_K,    "Q3_K",    Some(11),  256, 110),
    format(DType::Q4_K,    "Q4_K",    Some(12),  256, 144),
    format(DType::Q5_K,    "Q5_K",    Some(13),  256, 176),
    format(DType::Q6_K,    "Q6_K",    Some(14),  256, 210),
    format(DType::Q8_K,    "Q8_K",    Some(15),  256, 292),
    format(DType::IQ2_XXS, "IQ2_XXS", Some(16),  256,  66),
    format(DType::IQ2_XS,  "IQ2_XS",  Some(17),  256,  74),
    format(DType::IQ3_XXS, "IQ3_XXS", Some(18),  256,  98),
    format(DType::IQ1_S,   "IQ1_S",   Some(19),  256,  50),
    format(DType::IQ4_NL,  "IQ4_NL",  Some(20),   32,  18),
    format(DType::IQ3_S,   "IQ3_S",   Some(21),  256, 110),
    format(DType::IQ2_S,   "IQ2_S",   Some(22),  256,  82),
    format(DType::IQ4_XS,  "IQ4_XS",  Some(23),  256, 136),
    format(DType::I8,      "I8",      Some(24),    1,   1),
    format(DType::I16,     "I16",     Some(25),    1,   2),
    format(DType::I32,     "I32",     Some(26),    1,   4),
    format(DType::I64,     "I64",     Some(27),    1,   8),
    format(DType::F64,     "F64",     Some(28),    1,   8),
    format(DType::IQ1_M,   "IQ1_M",   Some(29),  256,  56),
    format(DType::Bf16,    "BF16",    Some(30),    1,   2),
    format(DType::TQ1_0,   "TQ1_0",   Some(34),  256,  54),
    format(DType::TQ2_0,   "TQ2_0",   Some(35),  256,  66),
    format(DType::MXFP4,   "MXFP4",   Some(39),   32,  17),
    format(DType::NVFP4,   "NVFP4",   Some(40),   64,  36),
    format(DType::Q1_0,    "Q1_0",    Some(41),  128,  18),
    format(DType::Q2_0,    "Q2_0",    Some(42),   64,  18),
    format(DType::U8,      "U8",      None,        1,   1),
    format(DType::Bool,    "BOOL",    None,        1,   1),
];

const fn format(
    dtype: DType,
    name: &'static str,
    ggml: Option<u32>,
    elems: usize,
    bytes: usize,
) -> Format {
    Format { dtype, name, ggml, elems, bytes }
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
