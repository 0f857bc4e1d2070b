//! Models that make vectors of texts: every golden under goldens/embed/ against transformers, and the same
//! bits alone, in company, on any number of threads and every tier.
mod rig;

use rig::vectors::{CONTEXT, goldens, head, texts, vectors, with_model};
use rig::{EIGHT, LIMITS, Memory, NATIVE, assert_bits, distance};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::batch::{Row, TokenId};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::size;
use rinfer_engine::spec::Pool;
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::{Kernels, TIERS};
use rinfer_testkit::Golden;
use rinfer_testkit::embed::numbers;
use rinfer_testkit::safetensors::Entry;
use serde_json::json;

/// Of vectors whose elements are about one.
const TOLERANCE: f32 = 1e-4;

#[test]
fn f32_equals_transformers() {
    let kinds = [
        ("mean", head(Pool::Mean, false)),
        ("cls", head(Pool::Cls, false)),
        ("last", head(Pool::Last, false)),
        ("mean_normed", head(Pool::Mean, true)),
    ];
    for golden in goldens() {
        for (kind, head) in &kinds {
            with_model(&golden, head, |spec, weights| {
                let cpu = Cpu::new(2, Kernels::best());
                let mut executor = cpu
                    .executor(spec, weights, &Limits { context: CONTEXT, ..LIMITS })
                    .expect("a model");
                let texts = texts(&golden);
                let found = vectors(&mut executor, &[&texts[0], &texts[1]]);
                let far = distance(&found, &golden.recorded[*kind].f32());
                println!("{:20} {kind:12} {far:.1e}", golden.name);
                assert!(far < TOLERANCE, "{}, {kind}: {far}", golden.name);
            });
        }
    }
}

/// A text's vector is the same bits alone and among others, wherever it is computed.
#[test]
fn company_threads_and_tiers() {
    for golden in goldens() {
        for limits in [LIMITS, NATIVE, EIGHT] {
            let limits = &Limits { context: CONTEXT, ..limits };
            with_model(&golden, &head(Pool::Mean, true), |spec, weights| {
                let texts = texts(&golden);
                let (long, short) = (&texts[0][..], &texts[1][..]);
                let on = |threads, tier| Cpu::new(threads, tier).executor(spec, weights, limits);
                let mut alone = on(1, TIERS.last().expect("a tier")).expect("a model");
                let want: Vec<f32> = [long, short, &long[..1]]
                    .iter()
                    .flat_map(|text| vectors(&mut alone, &[text]))
                    .collect();
                for tier in TIERS.iter().filter(|tier| (tier.usable)()) {
                    for threads in 1..=3 {
                        let mut executor = on(threads, tier).expect("a model");
                        let found = vectors(&mut executor, &[long, short, &long[..1]]);
                        let what = format!("{}, {}, {threads} threads", golden.name, tier.name);
                        assert_bits(&found, &want, spec.width(), &what);
                        let turned = vectors(&mut executor, &[short, &long[..1], long]);
                        let (first, rest) = turned.split_at(2 * spec.width());
                        assert_bits(&[rest, first].concat(), &want, spec.width(), &what);
                    }
                }
            });
        }
    }
}

#[test]
fn e4_memory_is_the_sum() {
    let (plain, quants) = (head(Pool::Last, true), [Quant::F32, Quant::Native, Quant::Int8Int8]);
    for golden in goldens() {
        for quant in quants {
            with_model(&golden, &plain, |spec, weights| {
                let limits = Limits { quant, context: CONTEXT, ..LIMITS };
                let planned = size::Memory::of(spec, weights, &limits, 2);
                let executor = Cpu::new(2, Kernels::best()).executor(spec, weights, &limits);
                assert_eq!(planned, executor.expect("a model").memory(), "{}", golden.name);
            });
        }
    }
}

/// A golden with another class, whose classifier's tensors are given, as one that scores by one number.
fn scoring(name: &str, class: &str, outer: &str, tensors: &[(&str, &[usize])]) -> Golden {
    let mut golden = Golden::load(&rig::embedding_root().join(name));
    golden.config["architectures"] = json!([class]);
    golden.config["id2label"] = json!({"0": "LABEL_0"});
    let own = std::mem::take(&mut golden.weights);
    golden.weights = own.into_iter().map(|(name, t)| (format!("{outer}{name}"), t)).collect();
    for (name, shape) in tensors {
        golden.weights.insert((*name).to_owned(), numbers(shape));
    }
    golden
}

