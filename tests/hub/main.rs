//! Models from a hub that misbehaves: what ends up in the cache, what is fetched, what is said.
#![cfg(feature = "pull")]
#![expect(clippy::unwrap_used, reason = "tests")]
mod command;
mod fetch;
mod page;
mod refuse;
mod route;

use rinfer::hub::{Config, Error, Here, Hub, Watch};
use rinfer_fakehub as fake;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

const MODEL: &str = "m-Q4_K_M.gguf";
const REFERENCE: &str = "hf:owner/repo";

/// An empty folder of a test's own.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hub").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Small ranges and little patience.
fn config(test: &str, url: String) -> Config {
    let mut config = Config::new(folder(test).join("cache"));
    config.route.endpoint = url;
    config.route.silence = Duration::from_secs(30);
    config.route.pause = Duration::from_millis(10);
    config.route.patience = Duration::from_secs(2);
    config.alone = Duration::ZERO;
    config.range = 256 << 10;
    config
}

/// A hub that has one model of so many bytes.
fn hub_with(size: u64) -> (fake::Hub, fake::Content) {
    let (hub, content) = (fake::Hub::start(), fake::Content::noise(size, 1));
    hub.repo("owner/repo", &[(MODEL, content.clone())]);
    (hub, content)
}

/// What was told of a fetch.
#[derive(Default)]
struct Told {
    notes: Mutex<Vec<String>>,
    came: Mutex<u64>,
}

impl Watch for Told {
    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
    fn tell(&self, text: &str) {
        self.note(text);
    }
    fn begins(&self, _: &str, _: u64, _: u64) {}
    fn came(&self, bytes: u64) {
        *self.came.lock().unwrap() += bytes;
    }
    fn ends(&self) {}
}

impl Told {
    fn has(&self, text: &str) -> bool {
        self.notes.lock().unwrap().iter().any(|note| note.contains(text))
    }
}

fn pull(config: &Config, reference: &str) -> (Result<Here, Error>, Told) {
    let told = Told::default();
    (Hub::new(config.clone()).pull(reference, &told), told)
}

/// A pull that ends well with this content, and nothing beside it in the cache.
fn check_pull(config: &Config, content: &fake::Content) -> Told {
    let (here, told) = pull(config, REFERENCE);
    let here = here.unwrap();
    assert!(std::fs::read(&here.path).unwrap() == content.bytes(), "the content is another");
    assert_eq!(files(&config.cache), expected(content), "stray files");
    told
}

/// What a cache has when `owner/repo` has been pulled.
fn expected(content: &fake::Content) -> Vec<String> {
    let repo = "models--owner--repo";
    vec![
        format!("{repo}/blobs/{}", content.sha256()),
        format!("{repo}/listings/{}.json", fake::COMMIT),
        format!("{repo}/refs/main"),
        format!("{repo}/snapshots/{}/{MODEL}", fake::COMMIT),
    ]
}

/// The files below a folder, by their paths.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// A pull that fails, saying this and installing nothing.
fn check_refused(config: &Config, reference: &str, says: &[&str]) -> Error {
    let (result, _) = pull(config, reference);
    let error = result.expect_err("a refusal");
    let text = error.to_string();
    says.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    assert!(!text.contains("secret"), "{text}");
    let installed = files(&config.cache).into_iter().filter(|name| !name.ends_with(".part"));
    assert_eq!(installed.collect::<Vec<_>>(), Vec::<String>::new());
    error
}
