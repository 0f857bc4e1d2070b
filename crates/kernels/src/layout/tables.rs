//! What codes stand for, before scales, where that is in a table.

/// Quantiles of a normal distribution. Dettmers et al. 2023, arXiv:2305.14314.
pub const NF4: [f32; 16] = [
    -1.0,
    -0.6961928,
    -0.52507305,
    -0.3949175,
    -0.28444138,
    -0.18477343,
    -0.091050036,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.33791524,
    0.44070983,
    0.562617,
    0.72295684,
    1.0,
];

/// Floats of a sign, two bits of exponent and one of mantissa, of which the largest is 1.
pub const FP4: [f32; 16] = {
    let mut all =
        [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let mut i = 0;
    while i < 8 {
        all[i] /= 12.0;
        all[i + 8] = -all[i];
        i += 1;
    }
    all
};

/// Integers that codes stand for. They are stored biased by half of `2^bits`, as unsigned bytes below it.
pub struct Values {
    /// Bits to a biased value.
    pub bits: usize,
    /// By code.
    pub biased: [u8; 16],
}

/// Eight in a row (Q3_K).
pub const Q3: Values = values(5, [-4, -3, -2, -1, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
/// Twice the 4-bit floats E2M1 (OCP Microscaling Formats 1.0).
pub const E2M1: Values = values(5, [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);
/// Three steps of eight and one up, then of eight and one down (IQ1_S, IQ1_M).
pub const IQ1: Values = values(5, [-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
/// Three magnitudes (IQ2_XXS, IQ2_XS, IQ2_S).
pub const IQ2: Values = values(7, [8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
/// Eight magnitudes (IQ3_XXS).
pub const IQ3_XXS: Values =
    values(7, [4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62]);
/// Eight others (IQ3_S).
pub const IQ3_S: Values = values(5, [1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15]);
/// Sixteen that are dense near zero (IQ4_NL, IQ4_XS).
pub const IQ4: Values =
    values(8, [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]);

const fn values(bits: usize, of: [i8; 16]) -> Values {
    let mut biased = [0; 16];
    let mut i = 0;
    while i < 16 {
        biased[i] = (of[i] as i32 + (1 << (bits - 1))) as u8;
        i += 1;
    }
    Values { bits, biased }
}
