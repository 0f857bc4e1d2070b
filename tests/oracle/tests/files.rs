//! Every vocabulary that we have records of, on texts that were not recorded.
use rinfer_oracle::Both;
use rinfer_testkit::shared::{goldens, shared};
use std::path::Path;

fn check(dir: &Path, count: usize) {
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    for path in all.iter().filter(|p| p.is_dir()) {
        let json = std::fs::read(path.join("tokenizer.json")).unwrap();
        Both::new(&path.display().to_string(), &json).compare(1, count);
    }
}

#[test]
fn goldens_on_random_texts() {
    check(&goldens().join("tokenizers"), 2000);
}

#[test]
fn real_vocabularies_on_random_texts() {
    if let Some(dir) = shared("tokenizers-real") {
        check(&dir, 1000);
    }
}
