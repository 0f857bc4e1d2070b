//! From a checkpoint's name to the canonical tensors that are made of it, by a family's tables.
use super::recipe::{Form, Made, Part, Recipe, Rows};
use crate::families::common::names::OUTER;
use crate::families::{Cut, Per, Rename};
use crate::spec::{Layer, ModelSpec, Op};
use std::collections::{BTreeMap, HashMap};

/// The shapes of what a model needs, by canonical name.
pub(super) type Shapes = HashMap<String, Vec<usize>>;

/// What a tensor becomes: nothing if ignored, none if no table knows it. The first rule that fits and
/// makes what is needed, or else one that ignores this name and no others, or else the first that fits.
pub(super) fn rename(
    tables: &[&[Rename]],
    name: &str,
    spec: &ModelSpec,
    shapes: &Shapes,
) -> Option<Vec<Made>> {
    let rules = || tables.iter().copied().flatten();
    let mut fitting = rules().filter_map(|rule| apply(rule, name, spec, shapes));
    let first = fitting.next()?;
    let needed = |made: &Vec<Made>| {
        !made.is_empty() && made.iter().all(|made| shapes.contains_key(&made.name))
    };
    if first.is_empty() || needed(&first) {
        return Some(first);
    }
    let alone = |rule: &&Rename| matches!(rule, Rename::Ignore(name) if !name.ends_with('*'));
    let ignored = || rules().filter(alone).find_map(|rule| apply(rule, name, spec, shapes));
    Some(fitting.find(needed).or_else(ignored).unwrap_or(first))
}

/// What a rule makes of a tensor, if it fits.
pub(super) fn apply(
    rule: &Rename,
    name: &str,
    spec: &ModelSpec,
    shapes: &Shapes,
) -> Option<Vec<Made>> {
    let suffix = [".weight", ".bias"].into_iter().find(|s| name.ends_with(s)).unwrap_or("");
    let stem = &name[..name.len() - suffix.len()];
    let from = || name.to_owned();
    if let Rename::Join(patterns, targets) = rule {
        return join(patterns, targets, stem, suffix, spec, shapes);
    }
    let (Rename::To(pattern, _)
    | Rename::Split(pattern, _)
    | Rename::Cut(pattern, ..)
    | Rename::Stack(pattern, _)
    | Rename::Flat(pattern, _)
    | Rename::PlusOne(pattern, _)
    | Rename::NegExp(pattern, _)
    | Rename::Map(pattern, ..)
    | Rename::Next(pattern, ..)
    | Rename::Ignore(pattern)) = rule
    else {
        return None;
    };
    let at = captured(pattern, stem, spec.layers.len())?;
    let to = |target: &str| target.replace("{}", &at.layer).replace("{e}", &at.expert) + suffix;
    let one = |target: &str, recipe| vec![Made::of(to(target), recipe)];
    let cut = |cut, targets: &[&str]| {
        let targets = targets.iter().map(|t| to(t)).collect();
        parts(
            targets,
            name,
            cut,
            at.layer.parse().ok().and_then(|i: usize| spec.layers.get(i)),
            shapes,
        )
    };
    Some(match rule {
        Rename::Ignore(_) | Rename::Join(..) => Vec::new(),
        Rename::To(_, to) => one(to, Recipe::Whole(from())),
        Rename::Flat(_, to) => one(to, Recipe::Flat(from())),
        Rename::PlusOne(_, to) if suffix == ".bias" => one(to, Recipe::Whole(from())),
        Rename::PlusOne(_, to) => one(to, Recipe::Mapped(from(), |x| x + 1.0)),
        Rename::NegExp(_, to) => one(to, Recipe::Mapped(from(), |x| -libm::exp(x.into()) as f32)),
        Rename::Map(_, map, to) => one(to, Recipe::Mapped(from(), *map)),
        Rename::Stack(_, to) => {
            let expert = at.expert.parse().ok()?;
            one(to, Recipe::Stack(BTreeMap::from([(expert, from())])))
        }
        Rename::Next(_, next, last) => {
            let name = after(at.layer.parse().ok()?, spec.layers.len(), next, last);
            vec![Made::of(name + suffix, Recipe::Whole(from()))]
        }
        Rename::Split(_, targets) => cut(Cut::Rows, targets),
        Rename::Cut(_, how, targets) => cut(*how, targets),
    })
}

/// What is called `next` of the layer after `layer`, or `last` after the last one.
fn after(layer: usize, layers: usize, next: &str, last: &str) -> String {
    match layer + 1 < layers {
        true => next.replace("{}", &(layer + 1).to_string()),
        false => last.to_owned(),
    }
}

