//! Safetensors files that lie, and folders that lack something.
use rinfer_formats::{Cause, Checkpoint, DType, Error, Folder, Safetensors, Weights, open};
use rinfer_testkit::gguf_builder::Builder;
use rinfer_testkit::{Golden, shared};
use std::path::{Path, PathBuf};

/// A file of a header and `data` bytes.
fn file(header: &str, data: usize) -> Vec<u8> {
    raw(header.len() as u64, header.as_bytes(), data)
}
fn raw(length: u64, header: &[u8], data: usize) -> Vec<u8> {
    [&length.to_le_bytes(), header, &vec![0; data]].concat()
}
fn tensor(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}
fn one(dtype: &str, shape: &str, offsets: &str, data: usize) -> Vec<u8> {
    file(&format!("{{{}}}", tensor("w", dtype, shape, offsets)), data)
}

fn says(error: &Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}
fn refused(bytes: Vec<u8>, parts: &[&str]) -> Cause {
    let error = Safetensors::parse("hostile.safetensors", bytes).expect_err("a file that lies");
    says(&error, parts);
    *error.cause
}

macro_rules! assert_cause {
    ($cause:expr, $pattern:pat) => {
        let cause = $cause;
        assert!(matches!(cause, $pattern), "{cause:?}");
    };
}

#[test]
fn sound_files_read_back() {
    let both = format!(
        r#"{{"__metadata__":{{"format":"pt"}},{},{}}}  "#,
        tensor("b", "BF16", "[2,1]", "[8,12]"),
        tensor("a", "F32", "[2]", "[0,8]"),
    );
    let s = Safetensors::parse("x", file(&both, 12)).unwrap();
    assert_eq!(s.names(), ["a", "b"]);
    let b = s.get("b").unwrap();
    assert_eq!((b.dtype, &*b.shape, b.bytes.len()), (DType::Bf16, &[2, 1][..], 4));
    assert!(s.get("c").is_none());
    // Nothing, a scalar, and no elements.
    Safetensors::parse("x", file("{}", 0)).unwrap();
    Safetensors::parse("x", one("F32", "[]", "[0,4]", 4)).unwrap();
    Safetensors::parse("x", one("F16", "[0,7]", "[0,0]", 0)).unwrap();
    Safetensors::parse("x", one("I64", "[1]", "[0,8]", 8)).unwrap();
}

#[test]
fn s1_header_lengths() {
    for length in [u64::MAX, 1 << 63, (512 << 20) + 1] {
        let cause =
            refused(raw(length, b"{}", 0), &[&length.to_string(), &(512 << 20).to_string()]);
        assert_cause!(cause, Cause::HeaderSize { .. });
    }
    assert_cause!(refused(raw(3, b"{}", 0), &["11", "10"]), Cause::Truncated { .. });
    assert_cause!(refused(vec![2, 0, 0, 0, 0xff], &["8"]), Cause::Truncated { .. });
}

#[test]
fn s1_offsets() {
    for offsets in ["[]", "[5]", "[9,3]", "[0,4,8]"] {
        assert_cause!(refused(one("F32", "[1]", offsets, 16), &["'w'"]), Cause::Offsets { .. });
    }
    let cause = refused(one("F32", "[4]", "[0,16]", 15), &["'w'", "fetch it again"]);
    assert_cause!(cause, Cause::Truncated { .. });
    let max = format!("[0,{}]", u64::MAX);
    assert_cause!(refused(one("F32", "[4]", &max, 16), &["'w'"]), Cause::Truncated { .. });
    for offsets in ["[-1,4]", "[0,1e3]", r#""0,4""#, "[0,18446744073709551616]"] {
        assert_cause!(refused(one("F32", "[1]", offsets, 16), &[]), Cause::Header(_));
    }
}

#[test]
fn s2_lengths_and_shapes_that_wrap() {
    for length in [u64::MAX - 2, u64::MAX - 7, u64::MAX - 8] {
        assert_cause!(refused(raw(length, b"{}", 0), &[]), Cause::HeaderSize { .. });
    }
    let cause = refused(one("F32", "[4,4]", "[0,60]", 60), &["'w'", "[4, 4]", "64", "60"]);
    assert_cause!(cause, Cause::Span { .. });
    let huge = 1u64 << 62;
    for shape in [format!("[{huge}]"), format!("[{huge},{huge},0]"), format!("[{huge},4]")] {
        assert_cause!(refused(one("F32", &shape, "[0,0]", 0), &["'w'"]), Cause::Overflow { .. });
    }
    assert_cause!(refused(one("F32", "[0]", "[0,4]", 4), &["'w'"]), Cause::Span { .. });
}