/// `W·x + b` of a golden's tensors.
fn project(golden: &Golden, name: &str, x: &[f64]) -> Vec<f64> {
    let get = |suffix: &str| golden.weights.get(&format!("{name}.{suffix}")).map(floats);
    let weight = get("weight").expect("a matrix");
    let bias = get("bias").unwrap_or_else(|| vec![0.0; weight.len() / x.len()]);
    let row = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    weight.chunks(x.len()).zip(bias).map(|(w, b)| row(w) + b).collect()
}

fn floats(entry: &Entry) -> Vec<f64> {
    let values = match entry.dtype.as_str() {
        "F32" => entry.f32(),
        _ => entry
            .bytes
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
            .collect(),
    };
    values.into_iter().map(f64::from).collect()
}

/// What classes that score make of the first row, which transformers recorded.
#[test]
fn scores_are_their_classes() {
    let tanh = |x: Vec<f64>| -> Vec<f64> { x.into_iter().map(f64::tanh).collect() };
    let normed = |golden: &Golden, x: &[f64]| -> Vec<f64> {
        let gelu = |x: &f64| 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()));
        let x: Vec<f64> = x.iter().map(gelu).collect();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64;
        let weight = floats(&golden.weights["head.norm.weight"]);
        let by = 1.0 / (variance + 1e-5).sqrt();
        x.iter().zip(weight).map(|(x, w)| (x - mean) * by * w).collect()
    };
    let (square, row, one): (&[usize], &[usize], &[usize]) = (&[64, 64], &[1, 64], &[1]);
    let bert = scoring(
        "bert",
        "BertForSequenceClassification",
        "bert.",
        &[("classifier.weight", row), ("classifier.bias", one)],
    );
    let roberta = scoring(
        "xlm_roberta",
        "XLMRobertaForSequenceClassification",
        "roberta.",
        &[
            ("classifier.dense.weight", square),
            ("classifier.dense.bias", &[64]),
            ("classifier.out_proj.weight", row),
            ("classifier.out_proj.bias", one),
        ],
    );
    let modern = scoring(
        "modernbert",
        "ModernBertForSequenceClassification",
        "model.",
        &[
            ("head.dense.weight", square),
            ("head.norm.weight", &[64]),
            ("classifier.weight", row),
            ("classifier.bias", one),
        ],
    );
    for golden in [bert, roberta, modern] {
        let weights = Memory(golden.weights.clone());
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let model =
            Checkpoint::open(config, &weights).unwrap_or_else(|e| panic!("{}: {e}", golden.name));
        let limits = Limits { context: CONTEXT, ..LIMITS };
        let executor = Cpu::new(2, Kernels::best()).executor(&model.spec, &model, &limits);
        let texts = texts(&golden);
        let found = vectors(&mut executor.expect("a model"), &[&texts[0], &texts[1]]);
        for (found, cls) in found.iter().zip(golden.recorded["cls"].f32().chunks(64)) {
            let cls: Vec<f64> = cls.iter().map(|x| f64::from(*x)).collect();
            let want = match golden.name.as_str() {
                "bert" => project(
                    &golden,
                    "classifier",
                    &tanh(project(&golden, "bert.pooler.dense", &cls)),
                ),
                "xlm_roberta" => project(
                    &golden,
                    "classifier.out_proj",
                    &tanh(project(&golden, "classifier.dense", &cls)),
                ),
                _ => project(
                    &golden,
                    "classifier",
                    &normed(&golden, &project(&golden, "head.dense", &cls)),
                ),
            };
            let far = (f64::from(*found) - want[0]).abs();
            assert!(far < 1e-5 * (1.0 + want[0].abs()), "{}: {found}, not {want:?}", golden.name);
        }
    }
}

/// A pair's second text has the other vector of a kind: with these two swapped, all of it is the first.
#[test]
fn second_texts_are_of_the_second_kind() {
    let golden = Golden::load(&rig::embedding_root().join("bert"));
    let mut swapped = Golden::load(&rig::embedding_root().join("bert"));
    let types = swapped.weights.get_mut("embeddings.token_type_embeddings.weight").expect("kinds");
    types.bytes.rotate_left(4 * 64);
    let run = |golden: &Golden, row: fn(TokenId) -> Row| {
        with_model(golden, &head(Pool::Mean, false), |spec, weights| {
            let limits = Limits { context: CONTEXT, ..LIMITS };
            let executor = Cpu::new(1, Kernels::best()).executor(spec, weights, &limits);
            rig::vectors::of_rows(&mut executor.expect("a model"), &[&texts(golden)[0]], row)
        })
    };
    let first = run(&golden, Row::Token);
    assert_bits(&run(&swapped, Row::Second), &first, 64, "the second kind");
    assert_ne!(run(&golden, Row::Second), first);
}
