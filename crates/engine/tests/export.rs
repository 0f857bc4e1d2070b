//! Checkpoints written as GGUF: what llama.cpp's converter writes of the same, and the same logits.
#![expect(clippy::unwrap_used, reason = "a failed write fails the test")]
mod rig;

use rig::{LIMITS, Rig, distance, goldens, open_gguf};
use rinfer_engine::backend::{Limits, Quant};
use rinfer_engine::export;
use rinfer_engine::load::Opened;
use rinfer_formats::gguf::Value;
use rinfer_formats::gguf::recipe::Recipe;
use rinfer_formats::{Gguf, Weights};
use rinfer_kernels::Kernels;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::{Golden, chat, shared};
use std::path::{Path, PathBuf};

/// A golden with a language beside it.
fn folder(golden: &Golden) -> PathBuf {
    let dir = temporary().join(&golden.name);
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(golden, &dir);
    dir
}
fn temporary() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("export");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
fn logits(gguf: &Gguf, golden: &Golden) -> Vec<f32> {
    let (ids, ..) = golden.prompt(0);
    Rig::load(&open_gguf(gguf), &LIMITS, 2, Kernels::best()).run(&ids, ids.len())
}

/// Where converters differ from what a file must have: names for people, and other spellings of tokens.
fn compared(key: &str) -> bool {
    !key.starts_with("general.") && !key.starts_with("tokenizer.")
}

/// What a converter states although its readers know it.
fn implied(key: &str, value: Option<Value<'_>>) -> bool {
    match key.split_once('.').map_or(key, |(_, key)| key) {
        "expert_group_count" | "expert_group_used_count" => value == Some(Value::Unsigned(1)),
        "rope.scaling.type" => value == Some(Value::Str("none")),
        // Of a model whose norms are no RMS norms.
        "attention.layer_norm_rms_epsilon" => key.starts_with("nemotron."),
        _ => false,
    }
}

/// How a written file differs from the converter's, if it does.
fn difference(ours: &Gguf, theirs: &Gguf) -> Option<String> {
    let (a, b) = (ours.metadata(), theirs.metadata());
    for key in b.keys().filter(|key| compared(key)) {
        if a.get(key) != b.get(key) && !implied(key, b.get(key)) {
            return Some(format!("{key} is {:?}, theirs {:?}", a.get(key), b.get(key)));
        }
    }
    let (mut names, mut others) = (ours.names(), theirs.names());
    names.sort_unstable();
    others.sort_unstable();
    if names != others {
        let odd = names.iter().find(|n| !others.contains(n));
        let odd = odd.or_else(|| others.iter().find(|n| !names.contains(n)));
        return Some(format!("only one has {odd:?}"));
    }
    names.iter().find_map(|name| {
        let (a, b) = (ours.get(name).unwrap(), theirs.get(name).unwrap());
        let (ax, bx) = ((a.dtype, &a.shape), (b.dtype, &b.shape));
        // Divisors of frequencies, rounded otherwise.
        let near = *name == "rope_freqs.weight" && near(&a.bytes, &b.bytes);
        (ax != bx || a.bytes != b.bytes && !near).then(|| format!("{name}: {ax:?}, theirs {bx:?}"))
    })
}

fn near(a: &[u8], b: &[u8]) -> bool {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    floats(a).iter().zip(floats(b)).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs())
}

/// What rows in another order, or divisors instead of what they are computed of, may cost.
const REORDERED: f32 = 1e-4;