#[test]
fn s4_overlaps_holes_and_duplicates() {
    let two = |a: &str, b: &str, data| {
        let (a, b) = (tensor("a", "U8", "[100]", a), tensor("b", "U8", "[100]", b));
        refused(file(&format!("{{{a},{b}}}"), data), &[])
    };
    assert_cause!(two("[0,100]", "[50,150]", 150), Cause::Overlap { .. });
    assert_cause!(two("[0,100]", "[0,100]", 100), Cause::Overlap { .. });
    assert_cause!(two("[0,100]", "[101,201]", 201), Cause::Hole { from: 100, to: 101 });
    assert_cause!(two("[8,108]", "[108,208]", 208), Cause::Hole { from: 0, to: 8 });
    assert_cause!(two("[0,100]", "[100,200]", 201), Cause::Hole { from: 200, to: 201 });
    let w = tensor("w", "U8", "[1]", "[0,1]");
    let again = tensor("w", "U8", "[1]", "[1,2]");
    let cause = refused(file(&format!("{{{w},{again}}}"), 2), &["'w' occurs twice"]);
    assert_cause!(cause, Cause::Header(_));
    let metadata = r#"{"__metadata__":{},"__metadata__":{}}"#;
    assert_cause!(refused(file(metadata, 0), &["twice"]), Cause::Header(_));
    let field = r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"shape":[1]}}"#;
    assert_cause!(refused(file(field, 1), &["duplicate"]), Cause::Header(_));
}

