//! What 4-bit codes stand for, before scales, where that is in a table.

/// Twice E2M1's values: scales are halved instead, and values are integers.
pub(crate) const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
/// IQ1's: eight times a coordinate (low bits, less 1), and an eighth up or down.
pub(crate) const IQ1: [i8; 16] = [-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// IQ2's: a coordinate and a sign.
pub(crate) const IQ2: [i8; 16] = [8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// IQ3_XXS's.
pub(crate) const IQ3_XXS: [i8; 16] =
    [4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62];
/// IQ3_S's.
pub(crate) const IQ3_S: [i8; 16] = [1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15];
/// IQ4_NL's and IQ4_XS's: dense near zero.
pub(crate) const IQ4: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// bitsandbytes' NF4: quantiles of a normal distribution.
pub(crate) const NF4: [f32; 16] = [
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

/// bitsandbytes' FP4.
pub(crate) const FP4: [f32; 16] = {
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