/// The targets' rows within those of all sources, which the first of these stands for.
fn join(
    patterns: &[&str],
    targets: &[&str],
    stem: &str,
    suffix: &str,
    spec: &ModelSpec,
    shapes: &Shapes,
) -> Option<Vec<Made>> {
    let layers = spec.layers.len();
    let (i, at) = patterns
        .iter()
        .enumerate()
        .find_map(|(i, pattern)| Some((i, captured(pattern, stem, layers)?)))?;
    if i > 0 {
        return Some(Vec::new());
    }
    let full = |name: &&str| name.replace("{}", &at.layer) + suffix;
    let whole = OUTER.iter().any(|outer| stem.starts_with(outer));
    let sources = patterns.iter().map(|pattern| {
        let bare = OUTER.iter().find_map(|outer| pattern.strip_prefix(outer));
        full(&bare.filter(|_| !whole).unwrap_or(pattern))
    });
    let sources: Vec<String> = sources.collect();
    let made = parts(targets.iter().map(full).collect(), "", Cut::Rows, None, shapes);
    let joined = made.into_iter().map(|made| match made.recipe {
        Recipe::Part(_, part) => Made::of(made.name, Recipe::Joined(sources.clone(), part)),
        other => Made::of(made.name, other),
    });
    Some(joined.collect())
}

/// What a pattern's holes stand for: digits.
#[derive(Default)]
pub(super) struct Captured {
    pub layer: String,
    pub expert: String,
}

/// As [`capture`], with or without what names begin with.
pub(super) fn captured(pattern: &str, name: &str, layers: usize) -> Option<Captured> {
    let inner = OUTER.iter().find_map(|outer| pattern.strip_prefix(outer));
    let mut patterns = [Some(pattern), inner].into_iter().flatten();
    patterns.find_map(|pattern| capture(pattern, name, layers))
}

/// `{}` is a layer, `{past}` one after the last, `{e}` an expert, a final `*` anything.
fn capture(mut pattern: &str, mut name: &str, layers: usize) -> Option<Captured> {
    let mut captured = Captured::default();
    while let Some(at) = pattern.find('{') {
        let (literal, hole) = pattern.split_at(at);
        name = name.strip_prefix(literal)?;
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = name.split_at_checked(digits).filter(|(n, _)| !n.is_empty())?;
        let (hole, after) = hole.split_at(hole.find('}')? + 1);
        match hole {
            "{e}" => number.clone_into(&mut captured.expert),
            "{past}" => drop(number.parse().ok().filter(|i: &usize| *i >= layers)?),
            _ => number.clone_into(&mut captured.layer),
        }
        (pattern, name) = (after, rest);
    }
    let rest = pattern.strip_suffix('*').map(|start| name.starts_with(start));
    rest.unwrap_or(pattern == name).then_some(captured)
}

/// As many rows for each target as the spec says that it has.
fn parts(
    targets: Vec<String>,
    name: &str,
    cut: Cut,
    layer: Option<&Layer>,
    shapes: &Shapes,
) -> Vec<Made> {
    let shape = |target: &String| shapes.get(target).map(|shape| &shape[..]);
    let elements = |target: &String| {
        target.ends_with(".bias") || shape(target).is_some_and(|shape| shape.len() == 1)
    };
    let rows = |target: &String| {
        let back = if elements(target) { 1 } else { 2 };
        shape(target).and_then(|s| s.len().checked_sub(back).map(|axis| s[axis])).unwrap_or(0)
    };
    let all: usize = targets.iter().map(rows).sum();
    let (turned, times, alternate) = match cut {
        Cut::Rows => (false, 1, false),
        Cut::Columns => (true, 1, false),
        Cut::Heads(per) => (false, layer.map_or(1, |layer| per.count(layer)), false),
        Cut::Alternate => (false, 1, true),
        Cut::AlternateColumns => (true, 1, true),
        Cut::KeysValues => return keys_values(targets, name, shape),
    };
    let (count, mut from) = (targets.len(), 0);
    let made = targets.into_iter().enumerate().map(|(i, target)| {
        let (elements, mine) = (elements(&target), rows(&target));
        let rows = if alternate {
            Rows { start: i, len: 1, step: count, times: mine }
        } else {
            Rows { start: from, len: mine / times, step: all / times, times }
        };
        from += rows.len;
        // A vector is the same either way round.
        let part = Part { turned: turned && !elements, elements, rows, form: Form::Matrix };
        Made::of(target, Recipe::Part(name.to_owned(), part))
    });
    made.collect()
}

