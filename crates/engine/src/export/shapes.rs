//! The shapes that llama.cpp asks for, where they have axes of one element more or fewer, or cut a
//! vector, or rows that no position has.
use crate::spec::{Decay, ModelSpec, Op};
use crate::weights::Filed;
use crate::weights::moved::POSITIONS;

/// A tensor's shape in a file.
pub(super) fn of(spec: &ModelSpec, filed: &Filed) -> Vec<usize> {
    let shape = &filed.shape[..];
    if let (POSITIONS, Some(table)) = (&*filed.name, &spec.embed.positions) {
        return vec![table.rows - table.offset, spec.d_model];
    }
    let at = filed.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let Some((layer, part)) = at else { return shape.to_vec() };
    let layer = layer.parse().ok().and_then(|i: usize| spec.layers.get(i));
    let mut ops = layer.into_iter().flatten().flat_map(|b| &b.parts).map(|part| &part.op);
    let has = |op: &&Op| match op {
        Op::Mamba2(_) => part.starts_with("ssm_"),
        Op::DeltaNet(n) => n.decay != Decay::PerHead && part.starts_with("ssm_"),
        _ => false,
    };
    match (ops.find(has), part, shape) {
        (Some(Op::Mamba2(_)), "ssm_a" | "ssm_d", [heads]) => vec![*heads, 1],
        (Some(Op::Mamba2(m)), "ssm_norm.weight", [inner]) => vec![m.groups, inner / m.groups],
        (Some(Op::DeltaNet(_)), "ssm_a", [heads]) => vec![1, 1, *heads, 1],
        (Some(Op::DeltaNet(_)), name, [channels, width]) if name.starts_with("ssm_conv1d") => {
            vec![1, *channels, 1, *width]
        }
        _ => shape.to_vec(),
    }
}
