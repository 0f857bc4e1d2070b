//! Rows and columns that lie in another order in GGUF files than in a folder.
use super::layer;
use crate::families::Family;
use crate::spec::{DeltaNet, ModelSpec, Op, Rope, RopeId, RopeLayout};
use std::collections::HashMap;

/// A row for each position.
pub(crate) const POSITIONS: &str = "position_embd.weight";

/// By canonical tensor, of each row or column of the file the folder's.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    pub rows: HashMap<String, Vec<usize>>,
    pub columns: HashMap<String, Vec<usize>>,
}

impl Moved {
    /// What changes places from a folder of `ours` to a GGUF file of `theirs`: specs of one model.
    ///
    /// # Errors
    /// What of the file's is not made of the folder's.
    pub fn between(family: &Family, ours: &ModelSpec, theirs: &ModelSpec) -> Result<Moved, String> {
        let mut moved = Moved::default();
        // A file's table begins with the first position's row.
        if let (Some(a), Some(b)) = (&ours.embed.positions, &theirs.embed.positions)
            && a.offset != b.offset
        {
            moved.rows.insert(POSITIONS.to_owned(), (a.offset - b.offset..a.rows).collect());
        }
        let layers = ours.layers.iter().zip(&theirs.layers).enumerate();
        for (i, (ours_here, theirs_here)) in layers {
            let ops = |layer: &[crate::spec::Branch]| -> Vec<Op> {
                layer.iter().flat_map(|b| &b.parts).map(|part| part.op.clone()).collect()
            };
            for pair in ops(ours_here).into_iter().zip(ops(theirs_here)) {
                match pair {
                    (Op::Attention(a), Op::Attention(b)) => {
                        // Those that do not rotate are stored as the others are.
                        let [from, to] = [table(ours, a.rope), table(theirs, b.rope)];
                        match from.zip(to).filter(|(a, b)| a.layout != b.layout) {
                            None if !family.permutes() => continue,
                            Some((from, to))
                                if from.layout != RopeLayout::Halves || from.dim != a.head_dim =>
                            {
                                return Err(unlike(to));
                            }
                            _ => {}
                        }
                        moved.halves(i, "attn_q", (a.heads, a.head_dim));
                        moved.halves(i, "attn_k", (a.kv_heads, a.head_dim));
                    }
                    (Op::Mla(a), Op::Mla(b)) => {
                        let [from, to] = [table(ours, a.rope), table(theirs, b.rope)];
                        if let Some((_, to)) = from.zip(to).filter(|(a, b)| a.layout != b.layout) {
                            return Err(unlike(to));
                        }
                    }
                    (Op::DeltaNet(a), Op::DeltaNet(b)) if a.interleaved != b.interleaved => {
                        moved.turns(i, &a);
                    }
                    _ => {}
                }
            }
        }
        Ok(moved)
    }

    /// Halves of heads, which become pairs: pair `j` is what was row `j` of both.
    fn halves(&mut self, i: usize, part: &str, (heads, dim): (usize, usize)) {
        let from = |row| row / dim * dim + row % 2 * (dim / 2) + row % dim / 2;
        let rows: Vec<usize> = (0..heads * dim).map(from).collect();
        for suffix in ["weight", "bias"] {
            self.rows.insert(layer(i, &format!("{part}.{suffix}")), rows.clone());
        }
    }

    /// Value heads, in turns of their key heads or one key head's after the other's.
    fn turns(&mut self, i: usize, n: &DeltaNet) {
        let each = n.v_heads / n.k_heads;
        let head = |h: usize| match n.interleaved {
            false => h % n.k_heads * each + h / n.k_heads,
            true => h % each * n.k_heads + h / each,
        };
        let rows = |width: usize| -> Vec<usize> {
            (0..n.v_heads).flat_map(|h| (0..width).map(move |i| head(h) * width + i)).collect()
        };
        for part in ["attn_v.weight", "attn_gate.weight", "ssm_conv1d_v.weight"] {
            self.rows.insert(layer(i, part), rows(n.v_dim));
        }
        for part in ["ssm_alpha.weight", "ssm_beta.weight", "ssm_a", "ssm_dt.bias"] {
            self.rows.insert(layer(i, part), rows(1));
        }
        self.columns.insert(layer(i, "ssm_out.weight"), rows(n.v_dim));
    }
}

fn table(spec: &ModelSpec, id: Option<RopeId>) -> Option<&Rope> {
    spec.ropes.get(usize::from(id.map_or(0, |id| id.0)))
}

fn unlike(to: &Rope) -> String {
    let layout = match to.layout {
        RopeLayout::Pairs => "neighbours",
        RopeLayout::Halves => "halves",
    };
    format!("GGUF has heads that rotate in {layout}, which its are not")
}