/// Of each head the rows of its keys, whose matrices are turned, then those of its values.
fn keys_values<'n>(
    targets: Vec<String>,
    name: &str,
    shape: impl Fn(&String) -> Option<&'n [usize]>,
) -> Vec<Made> {
    // Matrices, and the rows that each takes.
    let stack = |(i, target)| match shape(target) {
        Some(&[heads, rows, cols]) => (heads, if i == 0 { cols } else { rows }),
        _ => (0, 0),
    };
    let stacks: Vec<(usize, usize)> = targets.iter().enumerate().map(stack).collect();
    let (step, mut start) = (stacks.iter().map(|s| s.1).sum(), 0);
    let made = targets.into_iter().zip(stacks).enumerate().map(|(i, (target, (times, len)))| {
        let rows = Rows { start, len, step, times };
        start += len;
        let form = if i == 0 { Form::TurnedStack } else { Form::Stack };
        let part = Part { turned: false, elements: false, rows, form };
        Made::of(target, Recipe::Part(name.to_owned(), part))
    });
    made.collect()
}

impl Per {
    /// How many there are in a layer; at least one.
    fn count(self, layer: &Layer) -> usize {
        self.find(layer).unwrap_or(1)
    }
    /// The same, if there are any.
    pub(super) fn find(self, layer: &Layer) -> Option<usize> {
        let ops = layer.iter().flat_map(|b| &b.parts).map(|part| &part.op);
        let count = ops.filter_map(|op| match (self, op) {
            (Per::KvHead, Op::Attention(a)) => Some(a.kv_heads),
            (Per::Head, Op::Attention(a)) => Some(a.heads),
            (Per::Head, Op::Mla(m)) => Some(m.heads),
            (Per::Head, Op::Lightning(l)) => Some(l.heads),
            (Per::KeyHead, Op::DeltaNet(n)) => Some(n.k_heads),
            _ => None,
        });
        count.max().filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Source};
    use crate::families::common::Common;
    use rinfer_formats::{DType, Tensor, Weights};
    use serde_json::json;
    use std::collections::HashMap;