/// Every golden is written as it is by the converter, and gives the same logits as its folder, or is
/// refused by what GGUF can't say of it.
#[test]
fn folders_become_files() {
    let (mut written, mut wrong) = (Vec::new(), Vec::new());
    for golden in goldens() {
        let dir = folder(&golden);
        let opened = Opened::open(&dir).expect("a model");
        let family = opened.family.name;
        let out = temporary().join(format!("{}.gguf", golden.name));
        let _ = std::fs::remove_file(&out);
        if let Err(e) = export::save(&opened, Quant::Native, 2, &out) {
            let e = e.to_string();
            println!("{} ({family}): {e}", golden.name);
            assert!(!out.exists());
            if opened.family.is_written() && !e.contains("pack it as .rinf") {
                wrong.push(format!("{}: {e}", golden.name));
            }
            continue;
        }
        let gguf = Gguf::open(&out).expect("a file");
        let (ids, ..) = golden.prompt(0);
        let theirs = Rig::golden(&golden, &LIMITS).run(&ids, ids.len());
        let worst = distance(&logits(&gguf, &golden), &theirs);
        if worst > REORDERED {
            wrong.push(format!("{} ({family}): logits differ by {worst}", golden.name));
        }
        let kinds = ["bf16", "f16", "f32"].map(|kind| format!("{}.{kind}", golden.name));
        let theirs = kinds.map(|name| shared::goldens().join("gguf").join(name));
        if let Some(theirs) = theirs.iter().find(|path| path.exists()) {
            let bytes = GgufGolden::load(theirs).bytes;
            if let Some(difference) = difference(&gguf, &Gguf::parse(theirs, bytes).unwrap()) {
                wrong.push(format!("{} ({family}): {difference}", golden.name));
            }
        }
        let exact = if worst == 0.0 { "" } else { " (order)" };
        written.push(format!("{}{exact}", golden.name));
    }
    println!("written: {}", written.join(", "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(written.len() > 10, "{written:?}");
}

/// A file is what `--quant` loads: the same bits, whatever is written it.
#[test]
fn files_are_converted() {
    let golden = goldens().into_iter().find(|g| g.name == "qwen2").unwrap();
    let dir = folder(&golden);
    let (opened, out) = (Opened::open(&dir).unwrap(), temporary().join("converted.gguf"));
    let run = |opened: &Opened, quant| {
        let limits = Limits { quant, ..LIMITS };
        let cpu = rinfer_engine::cpu::Cpu::new(2, Kernels::best());
        let mut executor = opened.executor(&cpu, &limits).unwrap();
        rig_of(&mut *executor, opened.spec.vocab, &golden)
    };
    for name in ["q8_0", "q4_k_m", "q5_1"] {
        let quant = Quant::Gguf(Recipe::of_name(name).unwrap());
        for threads in [1, 3] {
            export::save(&opened, quant, threads, &out).expect(name);
            let written = Opened::open(&out).unwrap();
            assert_eq!(run(&written, Quant::Native), run(&opened, quant), "{name}");
        }
        // What is quantised is not quantised again; as it is, it is copied.
        let (again, written) = (other("again.gguf"), Opened::open(&out).unwrap());
        let _ = std::fs::remove_file(&again);
        let q5_0 = Quant::Gguf(Recipe::of_name("q5_0").unwrap());
        let error = export::save(&written, q5_0, 1, &again).unwrap_err().to_string();
        assert!(error.contains("already") && !again.exists(), "{error}");
        let copied = other("copied.gguf");
        export::save(&Opened::open(&out).unwrap(), Quant::Native, 2, &copied).unwrap();
        assert_eq!(run(&Opened::open(&copied).unwrap(), Quant::Native), run(&opened, quant));
    }
    let error = export::save(&opened, Quant::Int4, 1, &other("int4.gguf")).unwrap_err();
    assert!(error.to_string().contains("q4_0"), "{error}");
}

fn other(name: &str) -> PathBuf {
    temporary().join(name)
}

fn rig_of(
    executor: &mut dyn rinfer_engine::backend::Executor,
    vocab: usize,
    golden: &Golden,
) -> Vec<f32> {
    use rinfer_engine::batch::{Batch, Logits, Row, Span, TokenId, Want};
    let (ids, ..) = golden.prompt(0);
    let slot = executor.state().open().unwrap();
    assert!(executor.state().reserve(slot, ids.len()));
    let mut batch = Batch::default();
    batch.rows.extend(ids.iter().map(|id| Row::Token(TokenId(*id as u32))));
    batch.seqs.push(Span { slot, len: ids.len(), past: 0, want: Want::Every });
    let mut out = Logits { vocab, data: Vec::new() };
    executor.forward(&batch, &mut out).unwrap();
    out.data
}

/// A file that can't be written whole leaves what was there.
#[test]
fn what_fails_leaves_nothing() {
    let golden = goldens().into_iter().find(|g| g.name == "llama3").unwrap();
    let dir = temporary().join("alone");
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(&golden, &dir.join("model"));
    let opened = Opened::open(dir.join("model")).unwrap();
    let nowhere = Path::new("/nowhere/at/all.gguf");
    let error = export::save(&opened, Quant::Native, 1, nowhere).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all.gguf"), "{error}");
    let taken = dir.join("taken.gguf");
    std::fs::create_dir_all(&taken).unwrap();
    assert!(export::save(&opened, Quant::Native, 1, &taken).is_err() && taken.is_dir());
    let left = std::fs::read_dir(&dir).unwrap();
    let parts =
        left.filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "part"));
    assert_eq!(parts.count(), 0);
}
