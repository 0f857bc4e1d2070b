//! Weights that do not all fit in memory: those of a bundle come in ahead of their turn, and leave
//! after it. A pass reads the same bytes either way, so its numbers do not change.
//!
//! As many layers stay as the budget has room for, spread over the depth so that the next one comes
//! in while others compute. One layer is in use and one comes in; what is read by a pass once and in
//! order is better kept in part than let go by age. Experts, which a pass visits as it likes, are
//! let go by age.
use crate::backend::{Limits, Resident};
use crate::spec::{ModelSpec, Op};
use crate::weights::needs;
use rinfer_formats::Weights;
use rinfer_formats::map::Bytes;
use std::collections::{BTreeMap, HashMap};

/// What comes and goes during passes.
#[derive(Default)]
pub(crate) struct Flow {
    /// By layer; the last is the head.
    units: Vec<Unit>,
    /// That is in use.
    at: Option<usize>,
    /// That was asked for.
    asked: Option<usize>,
    experts: Experts,
    /// Whether what leaves makes room for others.
    scarce: bool,
}

/// What is read together.
#[derive(Default, Clone)]
struct Unit {
    parts: Vec<Bytes>,
    bytes: usize,
    stays: bool,
}

impl Unit {
    fn add(&mut self, part: Bytes) {
        self.bytes += part.len();
        self.parts.push(part);
    }
    fn come(&self) {
        self.parts.iter().for_each(Bytes::ahead);
    }
    fn leave(&self, scarce: bool) {
        self.parts.iter().for_each(|part| if scarce { part.leave() } else { part.release(part) });
    }
}

/// The experts of all layers, by layer and number.
#[derive(Default)]
struct Experts {
    units: HashMap<(usize, usize), Unit>,
    /// Bytes that may be in memory.
    budget: usize,
    /// Bytes that are.
    held: usize,
    /// When each was last visited.
    visits: HashMap<(usize, usize), u64>,
    /// Who was visited then.
    by_age: BTreeMap<u64, (usize, usize)>,
    now: u64,
    scarce: bool,
}

impl Flow {
    /// Within `limits`; nothing flows if all may stay, or nothing is stored as it is read.
    pub fn new(spec: &ModelSpec, weights: &dyn Weights, limits: &Limits) -> Flow {
        let Some(Resident { bytes: budget, scarce }) = limits.resident else {
            return Flow::default();
        };
        let Parts { mut units, experts, always } = parts(spec, weights);
        let budget = budget.saturating_sub(always);
        let (all, window) = (units.iter().map(|unit| unit.bytes).sum(), window(&units));
        let visited = visited(spec, &experts);
        // Experts get what is left by all others, or what two layers' visits take.
        let left = budget.saturating_sub(all).max((2 * visited).min(budget));
        let budget = budget.saturating_sub(if experts.is_empty() { 0 } else { left });
        stay(&mut units[..spec.layers.len()], budget, window);
        let experts = Experts { units: experts, budget: left, scarce, ..Experts::default() };
        Flow { units, experts, scarce, ..Flow::default() }
    }

    /// Bytes without which no pass can be: what the head reads and what layers share, two layers, and
    /// two layers' experts of one row.
    pub fn least(spec: &ModelSpec, weights: &dyn Weights) -> usize {
        let Parts { units, experts, always } = parts(spec, weights);
        always + window(&units) + 2 * visited(spec, &experts)
    }

    /// Layer `layer` is next; the head, if there is no such layer.
    pub fn enter(&mut self, layer: usize) {
        if self.units.is_empty() || self.at == Some(layer) {
            return;
        }
        self.leave();
        self.at = Some(layer);
        let count = self.units.len();
        let next = (1..count).map(|n| (layer + n) % count).find(|n| !self.units[*n].stays);
        if let Some(next) = next.filter(|next| self.asked != Some(*next)) {
            self.units[next].come();
            self.asked = Some(next);
        }
    }

    /// The layer, or the head, is done.
    pub fn leave(&mut self) {
        if let Some(unit) = self.at.take().and_then(|at| self.units.get(at))
            && !unit.stays
        {
            unit.leave(self.scarce);
        }
    }

    /// Whether it is to be told who is [visited](Flow::visit).
    pub fn visits(&self) -> bool {
        !self.experts.units.is_empty()
    }

    /// Rows visit these experts of layer `layer` next.
    pub fn visit(&mut self, layer: usize, experts: impl Iterator<Item = usize>) {
        if self.visits() {
            let from = self.experts.now;
            experts.for_each(|expert| self.experts.visit((layer, expert)));
            self.experts.shrink(from);
        }
    }
}

impl Experts {
    fn visit(&mut self, which: (usize, usize)) {
        let Some(unit) = self.units.get(&which) else { return };
        self.now += 1;
        match self.visits.insert(which, self.now) {
            Some(before) => _ = self.by_age.remove(&before),
            None => {
                unit.come();
                self.held += unit.bytes;
            }
        }
        self.by_age.insert(self.now, which);
    }
    /// Lets go of the oldest, but for those visited after `from`.
    fn shrink(&mut self, from: u64) {
        while self.held > self.budget
            && let Some((&when, &which)) = self.by_age.first_key_value()
            && when <= from
        {
            self.by_age.remove(&when);
            self.visits.remove(&which);
            self.units[&which].leave(self.scarce);
            self.held -= self.units[&which].bytes;
        }
    }
}

