//! Whether a model that is read back is the model that was written.
use crate::spec::{
    DeltaNet, Groups, ModelSpec, Moe, Op, Positions, Reach, Rope, RopeLayout, Scaling,
};
use serde_json::Value;

/// How a model read back differs from what was written, if it does: by more than layouts.
pub(super) fn difference(ours: &ModelSpec, theirs: &ModelSpec) -> Option<String> {
    let (a, b) = (plain(ours), plain(theirs));
    if a != b {
        let [a, b] = [&a, &b].map(|spec| serde_json::to_value(spec).unwrap_or_default());
        return Some(odd("", &a, &b).unwrap_or_else(|| "a number is another".to_owned()));
    }
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * a.abs() + 1e-20;
    let (a, b) = (turns(ours), turns(theirs));
    let same = a.len() == b.len() && a.iter().zip(&b).all(near);
    (!same).then(|| "its rotary frequencies are others".to_owned())
}

/// Where two values first differ, and how.
fn odd(at: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().zip(b).find_map(|((key, a), (_, b))| odd(&format!("{at}.{key}"), a, b))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut all = a.iter().zip(b).enumerate();
            all.find_map(|(i, (a, b))| odd(&format!("{at}[{i}]"), a, b))
        }
        _ if a == b => None,
        _ => {
            let short = |value: &Value| {
                let text = value.to_string();
                if text.len() > 60 {
                    format!("{}…", text.chars().take(60).collect::<String>())
                } else {
                    text
                }
            };
            Some(format!("{} is {}, not {}", at.trim_start_matches('.'), short(b), short(a)))
        }
    }
}

/// What tables turn by, and multiply by.
fn turns(spec: &ModelSpec) -> Vec<f32> {
    let all = |rope: &Rope| {
        let mut all = [rope.frequencies(), vec![rope.attention()]].concat();
        if let Some((from, long)) = rope.beyond() {
            all.extend(long.frequencies());
            all.extend([long.attention(), from as f32]);
        }
        all
    };
    spec.ropes.iter().flat_map(all).collect()
}

/// Without what is the same in other words, or in another order.
fn plain(spec: &ModelSpec) -> ModelSpec {
    let rope = |rope: &Rope| Rope {
        theta: 0.0,
        scaling: Scaling::None,
        layout: RopeLayout::Halves,
        ..rope.clone()
    };
    let mut plain = ModelSpec { ropes: spec.ropes.iter().map(rope).collect(), ..spec.clone() };
    // Rows before the first position's are nobody's.
    let used = |table: Positions| Positions { rows: table.rows - table.offset, offset: 0 };
    plain.embed.positions = plain.embed.positions.map(used);
    let all = |reach: Reach| reach.most().is_none_or(|most| most >= spec.context);
    let parts = plain.layers.iter_mut().flatten().flat_map(|branch| &mut branch.parts);
    for part in parts {
        match &mut part.op {
            // No row sees more.
            Op::Attention(a) if all(a.reach) => a.reach = Reach::All,
            // All of them are no choice.
            Op::Moe(Moe { router, .. }) => router.groups = router.groups.filter(Groups::choose),
            Op::DeltaNet(DeltaNet { interleaved, .. }) => *interleaved = false,
            Op::Mamba2(m) => {
                // No step is as long.
                if m.dt_limit.1 >= 1e30 {
                    m.dt_limit.1 = f32::INFINITY;
                }
                m.norm_before_gate &= m.norm.is_some();
            }
            _ => {}
        }
    }
    plain
}
