//! The rules of the house hold for this repository.
use std::path::Path;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_sources_are_tidy() {
    let broken = xtask::tidy::check(&root()).expect("a readable repository");
    assert!(broken.is_empty(), "{} rules broken\n{}", broken.len(), broken.join("\n"));
}

/// For this platform and from what is already here; `cargo xtask no-c` looks at all platforms.
#[test]
fn no_dependency_compiles_c() {
    let broken = xtask::no_c::check(&root(), &["--offline"]).expect("cargo tree");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
