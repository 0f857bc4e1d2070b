//! The folder named by `RINFER_SHARED`: real vocabularies, templates, references and suites, which
//! are other people's and may not be committed.
use std::path::PathBuf;

/// The folder's `name`, or none with one printed line that says which checks did not run.
///
/// # Panics
/// If `RINFER_SHARED` is set but has no `name`: a set variable promises the whole folder.
pub fn shared(name: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("RINFER_SHARED") else {
        println!("RINFER_SHARED is not set: the checks against its {name} did not run");
        return None;
    };
    let path = PathBuf::from(root).join(name);
    assert!(path.exists(), "RINFER_SHARED has no {}", path.display());
    Some(path)
}

/// The real model file called `name`, from the folder that `RINFER_TEST_MODELS` names, or none
/// with one printed line.
///
/// # Panics
/// If `RINFER_TEST_MODELS` is set but has no such file.
pub fn model(name: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("RINFER_TEST_MODELS") else {
        println!("RINFER_TEST_MODELS is not set: the checks on {name} did not run");
        return None;
    };
    let path = PathBuf::from(root).join(name);
    assert!(path.exists(), "RINFER_TEST_MODELS has no {name}");
    Some(path)
}

/// The repository's own goldens.
pub fn goldens() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../goldens"))
}
