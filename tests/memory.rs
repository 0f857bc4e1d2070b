//! How much memory loading takes: a file and its packed form are never held together.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_testkit::{Golden, chat, shared};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn rinfer(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
    command.args(args).stdin(Stdio::null()).env_remove("RINFER_TIER").env_remove("RINFER_LOG");
    command
}

/// The most bytes that were resident up to the first piece of an answer.
fn peak(model: &str) -> usize {
    status(model, &[], "VmHWM:")
}

/// A figure of the system at the first piece of an answer.
fn status(model: &str, more: &[&str], name: &str) -> usize {
    let args = ["run", "--raw", "--temperature", "0", "--max-tokens", "200", model, "H"];
    let mut child = rinfer(&[&args, more].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answer = child.stdout.take().unwrap();
    answer.read_exact(&mut [0]).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    // The next piece finds nobody, which ends it.
    drop(answer);
    child.wait().unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: usize = line.unwrap().trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kib << 10
}

fn state(model: &str) -> usize {
    let output = rinfer(&["inspect", "--json", model]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["memory"]["state bytes"].as_u64().unwrap() as usize
}

/// `file` is what `model` keeps its weights in.
fn check(model: &Path, file: &Path) {
    let size = std::fs::metadata(file).unwrap().len() as usize;
    let model = model.to_str().unwrap();
    let (peak, state) = (peak(model), state(model));
    println!("{model}: {size} bytes, {state} of state: at most {peak} resident");
    assert!(peak > size, "{peak} bytes do not hold {size}");
    assert!(peak < size + size * 15 / 100 + state, "{peak} bytes for {size} and {state} of state");
}

/// Nearly half of the file is one matrix.
#[test]
fn of_a_large_vocabulary() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("large-vocabulary");
    large(&dir);
    check(&dir, &dir.join("model.safetensors"));
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Of a bundle nothing is copied: what the process has of its own is the state and little more.
#[test]
fn of_a_bundle() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("large-bundle");
    large(&dir);
    let made = dir.join("a.rinf");
    let (from, made) = (dir.to_str().unwrap(), made.to_str().unwrap());
    let mut making = rinfer(&["bundle", from, "-o", made, "--quant", "f32"]).spawn().unwrap();
    assert!(making.wait().unwrap().success());
    let size = std::fs::metadata(made).unwrap().len() as usize;
    let (own, all) = (status(made, &[], "RssAnon:"), peak(made));
    println!("{size} bytes: {own} of the process, {all} in all");
    assert!(own < (24 << 20) + state(made), "{own} bytes of its own");
    assert!(all > size / 2, "{all} bytes do not hold the head's {}", size / 2);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A model of two large matrices.
fn large(dir: &Path) {
    const TOKENS: usize = 1 << 19;
    let mut golden = Golden::load(&shared::goldens().join("llama3"));
    golden.config["vocab_size"] = TOKENS.into();
    for (_, matrix) in golden.weights.iter_mut().filter(|(_, t)| t.shape == [256, 64]) {
        // No text has the other tokens, and none is ever the most probable.
        matrix.bytes.resize(matrix.bytes.len() / 256 * TOKENS, 0);
        matrix.shape[0] = TOKENS;
    }
    chat::write_model(&golden, dir);
    std::fs::write(dir.join("config.json"), golden.config.to_string()).unwrap();
}

#[test]
fn of_real_models() {
    for name in ["smollm2-135m-instruct-q4_1.gguf", "gemma3-270m-q4_k_m.gguf"] {
        if let Some(path) = shared::model(name) {
            check(&path, &path);
        }
    }
}
