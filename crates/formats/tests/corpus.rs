//! Replays the fuzz corpus.
#[path = "../../../fuzz/exercise/formats.rs"]
mod exercise;

use std::path::Path;

fn check(target: &str, exercise: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&corpus).expect("a corpus");
    let mut seen = 0;
    for file in files {
        let path = file.expect("an entry").path();
        println!("{}", path.display());
        exercise(&std::fs::read(&path).expect("an input"));
        seen += 1;
    }
    assert!(seen > 0, "{} is empty", corpus.display());
}

#[test]
fn bundle() {
    check("bundle", exercise::bundle);
}

#[test]
fn executable() {
    check("executable", exercise::executable);
}

#[test]
fn gguf() {
    check("gguf", exercise::gguf);
}

#[test]
fn quantised() {
    check("quantised", exercise::quantised);
}

#[test]
fn safetensors() {
    check("safetensors", exercise::safetensors);
}
