//! `docs/capability-matrix.md` is what the registry and the goldens say, figures included: they are the
//! same on every machine. A registered family without a golden fails.
mod adapters;
mod rig;

use adapters::over_both;
use rig::{LIMITS, NATIVE, Rig, distance, divergence, goldens, open_gguf};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::families::{FAMILIES, Family};
use rinfer_engine::spec::{Decay, Keys, ModelSpec, Op, Pool, Reads};
use rinfer_engine::weights::Checkpoint;
use rinfer_formats::Gguf;
use rinfer_kernels::Kernels;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::{Golden, shared};
use std::collections::BTreeMap;

/// What is measured beside f32, and how far its mean divergence may be from the golden's logits on
/// these tiny random models, where errors do not average out: of models without a choice in them, of
/// those that choose experts or keys, where a small error now and then chooses others, and of those
/// that answer errors with errors: delta nets, whose states correct themselves by what they answer,
/// and blocks that norm what others made without the stream beside it.
const PRECISIONS: [(&str, Quant, [f64; 3]); 5] = [
    ("native", Quant::Native, [2e-3, 2e-3, 2e-3]),
    ("bf16", Quant::Bf16, [2e-3, 2e-3, 2e-3]),
    ("int8", Quant::Int8, [2e-2, 0.1, 0.25]),
    ("int8int8", Quant::Int8Int8, [3e-2, 0.15, 0.25]),
    ("int4", Quant::Int4, [0.6, 1.0, 2.0]),
];

/// One golden's line.
struct Line {
    family: &'static Family,
    architecture: String,
    mixers: String,
    feed_forward: String,
    /// Whether there are blocks of what is set aside.
    asides: bool,
    case: String,
    /// Largest difference of logits at f32.
    exact: f32,
    gguf: Option<f32>,
    /// How far an adapter over the GGUF file is from the same over the folder.
    adapted: Option<f32>,
    /// Mean divergences by precision.
    divergences: Vec<f64>,
}

fn line(golden: &Golden, gguf: &Files) -> Line {
    let weights = rig::Memory(golden.weights.clone());
    let config = Config::new(golden.config.clone(), Source::HuggingFace);
    let model = Checkpoint::open(config, &weights).expect("a model");
    let run = |quant, limits: Limits| {
        let limits = Limits { quant, ..limits };
        let mut rig = Rig::load(&model, &limits, 2, Kernels::best());
        let of = |i| golden.prompt(i);
        (0..2).map(|i| (rig.run(&of(i).0, of(i).0.len()), of(i).1)).collect::<Vec<_>>()
    };
    let worst = |pairs: &[(Vec<f32>, Vec<f32>)]| {
        pairs.iter().map(|(found, expected)| distance(found, expected)).fold(0.0, f32::max)
    };
    let mean = |pairs: &[(Vec<f32>, Vec<f32>)]| {
        let rows = pairs.iter().flat_map(|(found, expected)| {
            expected.chunks(model.spec.vocab).zip(found.chunks(model.spec.vocab))
        });
        let all: Vec<f64> = rows.map(|(p, q)| divergence(p, q)).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let text = |key: &str| golden.config[key].as_str().unwrap_or_default().to_owned();
    Line {
        family: model.family,
        architecture: text("model_type"),
        mixers: mixers(&model.spec),
        feed_forward: feed_forward(&model.spec),
        asides: model.spec.layers.iter().flatten().any(|b| b.reads == Reads::Aside),
        case: golden.name.clone(),
        exact: worst(&run(Quant::F32, LIMITS)),
        gguf: gguf.get(&golden.name).map(|file| file.0),
        adapted: gguf.get(&golden.name).and_then(|file| file.1),
        divergences: PRECISIONS.iter().map(|(_, quant, _)| mean(&run(*quant, NATIVE))).collect(),
    }
}

/// Kinds of layers that mix positions, each once.
fn mixers(spec: &ModelSpec) -> String {
    let kind = |op: &Op| match op {
        Op::Attention(_) => Some("attention"),
        Op::Mla(m) if matches!(m.keys, Keys::Chosen(_)) => Some("sparse latent attention"),
        Op::Mla(_) => Some("latent attention"),
        Op::DeltaNet(d) if d.decay == Decay::PerHead => Some("gated delta net"),
        Op::DeltaNet(_) => Some("Kimi delta attention"),
        Op::Lightning(_) => Some("lightning attention"),
        Op::Mamba1(_) => Some("Mamba"),
        Op::Mamba2(_) => Some("Mamba-2"),
        Op::RgLru(_) => Some("RG-LRU"),
        Op::ShortConv(_) => Some("short convolution"),
        _ => None,
    };
    distinct(spec.ops().filter_map(kind))
}

fn feed_forward(spec: &ModelSpec) -> String {
    let kind = |op: &Op| match op {
        Op::Mlp(_) => Some("dense"),
        Op::Moe(_) => Some("MoE"),
        _ => None,
    };
    distinct(spec.ops().filter_map(kind))
}

fn distinct<'a>(kinds: impl Iterator<Item = &'a str>) -> String {
    let mut seen = Vec::new();
    kinds.for_each(|kind| {
        if !seen.contains(&kind) {
            seen.push(kind);
        }
    });
    if seen.is_empty() { "none".into() } else { seen.join(", ") }
}

