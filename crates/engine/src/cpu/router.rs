//! Which experts a row visits, and what each counts: from its router logits alone, all in f32.
//!
//! Of experts that score the same, the one with the lower number is chosen, as torch's top-k does in
//! practice. What is chosen by score alone is chosen by logit, whose order is the same and finer.
use crate::spec::{Groups, Renormalise, Router, Score};
use rinfer_kernels::ops::{self, Choice};

/// A router's rule and its learned vectors, by expert.
pub(crate) struct Chooser {
    pub how: Router,
    /// Joins the scores for the choice.
    pub select_bias: Option<Vec<f32>>,
    /// Multiplies the weights.
    pub expert_scale: Option<Vec<f32>>,
}

impl ops::Router for Chooser {
    /// The best first; `logits` becomes scores.
    fn choose(&self, logits: &mut [f32], out: &mut [Choice]) {
        match self.how.score {
            Score::Sparsemixer { jitter } => sparsemixer(logits, jitter, out),
            Score::SoftmaxOfTopK => {
                pick(logits.len(), |e| logits[e], out);
                weigh(logits, out);
                softmax_of(out);
            }
            Score::Softmax | Score::Sigmoid => self.by_score(logits, out),
        }
        self.how.renormalise.apply(out);
        for choice in out {
            choice.weight *= self.how.scale;
            if let Some(scales) = &self.expert_scale {
                choice.weight *= scales[choice.expert as usize];
            }
        }
    }
}

impl Chooser {
    fn by_score(&self, logits: &mut [f32], out: &mut [Choice]) {
        let alone = self.select_bias.is_none() && self.how.groups.is_none();
        if alone {
            pick(logits.len(), |e| logits[e], out);
        }
        match self.how.score {
            Score::Sigmoid => logits.iter_mut().for_each(|x| *x = sigmoid(*x)),
            _ => softmax(logits),
        }
        if !alone {
            let scores = &*logits;
            let biased = |e: usize| scores[e] + self.select_bias.as_ref().map_or(0.0, |b| b[e]);
            match self.how.groups {
                None => pick(scores.len(), biased, out),
                Some(groups) => {
                    let size = scores.len() / groups.count;
                    let kept = kept(groups, size, biased);
                    let here = |e| kept >> (e / size) & 1 == 1;
                    let masked = |e| if here(e) { biased(e) } else { f32::NEG_INFINITY };
                    pick(scores.len(), masked, out);
                }
            }
        }
        weigh(logits, out);
    }
}

/// Groups that a [`Groups`] may have: they are kept as bits.
pub(crate) const MOST_GROUPS: usize = u64::BITS as usize;
/// Best experts that a group's score may be the sum of.
pub(crate) const MOST_BEST: usize = 8;

/// The best groups, as bits.
fn kept(groups: Groups, size: usize, score: impl Fn(usize) -> f32) -> u64 {
    let (mut sums, mut best) = ([0.0; MOST_GROUPS], [Choice::default(); MOST_BEST]);
    let best = &mut best[..groups.best.min(size)];
    for (g, sum) in sums[..groups.count].iter_mut().enumerate() {
        pick(size, |e| score(g * size + e), best);
        *sum = best.iter().map(|c| score(g * size + c.expert as usize)).sum();
    }
    let mut top = [Choice::default(); MOST_GROUPS];
    let top = &mut top[..groups.top];
    pick(groups.count, |g| sums[g], top);
    top.iter().fold(0, |bits, c| bits | 1 << c.expert)
}

/// The highest scores of `count`, in order; of equals the first. What is no number comes last.
fn pick(count: usize, score: impl Fn(usize) -> f32, out: &mut [Choice]) {
    for i in 0..out.len() {
        let mut best: Option<(usize, f32)> = None;
        for e in 0..count {
            let score = score(e);
            let better = best.is_none_or(|(_, b)| score > b || b.is_nan() && !score.is_nan());
            if better && out[..i].iter().all(|c| c.expert as usize != e) {
                best = Some((e, score));
            }
        }
        out[i].expert = best.map_or(0, |(e, _)| e as u32);
    }
}

/// Their scores are what the chosen count.
fn weigh(scores: &[f32], out: &mut [Choice]) {
    out.iter_mut().for_each(|c| c.weight = scores[c.expert as usize]);
}

fn softmax(x: &mut [f32]) {
    let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|x| *x = libm::expf(*x - top));
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}

/// The same over the chosen, the first of which is the largest.
fn softmax_of(chosen: &mut [Choice]) {
    let top = chosen.first().map_or(0.0, |c| c.weight);
    chosen.iter_mut().for_each(|c| c.weight = libm::expf(c.weight - top));
    let sum: f32 = chosen.iter().map(|c| c.weight).sum();
    chosen.iter_mut().for_each(|c| c.weight /= sum);
}

/// `1 / (1 + e^-x)`
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

/// Each choice is the largest logit that is left, and counts its share of a softmax over what is
/// left and near it.
fn sparsemixer(logits: &[f32], jitter: f32, out: &mut [Choice]) {
    pick(logits.len(), |e| logits[e], out);
    for i in 0..out.len() {
        let (before, rest) = out.split_at_mut(i);
        let left = |e: usize| before.iter().all(|c| c.expert as usize != e);
        let top = logits[rest[0].expert as usize];
        let near = |x: f32| (top - x) / x.abs().max(top) <= 2.0 * jitter;
        let all = logits.iter().enumerate().filter(|(e, x)| left(*e) && near(**x));
        rest[0].weight = 1.0 / all.map(|(_, x)| libm::expf(x - top)).sum::<f32>();
    }
}

