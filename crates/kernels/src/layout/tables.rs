//! What 4-bit codes of bitsandbytes stand for, before scales.

/// Quantiles of a normal distribution. Dettmers et al. 2023, arXiv:2305.14314.
pub const NF4: [f32; 16] = [
    -1.0,
    -0.6961928,
    -0.5250731,
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
