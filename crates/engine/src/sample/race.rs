//! The draw: an exponential race. Each token gets an exponential time from a counter-based
//! generator, divided by its weight; the first to arrive wins, with its probability.
//!
//! Against walking a cumulative sum this needs no order and no total, so the choice is the same
//! however the candidates were found.
use super::filter::{Candidate, exp};

/// What all draws at one position share.
pub fn key(seed: u64, position: u64) -> u64 {
    splitmix64(splitmix64(seed) ^ position)
}

/// The winner's id. `first` is a most probable candidate: weights are relative to its own.
pub fn winner(
    candidates: impl Iterator<Item = Candidate>,
    first: Candidate,
    temperature: f32,
    key: u64,
) -> u32 {
    let (mut id, mut best) = (first.id, f64::INFINITY);
    for c in candidates {
        let weight = f64::from(exp((c.logit - first.logit) / temperature));
        let u = uniform(key, c.id);
        // -ln(u) is at least 1 - u: most candidates lose without a logarithm.
        if 1.0 - u >= best * weight {
            continue;
        }
        let time = -libm::log(u) / weight;
        if time < best {
            (id, best) = (c.id, time);
        }
    }
    id
}

/// In (0, 1), of 53 bits.
fn uniform(key: u64, id: u32) -> f64 {
    let bits = splitmix64(key.wrapping_add(u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Steele et al. 2014, doi:10.1145/2714064.2660195.
fn splitmix64(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
