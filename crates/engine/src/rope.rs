//! Rotary positions: what a table is, and the numbers in it.
//! Su et al. 2021, arXiv:2104.09864.
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// A rotary table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Rope {
    /// Base of the frequencies `theta^(-2i/dim)`.
    pub theta: f32,
    /// Leading dimensions of a head that rotate; even.
    pub dim: usize,
    /// Which elements form pairs.
    pub layout: RopeLayout,
    /// What is done to the frequencies.
    pub scaling: Scaling,
    /// M-RoPE section widths; empty for text.
    pub sections: Vec<usize>,
}

/// Which two elements of a head form a rotated pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RopeLayout {
    /// (i, i + dim/2), as Hugging Face stores it.
    Halves,
    /// (2i, 2i + 1), as GGUF's llama stores it.
    Pairs,
}

/// How rotary frequencies are changed to reach longer contexts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Divided by a factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Llama 3.1's: low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f32,
        /// Wavelengths above `original / low` are divided in full.
        low: f32,
        /// Wavelengths below `original / high` are kept.
        high: f32,
        /// Context before the extension.
        original: usize,
    },
    /// Peng et al. 2023, arXiv:2309.00071.
    Yarn {
        /// The divisor of low frequencies.
        factor: f32,
        /// Context before the extension.
        original: usize,
        /// Rotations in the original context from which frequencies are kept.
        beta_fast: f32,
        /// Rotations in the original context up to which they are divided in full.
        beta_slow: f32,
        /// Multiplies cosines and sines.
        attention: f32,
        /// Whether the ramp's ends are rounded to integers.
        truncate: bool,
    },
    /// Ding et al. 2024, arXiv:2402.13753. Of a sequence whose prompt is longer than `original`, all
    /// positions are `long`; of another, those from `original` on.
    LongRope {
        /// Up to `original`.
        short: Stretch,
        /// Beyond it.
        long: Stretch,
        /// Context before the extension.
        original: usize,
    },
    /// The first pairs of all rotate as they do without a scaling, the others not at all.
    Proportional {
        /// How many of all, rounded down.
        share: f32,
    },
    /// Frequencies divided by these, one a pair (GGUF's `rope_freqs`).
    Factors(Vec<f32>),
}

/// What LongRoPE does to frequencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Stretch {
    /// Divisors, one a pair.
    pub factors: Vec<f32>,
    /// Multiplies cosines and sines.
    pub attention: f32,
}

impl Rope {
    /// Radians a position, one a pair. Intermediate values are rounded to f32 where transformers
    /// holds them in f32. Of LongRoPE, those of short sequences.
    pub fn frequencies(&self) -> Vec<f32> {
        let plain = (0..self.dim / 2).map(|i| {
            let exponent = (2 * i) as f32 / self.dim as f32;
            1.0 / libm::pow(f64::from(self.theta), f64::from(exponent)) as f32
        });
        match &self.scaling {
            Scaling::None => plain.collect(),
            Scaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            Scaling::Proportional { share } => {
                let rotated = (self.dim as f32 * share / 2.0) as usize;
                plain.enumerate().map(|(i, f)| if i < rotated { f } else { 0.0 }).collect()
            }
            Scaling::Factors(by) | Scaling::LongRope { short: Stretch { factors: by, .. }, .. } => {
                plain.zip(by).map(|(f, by)| f / by).collect()
            }
            Scaling::Llama3 { factor, low, high, original } => {
                plain.map(|f| llama3(f, *factor, *low, *high, *original as f32)).collect()
            }
            Scaling::Yarn { factor, .. } => {
                let ramp = self.yarn_ramp();
                plain.zip(ramp).map(|(f, r)| f / factor * r + f * (1.0 - r)).collect()
            }
        }
    }

    /// What cosines and sines are multiplied by.
    pub fn attention(&self) -> f32 {
        match self.scaling {
            Scaling::Yarn { attention, .. }
            | Scaling::LongRope { short: Stretch { attention, .. }, .. } => attention,
            _ => 1.0,
        }
    }