    struct Raw(Vec<(&'static str, Vec<usize>, Vec<f32>)>);
    impl Weights for Raw {
        fn get(&self, name: &str) -> Option<Tensor<'_>> {
            let (_, shape, values) = self.0.iter().find(|t| t.0 == name)?;
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            Some(Tensor { dtype: DType::F32, shape: shape.into(), bytes: bytes.into() })
        }
        fn names(&self) -> Vec<&str> {
            self.0.iter().map(|t| t.0).collect()
        }
    }

    const TABLE: &[Rename] = &[
        Rename::To("a.{}.q", "blk.{}.q"),
        Rename::Next("a.{}.after", "blk.{}.before", "end"),
        Rename::Split("a.{}.qk", &["blk.{}.b", "blk.{}.c"]),
        Rename::Cut("a.{}.turned", Cut::Columns, &["blk.{}.b", "blk.{}.c"]),
        Rename::Cut("a.{}.heads", Cut::Heads(Per::Head), &["blk.{}.h", "blk.{}.i"]),
        Rename::Cut("a.{}.turns", Cut::Alternate, &["blk.{}.h", "blk.{}.h2"]),
        Rename::Cut("a.{}.columns", Cut::AlternateColumns, &["blk.{}.h", "blk.{}.h2"]),
        Rename::Cut("a.{}.kv", Cut::KeysValues, &["blk.{}.k_b", "blk.{}.v_b"]),
        Rename::Split("a.{}.x.both", &["blk.{}.gate", "blk.{}.up"]),
        Rename::Stack("a.{}.x.{e}.up", "blk.{}.up_exps"),
        Rename::PlusOne("a.norm", "norm"),
        Rename::To("model.b.{}.q", "blk.{}.c"),
        Rename::To("a.{}.q", "blk.{}.b"),
        Rename::NegExp("a.{}.A_log", "blk.{}.ssm_a"),
        Rename::Map("a.{}.half", |x| x / 2.0, "blk.{}.half"),
        Rename::Join(&["a.{}.j0", "a.{}.j1"], &["blk.{}.j", "blk.{}.l"]),
        Rename::To("a.{}.one", "blk.{}.not_needed"),
        Rename::To("a.{}.one", "blk.{}.both"),
        Rename::Flat("a.{}.flat", "blk.{}.flat"),
        Rename::Ignore("a.{}.inv_freq"),
        Rename::Ignore("a.{past}.*"),
    ];

    /// Eight layers of two heads.
    fn spec() -> ModelSpec {
        let json = json!({
            "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 8, "vocab_size": 9,
            "intermediate_size": 8,
        });
        let c = Common::read(&Config::new(json, Source::HuggingFace)).unwrap();
        let mlp = c.plain(crate::spec::Act::Silu, false);
        c.decoder((0..c.layers).map(|_| c.attention()), &mlp)
    }

    /// Renames `raw` with [`TABLE`] and shows one canonical tensor.
    fn check(raw: Raw, name: &str, shape: &[usize], values: &[f32]) {
        let need = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec());
        let needs = HashMap::from([
            need("blk.7.b.weight", &[1, 2]),
            need("blk.7.c.weight", &[2, 2]),
            need("blk.7.h.weight", &[2, 1]),
            need("blk.7.h2.weight", &[2, 1]),
            need("blk.7.i.weight", &[4, 1]),
            need("blk.7.h.bias", &[2]),
            need("blk.7.i.bias", &[4]),
            need("blk.7.gate.weight", &[2, 1, 1]),
            need("blk.7.up.weight", &[2, 2, 1]),
            need("blk.7.k_b.weight", &[2, 2, 1]),
            need("blk.7.v_b.weight", &[2, 2, 2]),
            need("blk.7.j.weight", &[3, 1]),
            need("blk.7.l.weight", &[2, 1]),
            need("blk.7.both.weight", &[2, 1]),
        ]);
        let mut recipes: HashMap<String, Recipe> = HashMap::new();
        for from in raw.names() {
            for made in rename(&[&[], TABLE], from, &spec(), &needs).expect("a known name") {
                match (recipes.get_mut(&made.name), made.recipe) {
                    (Some(Recipe::Stack(all)), Recipe::Stack(mut one)) => all.append(&mut one),
                    (_, recipe) => drop(recipes.insert(made.name, recipe)),
                }
            }
        }
        let described = recipes[name].describe(&raw).map(|(_, shape)| shape);
        let Some(found) = recipes[name].make(&raw) else {
            return assert!(shape.is_empty() && described.is_none(), "{name}");
        };
        assert_eq!(described.as_deref(), Some(shape), "{name}");
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!((&*found.shape, &*found.bytes), (shape, &bytes[..]), "{name}");
        if let ([count, rest @ ..], 3) = (shape, shape.len()) {
            for (i, bytes) in bytes.chunks(bytes.len() / count).enumerate() {
                let part = recipes[name].part(&raw, i).expect("a part");
                assert_eq!((&*part.shape, &*part.bytes), (rest, bytes), "{name}: {i}");
            }
        }
    }

