//! Which tokens stay in the draw, without sorting a vocabulary.
use super::Sampling;
use std::cmp::Ordering;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub logit: f32,
    pub id: u32,
}

impl Candidate {
    /// More probable first, then the lower id.
    fn order(&self, other: &Candidate) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }
}

/// The most probable token, the lowest id among equals; none if no logit is above negative
/// infinity.
pub fn best(logits: &[f32]) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    for (chunk, at) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        let floor = best.map_or(f32::NEG_INFINITY, |b| b.logit);
        if !any_above(chunk, floor) {
            continue;
        }
        for (logit, id) in chunk.iter().zip(at..) {
            if *logit > best.map_or(f32::NEG_INFINITY, |b| b.logit) {
                best = Some(Candidate { logit: *logit, id });
            }
        }
    }
    best
}

/// What `top_k`, `top_p` and `min_p` leave, in any order; returns the best of them.
pub fn kept(logits: &[f32], s: &Sampling, out: &mut Vec<Candidate>) -> Option<Candidate> {
    let first = best(logits)?;
    let floor = first.logit + libm::logf(s.min_p);
    if s.top_k > 0 && s.top_k < logits.len() {
        top_k(logits, s.top_k, out);
    } else {
        // Without top_p, min_p may go first.
        above(logits, if s.top_p < 1.0 { f32::NEG_INFINITY } else { floor }, out);
    }
    if s.top_p < 1.0 {
        top_p(s.top_p, first, out);
    }
    out.retain(|c| c.logit >= floor);
    Some(first)
}

/// All tokens whose logit is `floor` at least, and not negative infinity.
fn above(logits: &[f32], floor: f32, out: &mut Vec<Candidate>) {
    out.clear();
    let floor = floor.max(f32::MIN);
    for (chunk, at) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if chunk.iter().fold(false, |any, logit| any | (*logit >= floor)) {
            let above = chunk.iter().zip(at..).filter(|(logit, _)| **logit >= floor);
            out.extend(above.map(|(logit, id)| Candidate { logit: *logit, id }));
        }
    }
}

/// The `k` most probable tokens, in order.
pub fn top_k(logits: &[f32], k: usize, out: &mut Vec<Candidate>) {
    out.clear();
    if k == 0 {
        return;
    }
    let full = 2 * k.min(logits.len()) + CHUNK;
    let mut floor = f32::NEG_INFINITY;
    for (chunk, at) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if !any_above(chunk, floor) {
            continue;
        }
        let above = chunk.iter().zip(at..).filter(|(logit, _)| **logit > floor);
        out.extend(above.map(|(logit, id)| Candidate { logit: *logit, id }));
        if out.len() >= full {
            out.select_nth_unstable_by(k - 1, Candidate::order);
            out.truncate(k);
            floor = out[k - 1].logit;
        }
    }
    out.sort_unstable_by(Candidate::order);
    out.truncate(k);
}

/// Keeps the fewest of the most probable candidates whose probabilities reach `p`, at least one.
/// Sorts only the narrow band of logits in which the sum is reached.
fn top_p(p: f32, first: Candidate, out: &mut Vec<Candidate>) {
    const BANDS: usize = 512;
    const WIDTH: f32 = 30.0 / BANDS as f32;
    let weight = |c: &Candidate| f64::from(exp(c.logit - first.logit));
    let band = |c: &Candidate| (((first.logit - c.logit) / WIDTH) as usize).min(BANDS - 1);
    let mut bands = [0.0f64; BANDS];
    out.iter().for_each(|c| bands[band(c)] += weight(c));
    let wanted = f64::from(p) * bands.iter().sum::<f64>();
    let (mut last, mut sum) = (0, 0.0);
    while last < BANDS - 1 && sum + bands[last] < wanted {
        sum += bands[last];
        last += 1;
    }
    out.retain(|c| band(c) <= last);
    let edge = partition(out, |c| band(c) < last);
    out[edge..].sort_unstable_by(Candidate::order);
    let needed = out[edge..].iter().position(|c| {
        sum += weight(c);
        sum >= wanted
    });
    out.truncate(needed.map_or(out.len(), |n| edge + n + 1));
}

/// Moves what fulfils `test` to the front; returns how many do.
fn partition(of: &mut [Candidate], test: impl Fn(&Candidate) -> bool) -> usize {
    let mut front = 0;
    for i in 0..of.len() {
        if test(&of[i]) {
            of.swap(front, i);
            front += 1;
        }
    }
    front
}

