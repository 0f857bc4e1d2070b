//! Multipliers that GGUF has no keys for, in the weights before them or after.
use crate::spec::{Attention, Branch, Head, Mamba2, ModelSpec, Op, Part};
use crate::weights::{Owner, layer};
use std::collections::HashMap;

/// By canonical tensor, what it is multiplied by: one number, or one for each row.
pub(super) type Factors = HashMap<String, Vec<f32>>;

/// The tokens' vectors, and a head's that is not the same.
pub(super) const EMBEDDING: &str = "token_embd.weight";
pub(super) const OUTPUT: &str = "output.weight";

/// A model without the multipliers that may be folded: what is to be said in keys.
pub(super) fn bare(spec: &ModelSpec) -> ModelSpec {
    let mut bare = spec.clone();
    bare.embed.scale = 1.0;
    if let Head::Lm { scale, .. } = &mut bare.head {
        *scale = 1.0;
    }
    for branch in bare.layers.iter_mut().flatten() {
        let takes = takes(branch);
        if takes {
            branch.scale = 1.0;
        }
        for part in &mut branch.parts {
            if takes {
                part.scale = 1.0;
            }
            match &mut part.op {
                Op::Mlp(mlp) => mlp.gate_scale = 1.0,
                Op::Mamba2(mixer) => mixer.scales = [1.0; 5],
                _ => {}
            }
        }
    }
    bare
}

/// Whether all that a branch adds to the stream is products of matrices that a factor goes into.
fn takes(branch: &Branch) -> bool {
    let last = |part: &Part| {
        part.post.is_none() && matches!(part.op, Op::Attention(_) | Op::Mlp(_) | Op::Mamba2(_))
    };
    branch.post.is_none() && branch.parts.iter().all(last)
}

/// What the weights of `ours` are multiplied by to be those of `theirs`, and what `ours` is then.
pub(super) fn folded(ours: &ModelSpec, theirs: &ModelSpec) -> (Factors, ModelSpec) {
    let (mut all, mut spec) = (Folds::default(), ours.clone());
    let entry = all.ratio(&mut spec.embed.scale, theirs.embed.scale);
    if let (Head::Lm { tied, scale, .. }, Head::Lm { scale: to, .. }) =
        (&mut spec.head, &theirs.head)
    {
        let exit = all.ratio(scale, *to);
        // What is both becomes two.
        *tied &= entry == exit;
        if !*tied {
            all.put(OUTPUT, exit);
        }
        all.put("output.bias", exit);
    }
    all.put(EMBEDDING, entry);
    for (i, (here, there)) in spec.layers.iter_mut().zip(&theirs.layers).enumerate() {
        // What layers share is not one layer's to change.
        for (branch, to) in here.iter_mut().zip(there).filter(|(b, _)| b.shared.is_none()) {
            let (takes, owner) = (takes(branch), Owner::of(i, branch));
            let whole = if takes { all.ratio(&mut branch.scale, to.scale) } else { 1.0 };
            for (part, to) in branch.parts.iter_mut().zip(&to.parts) {
                let own = if takes { all.ratio(&mut part.scale, to.scale) } else { 1.0 };
                all.part(owner, (&mut part.op, &to.op), whole * own);
            }
        }
    }
    (all.0, spec)
}

#[derive(Default)]
struct Folds(Factors);

impl Folds {
    /// What makes `ours` of `theirs`, which it becomes.
    fn ratio(&self, ours: &mut f32, theirs: f32) -> f32 {
        let was = std::mem::replace(ours, theirs);
        if was == theirs { 1.0 } else { was / theirs }
    }
    fn put(&mut self, name: &str, by: f32) {
        if by != 1.0 {
            self.0.insert(name.to_owned(), vec![by]);
        }
    }
    fn projection(&mut self, owner: Owner, part: &str, by: f32) {
        for suffix in ["weight", "bias"] {
            self.put(&layer(owner, &format!("{part}.{suffix}")), by);
        }
    }
    fn part(&mut self, owner: Owner, (ours, theirs): (&mut Op, &Op), out: f32) {
        match (ours, theirs) {
            (Op::Attention(a), Op::Attention(b)) => {
                self.queries(owner, a, b);
                self.projection(owner, "attn_output", out);
            }
            (Op::Mlp(a), Op::Mlp(b)) => {
                if a.adapter.is_none() {
                    let gate = self.ratio(&mut a.gate_scale, b.gate_scale);
                    self.projection(owner, "ffn_gate", gate);
                }
                self.projection(owner, "ffn_down", out);
            }
            (Op::Mamba2(a), Op::Mamba2(b)) => {
                self.mixer(owner, a, b);
                self.projection(owner, "ssm_out", out);
            }
            _ => {}
        }
    }
    /// The factor of scores, in what is last multiplied into queries.
    fn queries(&mut self, owner: Owner, a: &mut Attention, b: &Attention) {
        let normed = a.qk_norm.map(|qk| qk.norm.weight && !qk.norm.bias);
        if a.clip.is_some() || a.adapter.is_some() || normed == Some(false) {
            return;
        }
        let by = self.ratio(&mut a.scale, b.scale);
        match normed {
            Some(_) => self.put(&layer(owner, "attn_q_norm.weight"), by),
            None => self.projection(owner, "attn_q", by),
        }
    }
    /// z; x, B and C; the steps.
    fn mixer(&mut self, owner: Owner, a: &mut Mamba2, b: &Mamba2) {
        let mut by = [1.0; 5];
        for (i, by) in by.iter_mut().enumerate() {
            *by = self.ratio(&mut a.scales[i], b.scales[i]);
        }
        let [z, x, keys, values, steps] = by;
        self.projection(owner, "ssm_in_z", z);
        self.projection(owner, "ssm_in_dt", steps);
        if [x, keys, values] != [1.0; 3] {
            let each = a.groups * a.state;
            let rows = [(x, a.inner()), (keys, each), (values, each)];
            let rows: Vec<f32> =
                rows.into_iter().flat_map(|(by, n)| std::iter::repeat_n(by, n)).collect();
            for suffix in ["weight", "bias"] {
                self.0.insert(layer(owner, &format!("ssm_in_x.{suffix}")), rows.clone());
            }
        }
    }
}