/// By golden, how far its GGUF file's logits are off at f32, and those with adapters from the folder's.
type Files = BTreeMap<String, (f32, Option<f32>)>;

fn gguf_files() -> Files {
    let root = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("matrix");
    let entries = std::fs::read_dir(shared::goldens().join("gguf")).expect("goldens");
    let mut worst = BTreeMap::new();
    for path in entries.map(|e| e.expect("an entry").path()) {
        let GgufGolden { golden, bytes } = GgufGolden::load(&path);
        let gguf = Gguf::parse(&path, bytes).expect("a GGUF file");
        let mut rig = Rig::load(&open_gguf(&gguf), &LIMITS, 2, Kernels::best());
        let of = |i| golden.prompt(i);
        let far = (0..2).map(|i| distance(&rig.run(&of(i).0, of(i).0.len()), &of(i).1));
        let far = far.fold(0.0, f32::max);
        let with = over_both(&path, &root);
        let with = with.found.ok().map(|found| distance(&found, &with.want));
        let most = worst.entry(golden.name.clone()).or_insert((far, with));
        *most = (most.0.max(far), most.1.zip(with).map(|(a, b)| a.max(b)));
    }
    worst
}

fn document(lines: &[Line]) -> String {
    let bounds = PRECISIONS.map(|(name, _, [plain, choosing, delta])| {
        format!("{name} {plain}, {choosing} and {delta}")
    });
    let mut out = HEAD.replace("{bounds}", &bounds.join("; "));
    let precisions = PRECISIONS.map(|(name, ..)| name).join(" | ");
    out += &format!(
        "\n| family | architecture | mixers | feed-forward | golden | f32 | GGUF | LoRA | {precisions} |\n"
    );
    out += "|---|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for l in lines {
        let gguf = l.gguf.map_or("–".into(), |far| format!("{far:.0e}"));
        let adapted = l.adapted.map_or("–".into(), |far| format!("{far:.0e}"));
        let far: Vec<String> = l.divergences.iter().map(|d| format!("{d:.0e}")).collect();
        out += &format!(
            "| {} | {} | {} | {} | {} | {:.0e} | {gguf} | {adapted} | {} |\n",
            l.family.name,
            l.architecture,
            l.mixers,
            l.feed_forward,
            l.case,
            l.exact,
            far.join(" | ")
        );
    }
    out
}

