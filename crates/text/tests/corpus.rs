//! Replays the fuzz corpus.
#[path = "../../../fuzz/exercise/text.rs"]
mod exercise;

use std::path::Path;

#[test]
fn tokenizer_json() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tokenizer_json");
    let mut seen = 0;
    for file in std::fs::read_dir(&corpus).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        exercise::tokenizer_json(&std::fs::read(&path).unwrap());
        seen += 1;
    }
    assert!(seen > 0, "{} is empty", corpus.display());
}