/// All that a pass reads whole: of tables it reads some rows.
struct Parts {
    /// By layer; the last is the head.
    units: Vec<Unit>,
    /// By layer and number.
    experts: HashMap<(usize, usize), Unit>,
    /// Bytes of what the head reads and of what layers share.
    always: usize,
}

fn parts(spec: &ModelSpec, weights: &dyn Weights) -> Parts {
    let mut always = 0;
    // The head has its turn after the layers, and nothing that leaves.
    let mut units = vec![Unit::default(); spec.layers.len()];
    units.push(Unit { stays: true, ..Unit::default() });
    let mut experts: HashMap<(usize, usize), Unit> = HashMap::new();
    let head = ["output.weight", "token_embd.weight"];
    let head = head.into_iter().find(|name| weights.prepared(name).is_some());
    for need in needs(spec) {
        let Some(stored) = weights.prepared(&need.name) else { continue };
        let layer = need.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        match (layer.and_then(|(i, part)| Some((i.parse().ok()?, part))), &need.shape[..]) {
            (Some((i, part)), [count, _, _]) if part.contains("_exps.") => {
                let each = stored.bytes.len() / (*count).max(1);
                for e in 0..*count {
                    let part = stored.bytes.part(e * each..(e + 1) * each);
                    experts.entry((i, e)).or_default().add(part);
                }
            }
            (Some((i, _)), _) => units[i].add(stored.bytes),
            (None, _) if Some(&*need.name) == head || need.name.starts_with("shared.") => {
                always += stored.bytes.len();
            }
            _ => {}
        }
    }
    Parts { units, experts, always }
}

/// Bytes of the one in use and the one that comes in.
fn window(units: &[Unit]) -> usize {
    2 * units.iter().map(|unit| unit.bytes).max().unwrap_or(0)
}

/// Bytes of the experts that a row visits in a layer.
fn visited(spec: &ModelSpec, experts: &HashMap<(usize, usize), Unit>) -> usize {
    let most = experts.values().map(|unit| unit.bytes).max().unwrap_or(0);
    let of = |op: &Op| if let Op::Moe(m) = op { m.top_k } else { 0 };
    most * spec.ops().map(of).max().unwrap_or(0)
}

/// Lets as many layers stay as leave room for the window, evenly spread; all, if all fit.
fn stay(units: &mut [Unit], budget: usize, window: usize) {
    let count = units.len();
    let stays = |k: usize, u: usize| (u + 1) * k / count > u * k / count;
    let fits = |k: &usize| {
        let held: usize = (0..count).filter(|u| stays(*k, *u)).map(|u| units[u].bytes).sum();
        held + if *k < count { window } else { 0 } <= budget
    };
    let k = (0..=count).rev().find(fits).unwrap_or(0);
    (0..count).for_each(|u| units[u].stays = stays(k, u));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(bytes: usize) -> Unit {
        Unit { parts: vec![], bytes, stays: false }
    }

    #[test]
    fn as_many_stay_as_fit() {
        let check = |sizes: &[usize], budget: usize, staying: &[usize]| {
            let mut units: Vec<Unit> = sizes.iter().map(|bytes| unit(*bytes)).collect();
            let window = window(&units);
            stay(&mut units, budget, window);
            let found: Vec<usize> = (0..units.len()).filter(|u| units[*u].stays).collect();
            assert_eq!(found, staying, "{sizes:?} in {budget}");
        };
        check(&[5; 4], 20, &[0, 1, 2, 3]);
        check(&[5; 4], 19, &[3]);
        check(&[5; 4], 14, &[]);
        check(&[5; 4], 0, &[]);
        check(&[5; 6], 25, &[1, 3, 5]);
        check(&[1, 1, 1, 9], 11, &[]);
        check(&[1, 1, 1, 9], 12, &[0, 1, 2, 3]);
    }

    #[test]
    fn experts_leave_by_age() {
        let units = (0..8).map(|e| ((0, e), unit(10))).collect();
        let experts = Experts { units, budget: 30, ..Experts::default() };
        let mut flow = Flow { experts, ..Flow::default() };
        let mut check = |visits: &[usize], held: &[usize]| {
            flow.visit(0, visits.iter().copied());
            let mut found: Vec<usize> = flow.experts.visits.keys().map(|k| k.1).collect();
            found.sort_unstable();
            assert_eq!(found, held, "after {visits:?}");
            assert_eq!(flow.experts.held, 10 * held.len());
            assert_eq!(flow.experts.by_age.len(), held.len());
        };
        check(&[0, 1], &[0, 1]);
        check(&[2, 0], &[0, 1, 2]);
        check(&[3], &[0, 2, 3]);
        check(&[2], &[0, 2, 3]);
        check(&[4], &[2, 3, 4]);
        // Those of one pass are all needed, however many.
        check(&[5, 6, 7, 0], &[0, 5, 6, 7]);
        check(&[1], &[0, 1, 7]);
        check(&[9], &[0, 1, 7]);
    }
}