    /// What this is to long sequences, and beyond which length, if that is another.
    pub fn beyond(&self) -> Option<(usize, Rope)> {
        let Scaling::LongRope { long, original, .. } = &self.scaling else { return None };
        let (short, long) = (long.clone(), long.clone());
        let scaling = Scaling::LongRope { short, long, original: *original };
        Some((*original, Rope { scaling, ..self.clone() }))
    }

    /// For each pair, how far it is interpolated: 0 is kept, 1 is divided in full.
    fn yarn_ramp(&self) -> Vec<f32> {
        let Scaling::Yarn { original, beta_fast, beta_slow, truncate, .. } = self.scaling else {
            return Vec::new();
        };
        let pair = |rotations: f32| {
            let context = libm::log(original as f64 / (f64::from(rotations) * TAU));
            self.dim as f64 * context / (2.0 * libm::log(f64::from(self.theta)))
        };
        let (mut low, mut high) = (pair(beta_fast), pair(beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(self.dim as f64 - 1.0));
        if low == high {
            high += 0.001;
        }
        let ramp = |i: usize| ((i as f64 - low) / (high - low)).clamp(0.0, 1.0) as f32;
        (0..self.dim / 2).map(ramp).collect()
    }
}

fn llama3(f: f32, factor: f32, low: f32, high: f32, original: f32) -> f32 {
    let wavelength = TAU as f32 / f;
    if wavelength > original / low {
        f / factor
    } else if wavelength < original / high {
        f
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        (1.0 - smooth) * f / factor + smooth * f
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scaling: Scaling, expect: [f32; 4], attention: f32) {
        let rope =
            Rope { theta: 1e4, dim: 8, layout: RopeLayout::Halves, scaling, sections: vec![] };
        let found = rope.frequencies();
        for (f, e) in found.iter().zip(expect) {
            assert!((f - e).abs() <= 1e-6 * e, "{found:?}, expected {expect:?}");
        }
        assert_eq!(found.len(), 4);
        assert_eq!(rope.attention(), attention);
    }

    /// Plain frequencies are 1, 0.1, 0.01, 0.001; wavelengths 6.28, 62.8, 628, 6283.
    #[test]
    fn scaled_frequencies() {
        check(Scaling::None, [1.0, 0.1, 0.01, 0.001], 1.0);
        check(Scaling::Linear { factor: 4.0 }, [0.25, 0.025, 0.0025, 0.00025], 1.0);
        check(Scaling::Proportional { share: 0.5 }, [1.0, 0.1, 0.0, 0.0], 1.0);
        check(Scaling::Factors(vec![1.0, 2.0, 4.0, 8.0]), [1.0, 0.05, 0.0025, 0.000_125], 1.0);
        // original / wavelength of the second pair is 128 · 0.1 / 2π = 2.0372, so it keeps
        // (2.0372 - 1) / 3 of its frequency.
        check(
            Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 128 },
            [1.0, 0.1 * (0.345_727_75 + 0.654_272_25 / 8.0), 0.001_25, 0.000_125],
            1.0,
        );
        let stretch = |by: f32, attention| Stretch { factors: vec![by; 4], attention };
        let (short, long) = (stretch(2.0, 1.5), stretch(4.0, 1.75));
        let rope = Scaling::LongRope { short, long, original: 64 };
        check(rope.clone(), [0.5, 0.05, 0.005, 0.0005], 1.5);
        let rope = Rope {
            theta: 1e4,
            dim: 8,
            layout: RopeLayout::Halves,
            scaling: rope,
            sections: vec![],
        };
        let (original, beyond) = rope.beyond().unwrap();
        assert_eq!((original, beyond.attention()), (64, 1.75));
        check(beyond.scaling, [0.25, 0.025, 0.0025, 0.000_25], 1.75);
        // Pairs of 32 and 1 rotations in 64 positions: below 0, and 8 ln(64/2π) / (2 ln 1e4) =
        // 1.008, rounded up to 2; so the ramp is 0, 1/2, 1, 1.
        let yarn = Scaling::Yarn {
            factor: 4.0,
            original: 64,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention: 1.25,
            truncate: true,
        };
        check(yarn, [1.0, 0.0625, 0.0025, 0.000_25], 1.25);
    }
}