impl Renormalise {
    fn apply(self, out: &mut [Choice]) {
        let sum: f32 = out.iter().map(|c| c.weight).sum();
        let by = match self {
            Renormalise::No => return,
            Renormalise::Sum { plus } => sum + plus,
            Renormalise::AtLeast { least } => sum.max(least),
        };
        out.iter_mut().for_each(|c| c.weight /= by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RouterInput;
    use rinfer_kernels::ops::Router as _;

    fn router(score: Score) -> Router {
        Router {
            score,
            renormalise: Renormalise::No,
            scale: 1.0,
            bias: false,
            select_bias: false,
            groups: None,
            weighs_input: false,
            input: RouterInput::Same,
            expert_scale: false,
        }
    }

    fn check(how: Router, bias: Option<&[f32]>, logits: &[f32], expect: &[(u32, f32)]) {
        let chooser = Chooser { how, select_bias: bias.map(<[f32]>::to_vec), expert_scale: None };
        let mut out = vec![Choice::default(); expect.len()];
        chooser.choose(&mut logits.to_vec(), &mut out);
        for (found, (expert, weight)) in out.iter().zip(expect) {
            let near = (found.weight - weight).abs() <= 1e-6;
            assert!(found.expert == *expert && near, "{out:?} is not {expect:?}");
        }
    }

    /// Logits of these probabilities.
    fn of<const N: usize>(p: [f32; N]) -> [f32; N] {
        p.map(|p| p.ln() + 3.0)
    }

    #[test]
    fn scores() {
        let softmax = router(Score::Softmax);
        let p = of([0.1, 0.4, 0.2, 0.3]);
        check(softmax.clone(), None, &p, &[(1, 0.4), (3, 0.3)]);
        let sum = Router { renormalise: Renormalise::Sum { plus: 0.1 }, ..softmax.clone() };
        check(sum.clone(), None, &p, &[(1, 0.5), (3, 0.375)]);
        check(Router { scale: 2.0, ..sum }, None, &p, &[(1, 1.0), (3, 0.75)]);
        let least =
            |least| Router { renormalise: Renormalise::AtLeast { least }, ..softmax.clone() };
        check(least(0.1), None, &p, &[(1, 4.0 / 7.0), (3, 3.0 / 7.0)]);
        check(least(1.0), None, &p, &[(1, 0.4), (3, 0.3)]);
        let top = router(Score::SoftmaxOfTopK);
        check(top, None, &p, &[(1, 4.0 / 7.0), (3, 3.0 / 7.0)]);
        let (a, b) = (sigmoid(2.0), sigmoid(-1.0));
        check(router(Score::Sigmoid), None, &[-1.0, 2.0, -3.0], &[(1, a), (0, b)]);
    }

    #[test]
    fn biases_choose_and_do_not_weigh() {
        let bias = [0.5, 0.0, 0.0, 0.15];
        let p = of([0.1, 0.4, 0.2, 0.3]);
        check(router(Score::Softmax), Some(&bias), &p, &[(0, 0.1), (3, 0.3)]);
    }

    #[test]
    fn groups_are_kept_or_dropped_whole() {
        let p = of([0.24, 0.01, 0.15, 0.15, 0.2, 0.04, 0.11, 0.1]);
        let groups = |top, best| {
            let groups = Some(Groups { count: 4, top, best });
            Router { groups, ..router(Score::Softmax) }
        };
        check(groups(1, 1), None, &p, &[(0, 0.24), (1, 0.01)]);
        check(groups(1, 2), None, &p, &[(2, 0.15), (3, 0.15)]);
        check(groups(2, 2), None, &p, &[(0, 0.24), (2, 0.15), (3, 0.15)]);
    }

    #[test]
    fn of_equals_the_first() {
        check(router(Score::Softmax), None, &[1.0; 4], &[(0, 0.25), (1, 0.25)]);
        let saturated = [20.0, 40.0, 30.0];
        check(router(Score::Sigmoid), None, &saturated, &[(1, 1.0), (2, 1.0)]);
    }

    #[test]
    fn what_is_no_number_is_no_panic() {
        let mut out = [Choice::default(); 3];
        let nan = f32::NAN;
        for score in [Score::Softmax, Score::SoftmaxOfTopK, Score::Sparsemixer { jitter: 0.01 }] {
            let chooser = Chooser { how: router(score), select_bias: None, expert_scale: None };
            chooser.choose(&mut [nan, 1.0, nan, 2.0], &mut out);
            assert_eq!(out.map(|c| c.expert), [3, 1, 0]);
        }
    }

    /// The largest two, each among what is within 2 % of it.
    #[test]
    fn sparse_mixtures() {
        let how = router(Score::Sparsemixer { jitter: 0.01 });
        let of = |near: f32| 1.0 / (1.0 + (-near).exp());
        check(how.clone(), None, &[1.0, 2.0, 1.99], &[(1, of(0.01)), (2, 1.0)]);
        check(how, None, &[1.0, -2.0, 0.99], &[(0, of(0.01)), (2, 1.0)]);
    }
}
