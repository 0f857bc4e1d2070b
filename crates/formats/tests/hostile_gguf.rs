//! GGUF files that lie. Each test is a kind of fault that other readers fell for; the right answer
//! is an error of its own kind, at once and in little memory.
use rinfer_formats::{Cause, Error, Gguf, Weights};
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::gguf_builder::{Builder, array, counted};
use rinfer_testkit::shared::goldens;
use std::time::{Duration, Instant};

/// Parses; the error's message, if any, must hold all of `says`.
fn refused(bytes: Vec<u8>, says: &[&str]) -> Cause {
    let started = Instant::now();
    let length = bytes.len();
    let error = Gguf::parse("hostile.gguf", bytes).expect_err("a file that lies");
    assert!(started.elapsed() < Duration::from_millis(500), "{length} bytes took too long");
    let message = error.to_string();
    assert!(message.starts_with("hostile.gguf: "), "{message}");
    for part in says {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
    *error.cause
}

macro_rules! assert_cause {
    ($cause:expr, $pattern:pat) => {
        let cause = $cause;
        assert!(matches!(cause, $pattern), "{cause:?}");
    };
}

/// A sound file of every kind of value and a few tensors.
fn sound() -> Builder {
    Builder::of("llama")
        .u32("llama.block_count", 2)
        .f32("llama.rope.freq_base", 1e4)
        .key("a.bool", 7, &[1])
        .key("a.u8", 0, &[200])
        .key("a.i8", 1, &[200])
        .key("a.u16", 2, &[0, 1])
        .key("a.i16", 3, &[0xff, 0xff])
        .key("a.i32", 5, &(-7i32).to_le_bytes())
        .key("a.u64", 10, &(1u64 << 40).to_le_bytes())
        .key("a.i64", 11, &(-1i64).to_le_bytes())
        .key("a.f64", 12, &0.25f64.to_le_bytes())
        .strs("tokenizer.ggml.tokens", &["a", "", "ö"])
        .key("ints", 9, &array(5, 2, &[1, 0, 0, 0, 255, 255, 255, 255]))
        .key("nested", 9, &array(9, 1, &array(0, 2, &[5, 6])))
        .tensor("token_embd.weight", &[2, 3], 0, &[0; 24])
        .tensor("blk.0.attn_q.weight", &[32, 1], 8, &[0; 34])
}

#[test]
fn sound_file_reads_back() {
    let gguf = Gguf::parse("x", sound().build()).unwrap();
    let m = gguf.metadata();
    assert_eq!(gguf.architecture().unwrap(), "llama");
    assert_eq!(m.u32("a.u8").unwrap(), Some(200));
    assert_eq!(m.u32("a.u16").unwrap(), Some(256));
    assert_eq!(m.f32("a.f64").unwrap(), Some(0.25));
    assert_eq!(m.bool("a.bool").unwrap(), Some(true));
    assert_eq!(m.u32("absent").unwrap(), None);
    assert_eq!(m.i32s("ints").unwrap(), Some(vec![1, -1]));
    let tokens: Vec<_> = m.strs("tokenizer.ggml.tokens").unwrap().unwrap().collect();
    assert_eq!(tokens, [b"a", &b""[..], "ö".as_bytes()]);
    assert_eq!(m.keys().len(), 15);
    assert_eq!(gguf.names(), ["token_embd.weight", "blk.0.attn_q.weight"]);
    let t = gguf.get("token_embd.weight").unwrap();
    assert_eq!((t.rows(), t.cols(), t.bytes.len()), (3, 2, 24));
}

#[test]
fn wrong_types_name_key_found_and_expected() {
    let gguf = Gguf::parse("x", sound().build()).unwrap();
    let m = gguf.metadata();
    let check = |error: Error, says: &[&str]| {
        let message = error.to_string();
        assert!(matches!(*error.cause, Cause::WrongType { .. }), "{message}");
        for part in says {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    };
    check(m.u32("a.i8").unwrap_err(), &["'a.i8'", "i8 -56", "unsigned 32-bit"]);
    check(m.u32("a.u64").unwrap_err(), &["u64 1099511627776"]);
    check(m.str("a.bool").unwrap_err(), &["bool true", "a string"]);
    check(m.bool("a.u8").unwrap_err(), &["u8 200", "a bool"]);
    check(m.f32("general.architecture").unwrap_err(), &["is string", "a finite float"]);
    check(m.u32s("ints").unwrap_err(), &["an array of 2 i32"]);
    check(m.strs("ints").unwrap_err(), &["an array of strings"]);
    check(m.f32s("nested").unwrap_err(), &["an array of 1 array"]);
}

#[test]
fn g1_sizes_that_wrap() {
    let huge = (1u64 << 42) + 1;
    let cause = refused(
        Builder::default().line("w", 2, &[1152, huge], 0, 0).build(),
        &["'w'", "[4398046511105, 1152]"],
    );
    assert_cause!(cause, Cause::Truncated { .. });
    for format in rinfer_formats::quant::FORMATS {
        let Some(kind) = format.ggml else { continue };
        let width = (u64::MAX / 2 + 1).max(format.elems as u64);
        for axes in [[u64::MAX, 2, 1, 1], [width, 2, 2, 2], [256, huge, huge, 1]] {
            let bytes = Builder::default().line("w", 4, &axes, kind, 0).build();
            let cause = refused(bytes, &["'w'"]);
            assert_cause!(cause, Cause::Overflow { .. } | Cause::BlockWidth { .. });
        }
        let bytes = Builder::default().line("w", 2, &[256, 1], kind, u64::MAX - 31).build();
        assert_cause!(refused(bytes, &["'w'"]), Cause::Overflow { .. });
    }
}

#[test]
fn g2_counts_without_bytes() {
    let before = peak_kib();
    let mut file = sound();
    for count in [1 << 30, 1 << 60, u64::MAX] {
        file.claimed_keys = Some(count);
        assert_cause!(refused(file.build(), &["metadata"]), Cause::Count { .. });
    }
    file.claimed_keys = None;
    for count in [1 << 30, 1 << 60, u64::MAX] {
        file.claimed_tensors = Some(count);
        assert_cause!(refused(file.build(), &["list of tensors"]), Cause::Count { .. });
    }
    for length in [1 << 30, 1 << 62, u64::MAX] {
        let bytes = Builder::default().key("k", 8, &u64::to_le_bytes(length)).build();
        assert_cause!(refused(bytes, &["'k'"]), Cause::Truncated { .. });
    }
    for kind in 0..13 {
        for value in [array(kind, 1 << 40, &[0; 40]), array(kind, u64::MAX, &[0; 40])] {
            let bytes = Builder::default().key("k", 9, &value).build();
            assert_cause!(refused(bytes, &["'k'"]), Cause::Count { .. });
            let bytes = Builder::default().key("k", 9, &array(9, 1, &value)).build();
            assert_cause!(refused(bytes, &["'k'"]), Cause::Count { .. });
        }
    }
    assert!(peak_kib() - before < 64 << 10, "memory was reserved for what is not there");
}

/// The most memory this process has had mapped, where the system tells.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmPeak:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn g2_arrays_nested_without_end() {
    let mut value = array(0, 0, &[]);
    for _ in 0..10_000 {
        value = array(9, 1, &value);
    }
    let bytes = Builder::default().key("k", 9, &value).build();
    assert_cause!(refused(bytes, &["'k'"]), Cause::Nesting { .. });
}

#[test]
fn g3_dimensions() {
    for count in [5, 9, u32::MAX] {
        let bytes = Builder::default().line("w", count, &[1; 9], 0, 0).build();
        let says = format!("'w' has {count} dimensions, max 4");
        assert_cause!(refused(bytes, &[&says]), Cause::Dimensions { .. });
    }
    // No dimensions: one element.
    let scalar = Gguf::parse("x", Builder::default().tensor("w", &[], 0, &[0; 4]).build()).unwrap();
    assert_eq!(scalar.get("w").unwrap().bytes.len(), 4);
    let bytes = Builder::default().tensor("w", &[], 8, &[0; 34]).build();
    assert_cause!(refused(bytes, &["'w'", "Q8_0"]), Cause::BlockWidth { .. });
    let bytes = Builder::default().tensor("w", &[4, 0], 0, &[0; 4]).build();
    assert_cause!(refused(bytes, &["'w'"]), Cause::ZeroDimension { .. });
}

#[test]
fn g4_alignment() {
    let key = "general.alignment";
    for value in [0, 3, 33, 1 << 21, 1 << 30, u32::MAX] {
        let says = format!("general.alignment is {value}");
        let bytes = sound().u32(key, value).build();
        assert_cause!(refused(bytes, &[&says]), Cause::Alignment { .. });
    }
    for (kind, value) in [(10, 32u64.to_le_bytes().to_vec()), (8, counted(b"32")), (7, vec![1])] {
        let bytes = sound().key(key, kind, &value).build();
        assert_cause!(refused(bytes, &[key, "expected u32"]), Cause::WrongType { .. });
    }
    for alignment in [1, 8, 4096] {
        let file = Builder { alignment, ..Builder::default() }
            .u32(key, alignment as u32)
            .tensor("a", &[3], 24, &[1, 2, 3])
            .tensor("b", &[1], 24, &[4]);
        let gguf = Gguf::parse("x", file.build()).unwrap();
        assert_eq!(*gguf.get("b").unwrap().bytes, [4], "{alignment}");
    }
    let bytes = Builder::default().line("w", 1, &[1], 24, 16).build();
    assert_cause!(refused(bytes, &["'w'", "16", "32"]), Cause::Misaligned { .. });
}

#[test]
fn g6_duplicates() {
    let bytes = sound().u32("a.bool", 1).build();
    assert_cause!(refused(bytes, &["'a.bool'", "twice"]), Cause::DuplicateKey { .. });
    let bytes = sound().tensor("token_embd.weight", &[1], 0, &[0; 4]).build();
    let cause = refused(bytes, &["'token_embd.weight'", "twice"]);
    assert_cause!(cause, Cause::DuplicateTensor { .. });
}

#[test]
fn g7_versions() {
    for version in [2, 3] {
        let gguf = Gguf::parse("x", Builder { version, ..sound() }.build()).unwrap();
        assert_eq!((gguf.version(), gguf.names().len()), (version, 2));
    }
    for version in [0, 1, 4, 99, u32::MAX] {
        let says = format!("GGUF version {version} is not supported");
        let bytes = Builder { version, ..sound() }.build();
        assert_cause!(refused(bytes, &[&says]), Cause::Version { .. });
    }
}

#[test]
fn g8_big_endian() {
    for version in [2u32, 3] {
        let bytes = Builder { version: version.swap_bytes(), ..sound() }.build();
        assert_cause!(refused(bytes, &["big-endian GGUF"]), Cause::BigEndian { .. });
    }
}

#[test]
fn g9_cut_files() {
    let check = |whole: &[u8], at: usize| {
        let cause = refused(whole[..at].to_vec(), &[]);
        let early = at < 4 && matches!(cause, Cause::NotGguf { .. });
        assert!(
            early || matches!(cause, Cause::Truncated { .. } | Cause::Count { .. }),
            "{cause:?}"
        );
    };
    // At each byte, and so at each field.
    let whole = sound().build();
    (0..whole.len()).for_each(|at| check(&whole, at));
    let whole = GgufGolden::load(&goldens().join("gguf/llama31.f32")).bytes;
    (0..whole.len()).step_by(4096).for_each(|at| check(&whole, at));
    // Beyond the header the message tells what a user needs.
    let size = whole.len() - 1;
    let says =
        ["'output_norm.weight'", &whole.len().to_string(), &size.to_string(), "fetch it again"];
    assert_cause!(refused(whole[..size].to_vec(), &says), Cause::Truncated { .. });
}

#[test]
fn g12_other_files() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 99\n";
    let safetensors = [&u64::to_le_bytes(2)[..], b"{}"].concat();
    let check = |bytes: &[u8], says: &[&str]| {
        assert_cause!(refused(bytes.to_vec(), says), Cause::NotGguf { .. });
    };
    check(b"", &["an empty file", "fetch it again"]);
    check(pointer.as_bytes(), &["Git LFS pointer", "git lfs pull"]);
    check(b"\n<!DOCTYPE html><html>", &["web page", "fetch the file itself"]);
    check(b"<HTML>", &["web page"]);
    check(b"PK\x03\x04rest", &["ZIP", "unpack"]);
    check(&[0x1f, 0x8b, 8, 0], &["gzip"]);
    check(&safetensors, &["safetensors", "folder"]);
    check(br#"{"error": "not found"}"#, &["JSON"]);
    check(b"Entry not found", &["plain text"]);
    check(b"tjgg\x01\0\0\0", &["before GGUF"]);
    check(&[0xff; 64], &["nothing known"]);
}

#[test]
fn g13_strings_and_values() {
    let bytes = Builder::default().key("k", 13, &[0; 8]).build();
    assert_cause!(refused(bytes, &["'k'", "13"]), Cause::ValueType { .. });
    let bytes = Builder::default().key("k", 9, &array(99, 1, &[0; 8])).build();
    assert_cause!(refused(bytes, &["'k'", "99"]), Cause::ValueType { .. });
    let bytes = Builder::default().key("k", 8, &counted(&[0xc3])).build();
    assert_cause!(refused(bytes, &["'k'", "UTF-8"]), Cause::Utf8 { .. });
    let bytes = sound().u32("split.count", 3).u32("split.no", 1).build();
    assert_cause!(
        refused(bytes, &["part 2", "3 files", "where the others are"]),
        Cause::Split { .. }
    );
    // One file of one is whole; half a character in a vocabulary is data.
    Gguf::parse("x", sound().u32("split.count", 1).build()).unwrap();
    let file = Builder::default().key("t", 9, &array(8, 1, &counted(&[0xc3])));
    let gguf = Gguf::parse("x", file.build()).unwrap();
    assert_eq!(gguf.metadata().strs("t").unwrap().unwrap().next(), Some(&[0xc3][..]));
}

#[test]
fn g13_missing_keys() {
    let check = |file: Builder, says: &str| {
        let error = Gguf::parse("x", file.build()).unwrap().config().unwrap_err();
        assert!(matches!(*error.cause, Cause::MissingKey { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    check(Builder::default(), "general.architecture");
    check(Builder::of("gemma2"), "gemma2.embedding_length");
    // What it holds is not for this crate to judge.
    let other = Gguf::parse("x", Builder::of("foo").build()).unwrap().config().unwrap();
    assert_eq!(other["model_type"], "foo");
    let typed = Builder::of("llama").str("llama.block_count", "two").build();
    let error = Gguf::parse("x", typed).unwrap().config().unwrap_err();
    assert!(matches!(*error.cause, Cause::WrongType { .. }), "{error}");
}

#[test]
fn g15_unknown_types() {
    for (kind, says) in [(4, "4 (Q4_2"), (5, "5 (Q4_3"), (9, "9 (Q8_1"), (200, "200 (unknown")] {
        let bytes = Builder::default().line("w", 1, &[32], kind, 0).build();
        let says = format!("'w' uses type id {says}");
        assert_cause!(refused(bytes, &[&says]), Cause::UnknownType { .. });
    }
    let gguf =
        Gguf::parse("x", Builder::default().tensor("w", &[32], 39, &[0; 17]).build()).unwrap();
    assert_eq!(gguf.get("w").unwrap().dtype.name(), "MXFP4");
}

#[test]
fn paths_that_are_no_files() {
    let error = Gguf::open("/nonexistent/model.gguf").unwrap_err();
    assert!(matches!(*error.cause, Cause::Io(_)), "{error}");
    let error = Gguf::open(std::env::temp_dir()).unwrap_err();
    assert!(matches!(*error.cause, Cause::NotAFile), "{error}");
}