/// `Σ exp(logit - max)`.
pub fn total(logits: &[f32], max: f32) -> f64 {
    let (chunks, rest) = logits.as_chunks::<CHUNK>();
    let whole = chunks.iter().map(|chunk| {
        let weights = chunk.map(|logit| exp(logit - max));
        let lanes: [f32; 8] = std::array::from_fn(|i| weights[i..].iter().step_by(8).sum());
        f64::from(lanes.iter().sum::<f32>())
    });
    whole.sum::<f64>() + rest.iter().map(|logit| f64::from(exp(logit - max))).sum::<f64>()
}

/// e to the power of `x <= 0`, to 2 units in the last place; 0 below -87. The same bits everywhere,
/// and plain enough to be vectorised.
pub fn exp(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5];
    let p = p.iter().fold(0.0, |acc, c| acc * r + c);
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    // Also what is not a number weighs nothing.
    if x >= -87.0 { (p * r * r + r + 1.0) * two_to_n } else { 0.0 }
}

const CHUNK: usize = 64;

fn any_above(chunk: &[f32], floor: f32) -> bool {
    chunk.iter().fold(false, |any, logit| any | (*logit > floor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close() {
        for i in 0..=87_000 {
            let x = -i as f32 / 1000.0;
            let (found, expected) = (f64::from(exp(x)), libm::exp(f64::from(x)));
            assert!((found / expected - 1.0).abs() < 3e-7, "{x}: {found} {expected}");
        }
        assert_eq!([exp(0.0), exp(f32::NEG_INFINITY), exp(f32::NAN)], [1.0, 0.0, 0.0]);
    }

    /// A vocabulary in a scrambled order, with ties.
    fn vocabulary(n: u32) -> Vec<f32> {
        (0..n).map(|i| -((i.wrapping_mul(7919) % n / 3) as f32) * 20.0 / n as f32).collect()
    }

    /// By sorting everything.
    fn reference(logits: &[f32], s: &Sampling) -> Vec<Candidate> {
        let mut all: Vec<Candidate> =
            logits.iter().zip(0..).map(|(l, id)| Candidate { logit: *l, id }).collect();
        all.sort_by(Candidate::order);
        if s.top_k > 0 {
            all.truncate(s.top_k);
        }
        let max = all[0].logit;
        let weight = |c: &Candidate| f64::from(exp(c.logit - max));
        let sum: f64 = all.iter().map(weight).sum();
        let mut reached = 0.0;
        let full = all.iter().position(|c| {
            reached += weight(c);
            reached >= f64::from(s.top_p) * sum
        });
        if s.top_p < 1.0 {
            all.truncate(full.unwrap_or(all.len()) + 1);
        }
        all.retain(|c| s.min_p == 0.0 || c.logit >= max + libm::logf(s.min_p));
        all
    }

    #[test]
    fn filters_equal_a_sort() {
        let mut out = Vec::new();
        for n in [1, 2, 63, 64, 65, 1000, 50_000] {
            let logits = vocabulary(n);
            for top_k in [0, 1, 2, 40, 1000] {
                for (top_p, min_p) in [(1.0, 0.0), (0.0, 0.0), (0.5, 0.0), (0.95, 0.05), (1.0, 1.0)]
                {
                    let s = Sampling { top_k, top_p, min_p, ..Sampling::default() };
                    kept(&logits, &s, &mut out);
                    out.sort_by(Candidate::order);
                    let expected = reference(&logits, &s);
                    assert_eq!(out, expected, "{n} {top_k} {top_p} {min_p}");
                }
            }
        }
    }

    #[test]
    fn best_is_the_lowest_of_equals() {
        let nan = f32::NAN;
        let none = f32::NEG_INFINITY;
        let cases: [(&[f32], Option<u32>); 6] = [
            (&[], None),
            (&[none, nan], None),
            (&[1.0, 1.0], Some(0)),
            (&[0.0, 2.0, nan, 2.0], Some(1)),
            (&[nan, -3.0], Some(1)),
            (&[none, none, -1e38], Some(2)),
        ];
        for (logits, expected) in cases {
            assert_eq!(best(logits).map(|c| c.id), expected, "{logits:?}");
        }
        let mut long = vec![0.5; 300];
        long[199] = 1.0;
        long[250] = 1.0;
        assert_eq!(best(&long).map(|c| c.id), Some(199));
    }
}