/// Of each model that makes vectors of texts: its family, and what a table says of it.
fn vectors() -> Vec<(&'static Family, String)> {
    let limits = Limits { context: rig::vectors::CONTEXT, ..LIMITS };
    let mut all: Vec<(&'static Family, String)> = Vec::new();
    for golden in rig::vectors::goldens() {
        let mean = rig::vectors::head(Pool::Mean, true);
        let (family, far) = rig::vectors::with_model(&golden, &mean, |spec, model| {
            let far =
                [(Quant::F32, LIMITS.kv), (Quant::Native, NATIVE.kv), (Quant::Int8, NATIVE.kv)];
            let far = far.map(|(quant, kv)| {
                let limits = Limits { quant, kv, ..limits.clone() };
                let executor = Cpu::new(2, Kernels::best()).executor(spec, model, &limits);
                let texts = rig::vectors::texts(&golden);
                let texts: Vec<&[i32]> = texts.iter().map(Vec::as_slice).collect();
                let found = rig::vectors::vectors(&mut executor.expect("a model"), &texts);
                distance(&found, &golden.recorded["mean_normed"].f32())
            });
            (model.family, far)
        });
        let architecture = golden.config["architectures"][0].as_str().unwrap_or_default();
        let far = far.map(|far| format!("{far:.0e}")).join(" | ");
        let line = format!("| {} | {architecture} | {} | {far} |\n", family.name, golden.name);
        all.push((family, line));
    }
    all
}

const VECTORS: &str = "
## Vectors of texts

The largest difference of any element of two texts' vectors, the mean of their rows at unit length, from transformers'.

| family | class | golden | f32 | native | int8 |
|---|---|---|---:|---:|---:|
";

const HEAD: &str = "\
# What is supported, and how exact it is

Generated by `RINFER_UPDATE=1 cargo nextest run -p rinfer-engine --test matrix`; a test fails where it is out of date. Every line
is a tiny checkpoint of `goldens/` with random weights and transformers' logits, whose standard deviation is about 2.

- **f32**: the largest difference of any logit of two prompts, `--quant f32 --kv f32`. The test's bound is 1e-3.
- **GGUF**: the same of the family's GGUF file; – is none in `goldens/`.
- **LoRA**: how far that file's logits with two adapters of every matrix, one of them DoRA's, are from the folder's with the same, whose
  own are held against PEFT's (docs/adapters.md); – is no such file, or refused.
- **native** and what follows: mean Kullback-Leibler divergence of the next token's distribution from transformers', in nats,
  with f16 keys and values. Models this small are hit harder than real ones, most of all where experts or keys are chosen: an
  error that chooses others counts in full; delta nets and blocks without a stream of their own answer errors with errors. The
  test's bounds, without a choice, with one and with such answers, are {bounds}.

All of them load from safetensors with a config.json in the hub's or transformers 5's spelling, and run on the CPU, the
only backend so far.
";

/// What of a line is beyond its precision's bound.
fn beyond(l: &Line) -> Vec<String> {
    let chooses = l.feed_forward.contains("MoE") || l.mixers.contains("sparse");
    let all = PRECISIONS.iter().zip(&l.divergences);
    let answers = l.mixers.contains("delta") || l.asides;
    let class = if answers { 2 } else { usize::from(chooses) };
    let far = all.filter(|((.., most), found)| **found > most[class]);
    far.map(|((name, ..), found)| format!("{}: {name} diverges by {found:.1e}", l.case)).collect()
}

#[test]
fn the_matrix_is_up_to_date() {
    let gguf = gguf_files();
    let mut lines: Vec<Line> = goldens().iter().map(|golden| line(golden, &gguf)).collect();
    lines.sort_by(|a, b| (a.family.name, &a.case).cmp(&(b.family.name, &b.case)));
    let far: Vec<String> = lines.iter().flat_map(beyond).collect();
    assert!(far.is_empty(), "{}", far.join("\n"));
    let vectors = vectors();
    let families = || lines.iter().map(|l| l.family).chain(vectors.iter().map(|v| v.0));
    let seen = |f: &&&Family| !families().any(|family| std::ptr::eq(family, **f));
    let without: Vec<&str> = FAMILIES.iter().filter(seen).map(|f| f.name).collect();
    assert!(without.is_empty(), "families without a golden: {without:?}");
    let vectors: String = vectors.iter().map(|(_, line)| line.as_str()).collect();
    let text = document(&lines) + VECTORS + &vectors;
    shared::up_to_date("docs/capability-matrix.md", &text);
}