#[test]
fn headers_of_another_kind() {
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    for header in ["[]", "{", "null", r#"{"w":{}}"#, r#"{"w":{"dtype":"F32","shape":[1]}}"#, &deep]
    {
        assert_cause!(refused(file(header, 0), &["header"]), Cause::Header(_));
    }
    let cause = refused(one("F8_E5M2", "[4]", "[0,4]", 4), &["'w'", "F8_E5M2"]);
    assert_cause!(cause, Cause::UnknownDType { .. });
    assert_cause!(
        refused(one("Q4_0", "[32]", "[0,18]", 18), &["Q4_0"]),
        Cause::UnknownDType { .. }
    );
    for (bytes, what) in [
        (&b""[..], "empty"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"<html>", "web page"),
        (b"PK\x03\x04\0\0\x08\0aaaa", "PyTorch"),
        (b"GGUF\x03\0\0\0", "GGUF"),
    ] {
        assert_cause!(refused(bytes.to_vec(), &[what]), Cause::NotSafetensors { .. });
    }
}

#[test]
fn cut_files() {
    let golden = Golden::load(&shared::goldens().join("llama2"));
    let whole = rinfer_testkit::safetensors::write(&golden.weights);
    let cuts = (0..whole.len()).step_by(4096).chain(1..9).chain([whole.len() - 1]);
    for at in cuts {
        let cause = refused(whole[..at].to_vec(), &[]);
        let empty = at == 0 && matches!(cause, Cause::NotSafetensors { .. });
        let early = at < 9 && matches!(cause, Cause::NotSafetensors { .. });
        assert!(empty || early || matches!(cause, Cause::Truncated { .. }), "{at}: {cause:?}");
    }
}

/// An empty folder of its own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}
fn write(path: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::write(path.join(name), content).expect("a file");
}
/// A file with the one tensor `name`.
fn shard(name: &str) -> Vec<u8> {
    file(&format!("{{{}}}", tensor(name, "U8", "[1]", "[0,1]")), 1)
}
fn index(map: &str) -> String {
    format!(r#"{{"metadata":{{"total_size":2}},"weight_map":{map}}}"#)
}
fn absent(path: &Path, parts: &[&str]) -> Cause {
    let error = Folder::open(path).expect_err("a folder that lacks something");
    says(&error, parts);
    *error.cause
}

#[test]
fn a_folder_opens() {
    let golden = Golden::load(&shared::goldens().join("qwen3"));
    let path = golden.write_checkpoint(&folder("whole"));
    write(&path, "tokenizer.json", "{}");
    write(&path, "chat_template.json", r#"{"chat_template":"hi"}"#);
    let Checkpoint::Folder(opened) = open(&path).unwrap() else { panic!("no folder") };
    assert_eq!(opened.config()["model_type"], "qwen3");
    assert_eq!(opened.names().len(), golden.weights.len());
    for (name, entry) in &golden.weights {
        let t = opened.get(name).unwrap();
        assert_eq!((&*t.shape, &*t.bytes), (&entry.shape[..], &entry.bytes[..]), "{name}");
    }
    assert_eq!(opened.tokenizer().unwrap().unwrap(), b"{}");
    assert_eq!(opened.tokenizer_config().unwrap(), None);
    assert_eq!(opened.chat_template().unwrap().unwrap(), "hi");
    write(&path, "chat_template.jinja", "there");
    assert_eq!(opened.chat_template().unwrap().unwrap(), "there");
}

#[test]
fn shards_with_an_index() {
    let path = folder("indexed");
    write(&path, "config.json", "{}");
    let map = r#"{"a":"x-1.safetensors","b":"x-2.safetensors"}"#;
    write(&path, "model.safetensors.index.json", index(map));
    write(&path, "x-1.safetensors", shard("a"));
    assert_cause!(absent(&path, &["x-2.safetensors"]), Cause::MissingFile { .. });
    write(&path, "x-2.safetensors", shard("c"));
    assert_cause!(absent(&path, &["'b'", "x-2.safetensors"]), Cause::NotInShard { .. });
    write(&path, "x-2.safetensors", shard("a"));
    assert_cause!(absent(&path, &["'a'", "twice"]), Cause::DuplicateTensor { .. });
    write(&path, "x-2.safetensors", shard("b"));
    assert_eq!(Folder::open(&path).unwrap().names(), ["a", "b"]);
    for name in ["../x-1.safetensors", "/etc/passwd", "a\\b", "", "..", "c:x"] {
        let map = serde_json::json!({ "a": name }).to_string();
        write(&path, "model.safetensors.index.json", index(&map));
        assert_cause!(absent(&path, &["file name"]), Cause::ShardName { .. });
    }
    for map in ["[]", r#"{"a":1}"#] {
        write(&path, "model.safetensors.index.json", index(map));
        assert_cause!(absent(&path, &["weight_map"]), Cause::Json(_));
    }
}

/// What Python writes and JSON has not; in texts it stays.
#[test]
fn pythons_numbers() {
    let path = folder("numbers");
    write(&path, "model.safetensors", shard("a"));
    let config = r#"{"limit": [-Infinity, Infinity], "none": NaN, "\"NaN": "Infinity \\"}"#;
    write(&path, "config.json", config);
    let found = Folder::open(&path).unwrap().config().clone();
    let expect = r#"{"limit": [-3.4e38, 3.4e38], "none": null, "\"NaN": "Infinity \\"}"#;
    assert_eq!(found, serde_json::from_str::<serde_json::Value>(expect).unwrap());
    let wrapped = r#"{"limit": [{"__float__": "-Infinity"}, {"__float__": "Infinity"}],
        "none": {"__float__": "NaN"}, "\"NaN": "Infinity \\"}"#;
    write(&path, "config.json", wrapped);
    let found = Folder::open(&path).unwrap().config().clone();
    assert_eq!(found, serde_json::from_str::<serde_json::Value>(expect).unwrap());
    write(&path, "config.json", "{\"a\": \"\\");
    assert_cause!(absent(&path, &["config.json"]), Cause::Json(_));
}

#[test]
fn h4_shards_without_an_index() {
    let path = folder("unindexed");
    write(&path, "config.json", "{}");
    assert_cause!(absent(&path, &["model.safetensors"]), Cause::MissingFile { .. });
    write(&path, "model-00001-of-00001.safetensors", shard("a"));
    assert_eq!(Folder::open(&path).unwrap().names(), ["a"]);
    let path = folder("unindexed-3");
    write(&path, "config.json", "{}");
    write(&path, "model-00003-of-00003.safetensors", shard("c"));
    write(&path, "model-00001-of-00003.safetensors", shard("a"));
    let cause = absent(&path, &["model-00002-of-00003.safetensors"]);
    assert_cause!(cause, Cause::MissingFile { .. });
    write(&path, "model-00002-of-00003.safetensors", shard("b"));
    assert_eq!(Folder::open(&path).unwrap().names(), ["a", "b", "c"]);
    // A count that nobody can count up to.
    let path = folder("unindexed-huge");
    write(&path, "config.json", "{}");
    write(&path, "model-00001-of-18446744073709551615.safetensors", shard("a"));
    assert_cause!(absent(&path, &["-of-18446744073709551615"]), Cause::MissingFile { .. });
}

#[test]
fn paths_that_users_give() {
    let gguf = Builder::of("llama").build();
    let path = folder("given");
    let no_model = |path: &Path| *open(path).unwrap_err().cause;
    assert_cause!(no_model(&path), Cause::NoModel);
    write(&path, "README.md", "GGU");
    write(&path, "weights.bin", &gguf);
    for given in [&path, &path.join("weights.bin")] {
        assert!(matches!(open(given).unwrap(), Checkpoint::Gguf(_)));
    }
    // A config.json beside it, as some repositories have.
    write(&path, "config.json", "{}");
    assert!(matches!(open(&path).unwrap(), Checkpoint::Gguf(_)));
    write(&path, "two.gguf", &gguf);
    let error = open(&path).unwrap_err();
    says(&error, &["two.gguf, weights.bin"]);
    assert_cause!(*error.cause, Cause::SeveralModels { .. });
    let path = folder("given-config-only");
    write(&path, "config.json", "{");
    assert_cause!(no_model(&path), Cause::Json(_));
    write(&path, "model.safetensors", shard("a"));
    write(&path, "config.json", "{}");
    let error = open(path.join("model.safetensors")).unwrap_err();
    says(&error, &["safetensors", "give the folder"]);
}
