//! Whether a spec that comes from a file makes sense: what families' configs are checked for, of
//! numbers that have no config any more.
use crate::spec::{
    Attention, DeltaNet, Head, Keys, Lightning, Mamba1, Mamba2, Mla, Mlp, ModelSpec, Moe, Op,
    RgLru, Rope, RopeId, Scaling,
};

/// Looks at every number that something is divided, cut or found by.
///
/// # Errors
/// The first that no model has: where it is, and what must be true.
pub fn check(spec: &ModelSpec) -> Result<(), (String, &'static str)> {
    let at = |place: &str| place.to_owned();
    let ends = [spec.d_model, spec.vocab, spec.context];
    ensure(all(&ends), || (at("spec"), "a width, a vocabulary and a context"))?;
    let places = spec.embed.positions.is_none_or(|p| p.rows > p.offset);
    let per_layer = spec.embed.per_layer.is_none_or(|p| all(&[p.width, p.rows]));
    let types = spec.embed.types != Some(0);
    ensure(places && per_layer && types, || (at("spec.embed"), "tables with rows"))?;
    let widths = match &spec.head {
        Head::Pool { dense, .. } => dense.iter().all(|layer| layer.width > 0),
        Head::Lm { .. } => true,
    };
    ensure(widths, || (at("spec.head"), "dense layers with a width"))?;
    ensure(spec.altup.is_none_or(|a| a.streams >= 2), || {
        (at("spec.altup"), "two streams or more")
    })?;
    for (i, rope) in spec.ropes.iter().enumerate() {
        ensure(rotates(rope), || (format!("spec.ropes.{i}"), "an even dim, and a divisor a pair"))?;
    }
    for (i, layer) in spec.layers.iter().enumerate() {
        let place = || format!("spec.layers.{i}");
        ensure(!layer.is_empty(), || (place(), "a branch or more"))?;
        for branch in layer {
            ensure(!branch.parts.is_empty(), || (place(), "a part or more to a branch"))?;
            for part in &branch.parts {
                let problem = op(spec, &part.op);
                ensure(problem.is_none(), || (place(), problem.unwrap_or_default()))?;
            }
        }
    }
    let chosen = |op: &Op| matches!(op, Op::Mla(Mla { keys: Keys::Chosen(_), .. }));
    let follows = |op: &Op| matches!(op, Op::Mla(Mla { keys: Keys::AsBefore, .. }));
    let first = spec.ops().find(|op| chosen(op) || follows(op));
    ensure(!first.is_some_and(follows), || (at("spec.layers"), "keys chosen before they are used"))
}

fn ensure(
    so: bool,
    problem: impl FnOnce() -> (String, &'static str),
) -> Result<(), (String, &'static str)> {
    if so { Ok(()) } else { Err(problem()) }
}

fn all(counts: &[usize]) -> bool {
    counts.iter().all(|count| *count > 0)
}

/// Whether `groups` of equal size make `count`.
fn divides(groups: usize, count: usize) -> bool {
    groups > 0 && count > 0 && count.is_multiple_of(groups)
}

fn rotates(rope: &Rope) -> bool {
    let pairs = rope.dim / 2;
    let each = match &rope.scaling {
        Scaling::Factors(by) => by.len() == pairs,
        Scaling::LongRope { short, long, original } => {
            short.factors.len() == pairs && long.factors.len() == pairs && *original > 0
        }
        _ => true,
    };
    pairs > 0 && rope.dim.is_multiple_of(2) && each
}

/// Whether there is such a table, for heads of `dim` elements.
fn turns(spec: &ModelSpec, rope: Option<RopeId>, dim: usize) -> bool {
    rope.is_none_or(|id| spec.ropes.get(usize::from(id.0)).is_some_and(|rope| rope.dim <= dim))
}

/// What must be true of an operation and is not.
fn op(spec: &ModelSpec, op: &Op) -> Option<&'static str> {
    let (so, must) = match op {
        Op::Attention(a) => (attention(spec, a), "heads in equal groups, and a rope within a head"),
        Op::Mla(m) => (latent(spec, m), "heads and ranks, and a rope as wide as what it turns"),
        Op::Mlp(m) => (mlp(m), "a hidden layer"),
        Op::Moe(m) => (moe(m), "as many experts as rows visit, in equal groups"),
        Op::DeltaNet(n) => (delta_net(n), "value heads in equal groups"),
        Op::Lightning(l) => (lightning(l), "a slope a head"),
        Op::Mamba1(m) => (mamba1(m), "channels, states and steps"),
        Op::Mamba2(m) => (mamba2(m), "heads in equal groups, and ordered bounds of a step"),
        Op::RgLru(r) => (rg_lru(r), "channels in equal blocks"),
        Op::ShortConv(s) => (s.width > 0, "a width"),
        Op::Laurel(l) => (l.rank > 0, "a rank"),
        Op::InputGate(_) => (spec.embed.per_layer.is_some(), "inputs of layers"),
        _ => (true, ""),
    };
    (!so).then_some(must)
}

fn attention(spec: &ModelSpec, a: &Attention) -> bool {
    let reach = a.reach.most().is_none_or(|most| most > 0);
    let slopes = a.alibi.as_ref().is_none_or(|alibi| alibi.slopes.len() == a.heads);
    let adapter = a.adapter.is_none_or(|adapter| adapter.rank > 0);
    let heads = divides(a.kv_heads, a.heads) && a.head_dim > 0;
    heads && reach && slopes && adapter && turns(spec, a.rope, a.head_dim)
}

fn latent(spec: &ModelSpec, m: &Mla) -> bool {
    let table = |id: RopeId| spec.ropes.get(usize::from(id.0));
    let rope = m.rope.is_none_or(|id| table(id).is_some_and(|rope| rope.dim == m.rope_dim));
    let keys = match &m.keys {
        Keys::Chosen(index) => {
            let counts = all(&[index.heads, index.head_dim, index.top_k, m.q_rank]);
            counts && turns(spec, Some(index.rope), index.head_dim)
        }
        Keys::All | Keys::AsBefore => true,
    };
    all(&[m.heads, m.kv_rank, m.nope_dim, m.v_dim]) && rope && keys
}

fn mlp(m: &Mlp) -> bool {
    m.d_ff > 0 && m.adapter.is_none_or(|adapter| adapter.rank > 0)
}

fn moe(m: &Moe) -> bool {
    let groups = m.router.groups.is_none_or(|g| {
        let each = m.experts / g.count.max(1);
        let kept = g.top > 0 && g.top <= g.count && g.top.saturating_mul(each) >= m.top_k;
        divides(g.count, m.experts) && kept && g.best > 0 && g.best <= each
    });
    let shared = m.shared.as_ref().is_none_or(|shared| mlp(&shared.mlp));
    (1..=m.experts).contains(&m.top_k) && mlp(&m.expert) && groups && shared
}

fn delta_net(n: &DeltaNet) -> bool {
    divides(n.k_heads, n.v_heads) && all(&[n.k_dim, n.v_dim, n.conv])
}

fn lightning(l: &Lightning) -> bool {
    all(&[l.heads, l.head_dim]) && l.slopes.len() == l.heads
}

fn mamba1(m: &Mamba1) -> bool {
    all(&[m.inner, m.state, m.conv, m.dt_rank])
}

fn mamba2(m: &Mamba2) -> bool {
    let (least, most) = m.dt_limit;
    divides(m.groups, m.heads) && all(&[m.head_dim, m.state, m.conv]) && least <= most
}

fn rg_lru(r: &RgLru) -> bool {
    divides(r.heads, r.width) && r.conv > 0
}
