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

/// Holds a generated file of the repository against what it should be, or writes it if
/// `RINFER_UPDATE` is set.
///
/// # Panics
/// If it differs.
pub fn up_to_date(path: &str, expected: &str) {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    if std::env::var_os("RINFER_UPDATE").is_some() {
        std::fs::write(&file, expected).expect("a writable repository");
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let differ = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{path} is out of date, first at {differ:?}: run the test with RINFER_UPDATE=1"
    );
}

/// llama.cpp, behind the interpreter that `RINFER_LLAMA` names: one whose environment has the package
/// llama-cpp-python (`tools/bench_peer/setup llama` makes one). Or none with one printed line.
pub fn llama() -> Option<Llama> {
    let Some(python) = std::env::var_os("RINFER_LLAMA") else {
        println!("RINFER_LLAMA is not set: the checks against llama.cpp did not run");
        return None;
    };
    Some(Llama { python: python.into() })
}

/// The numbers of an answer of logits: f32 in hexadecimal digits.
///
/// # Panics
/// If it is another answer.
pub fn floats(hex: &str) -> Vec<f32> {
    let digits = |two: &[u8; 2]| {
        let text = std::str::from_utf8(two).expect("ASCII");
        u8::from_str_radix(text, 16).expect("hexadecimal digits")
    };
    let bytes: Vec<u8> = hex.as_bytes().as_chunks().0.iter().map(digits).collect();
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// See [`llama`].
pub struct Llama {
    python: PathBuf,
}

impl Llama {
    /// The answers to jobs as `tests/oracle/llama.py` has them.
    ///
    /// # Panics
    /// If the interpreter does not run.
    pub fn ask(&self, jobs: &[serde_json::Value]) -> Vec<serde_json::Value> {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/llama.py");
        let mut python = Command::new(&self.python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("RINFER_LLAMA names an interpreter");
        let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        let mut stdin = python.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let output = python.wait_with_output().expect("an end");
        writer.join().expect("a thread").expect("llama.py reads its jobs");
        let text = String::from_utf8(output.stdout).expect("JSON");
        let all: Vec<_> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(all.len(), jobs.len(), "llama.py ended early");
        all
    }
}