    #[test]
    fn renames() {
        let t = |name, shape: &[usize], values: &[f32]| (name, shape.to_vec(), values.to_vec());
        let one = |name, shape: &[usize], values: &[f32]| Raw(vec![t(name, shape, values)]);
        check(one("a.12.q.bias", &[1], &[3.0]), "blk.12.q.bias", &[1], &[3.0]);
        check(one("a.7.q.weight", &[1], &[3.0]), "blk.7.b.weight", &[1], &[3.0]);
        for name in ["model.b.7.q.weight", "b.7.q.weight"] {
            check(one(name, &[1], &[3.0]), "blk.7.c.weight", &[1], &[3.0]);
        }
        check(one("a.norm.weight", &[2], &[0.5, -1.0]), "norm.weight", &[2], &[1.5, 0.0]);
        check(one("a.norm.bias", &[2], &[0.5, -1.0]), "norm.bias", &[2], &[0.5, -1.0]);
        check(one("a.0.A_log", &[1], &[0.0]), "blk.0.ssm_a", &[1], &[-1.0]);
        check(one("a.0.half", &[1], &[3.0]), "blk.0.half", &[1], &[1.5]);
        let fused = || one("a.7.qk.weight", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(one("a.0.flat", &[2, 1], &[3.0, 4.0]), "blk.0.flat", &[2], &[3.0, 4.0]);
        check(fused(), "blk.7.b.weight", &[1, 2], &[1.0, 2.0]);
        check(fused(), "blk.7.c.weight", &[2, 2], &[3.0, 4.0, 5.0, 6.0]);
        let short = one("a.7.qk.weight", &[2, 2], &[1.0; 4]);
        check(short, "blk.7.c.weight", &[], &[]);
        let expert = |name, v: f32| t(name, &[1, 2], &[v, v]);
        let (one, two) = (expert("a.3.x.1.up.weight", 1.0), expert("a.3.x.0.up.weight", 0.0));
        let both = Raw(vec![one.clone(), two]);
        check(both, "blk.3.up_exps.weight", &[2, 1, 2], &[0.0, 0.0, 1.0, 1.0]);
        check(Raw(vec![one]), "blk.3.up_exps.weight", &[], &[]);
    }

    #[test]
    fn cuts() {
        let one = |name, shape: &[usize], n: u8| {
            Raw(vec![(name, shape.to_vec(), (0..n).map(f32::from).collect())])
        };
        let turned = || one("a.7.turned.weight", &[2, 3], 6);
        check(turned(), "blk.7.b.weight", &[1, 2], &[0.0, 3.0]);
        check(turned(), "blk.7.c.weight", &[2, 2], &[1.0, 4.0, 2.0, 5.0]);
        for (suffix, shape) in [("weight", &[6, 1][..]), ("bias", &[6])] {
            let name = if suffix == "bias" { "a.7.heads.bias" } else { "a.7.heads.weight" };
            let heads = || one(name, shape, 6);
            let of = |n: usize| [&[n], &shape[1..]].concat();
            check(heads(), &format!("blk.7.h.{suffix}"), &of(2), &[0.0, 3.0]);
            check(heads(), &format!("blk.7.i.{suffix}"), &of(4), &[1.0, 2.0, 4.0, 5.0]);
        }
        let turns = || one("a.7.turns.weight", &[4, 1], 4);
        check(turns(), "blk.7.h.weight", &[2, 1], &[0.0, 2.0]);
        check(turns(), "blk.7.h2.weight", &[2, 1], &[1.0, 3.0]);
        check(one("a.7.columns.weight", &[1, 4], 4), "blk.7.h2.weight", &[2, 1], &[1.0, 3.0]);
        let kv = || one("a.7.kv.weight", &[6, 2], 12);
        check(kv(), "blk.7.k_b.weight", &[2, 2, 1], &[0.0, 1.0, 6.0, 7.0]);
        let v = [2.0, 3.0, 4.0, 5.0, 8.0, 9.0, 10.0, 11.0];
        check(kv(), "blk.7.v_b.weight", &[2, 2, 2], &v);
        check(
            one("a.7.kv.weight", &[5, 2], 10),
            "blk.7.k_b.weight",
            &[2, 2, 1],
            &[0.0, 1.0, 6.0, 7.0],
        );
        check(one("a.7.kv.weight", &[5, 2], 10), "blk.7.v_b.weight", &[], &[]);
        let both = || one("a.7.x.both.weight", &[2, 3, 1], 6);
        check(both(), "blk.7.gate.weight", &[2, 1, 1], &[0.0, 3.0]);
        check(both(), "blk.7.up.weight", &[2, 2, 1], &[1.0, 2.0, 4.0, 5.0]);
    }

    #[test]
    fn rules_for_what_is_needed() {
        let t = |name, shape: &[usize], values: &[f32]| (name, shape.to_vec(), values.to_vec());
        let pieces = || {
            let first = t("a.7.j0.weight", &[1, 1], &[0.0]);
            Raw(vec![t("a.7.j1.weight", &[4, 1, 1], &[1.0, 2.0, 3.0, 4.0]), first])
        };
        check(pieces(), "blk.7.j.weight", &[3, 1], &[0.0, 1.0, 2.0]);
        check(pieces(), "blk.7.l.weight", &[2, 1], &[3.0, 4.0]);
        let one = |name| Raw(vec![t(name, &[2, 1], &[0.0, 1.0])]);
        check(one("a.7.one.weight"), "blk.7.both.weight", &[2, 1], &[0.0, 1.0]);
        check(one("a.6.one.weight"), "blk.6.not_needed.weight", &[2, 1], &[0.0, 1.0]);
        check(one("a.6.after.weight"), "blk.7.before.weight", &[2, 1], &[0.0, 1.0]);
        check(one("a.7.after.bias"), "end.bias", &[2, 1], &[0.0, 1.0]);
    }

    #[test]
    fn names() {
        for ignored in ["a.3.inv_freq", "a.8.anything.weight", "a.12.q.weight.scale"] {
            let found = rename(&[TABLE], ignored, &spec(), &HashMap::new());
            assert!(found.is_some_and(|r| r.is_empty()), "{ignored}");
        }
        for unknown in
            ["a.q.weight", "a.x.q.weight", "c.1.q.weight", "a.1.q.weight.scale", "a.1.qq"]
        {
            assert!(rename(&[TABLE], unknown, &spec(), &HashMap::new()).is_none(), "{unknown}");
        }
    }
}
