//! Bundles, whole and damaged: each fault is named with its place, and none is passed over.
use rinfer_formats::bundle::{MAGIC, STEP, Writer, metadata};
use rinfer_formats::gguf::Value;
use rinfer_formats::{Bundle, DType, Gguf, Weights};
use rinfer_testkit::gguf_builder::Builder;
use serde_json::json;
use std::io::{Cursor, Result, Seek, SeekFrom, Write};

/// A bundle with a file and two tensors, from byte `base` on.
fn fill(out: impl Write + Seek, base: u64) -> Result<u64> {
    let mut writer = Writer::new(out, base)?;
    writer.file("tokenizer.json", b"{\"a\": 1}")?;
    writer.tensor(("w", DType::Q4_0), Some("W4".into()), &[2, 3, 5], |put| {
        put(&[1; 100])?;
        put(&[2; 28])
    })?;
    writer.tensor(("v", DType::F16), None, &[3], |put| {
        [1f32, 2.0, 3.0].iter().try_for_each(|x| put(&x.to_le_bytes()))
    })?;
    writer.finish(json!({"name": "a model", "spec": {"vocab": 7}}))
}

fn bytes() -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let length = fill(&mut out, 0).expect("memory");
    let bytes = out.into_inner();
    assert_eq!(bytes.len() as u64, length);
    bytes
}

fn error(bytes: &[u8]) -> String {
    let opened = Bundle::parse("a.rinf", bytes.to_vec()).and_then(|bundle| bundle.verify());
    opened.err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn what_is_written_is_read() {
    let bundle = Bundle::parse("a.rinf", bytes()).expect("a bundle");
    bundle.verify().expect("a whole bundle");
    assert_eq!(bundle.model()["spec"]["vocab"], 7);
    assert_eq!(bundle.file("tokenizer.json").as_deref(), Some(&b"{\"a\": 1}"[..]));
    assert!(bundle.file("other").is_none());
    assert_eq!(bundle.names(), ["w", "v"]);
    assert!(bundle.get("w").is_none());
    assert_eq!(bundle.describe("w"), Some((DType::Q4_0, vec![2, 3, 5])));
    let w = bundle.prepared("w").expect("a packed one");
    assert_eq!((w.layout, w.shape), ("W4", &[2, 3, 5][..]));
    assert_eq!(w.bytes[..], [[1; 100].as_slice(), &[2; 28]].concat());
    assert!(bundle.prepared("v").is_none());
    let v = bundle.get("v").expect("a vector");
    assert_eq!((v.dtype, &v.shape[..], v.bytes.len()), (DType::F32, &[3][..], 12));
    let on_grid = |s: u64| s.is_multiple_of(STEP);
    assert!(bundle.header().sections().iter().all(|(_, s)| on_grid(s.offset)));
    // Within another file.
    let mut out = Cursor::new(vec![9; 64]);
    fill(&mut out, 128).expect("memory");
    assert_eq!(out.into_inner()[128..], bytes());
}

#[test]
fn every_cut_is_named() {
    let whole = bytes();
    for end in 0..whole.len() {
        let error = error(&whole[..end]);
        let says = if end < MAGIC.len() { "not a bundle" } else { "cut short" };
        assert!(error.contains(says) && error.contains("a.rinf"), "{end}: {error}");
    }
    let longer = error(&[&whole[..], b"x"].concat());
    assert!(longer.contains("something was added"), "{longer}");
}

#[test]
fn every_flip_is_named() {
    let whole = bytes();
    assert_eq!(error(&whole), "");
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            let error = error(&flipped);
            let says = match at {
                0..8 => "not a bundle",
                8..12 => "newer rinfer: format",
                // A length that is another is a file that is too short or too long.
                12..64 => "a.rinf: ",
                _ => "is damaged",
            };
            // Version 0 never was.
            let says = if at == 8 && bit == 1 { "is damaged" } else { says };
            assert!(error.contains(says), "byte {at}, bit {bit}: {error:?}");
        }
    }
    let mut flipped = whole.clone();
    flipped[130] ^= 1;
    let tensor = error(&flipped);
    assert!(tensor.contains("the tensor 'w' (bytes 128 to 256)"), "{tensor}");
}

#[test]
fn newer_and_foreign_files() {
    let mut newer = bytes();
    newer[8] = 3;
    let says = "written by a newer rinfer: format 3, this one reads up to 2";
    assert!(error(&newer).contains(says), "{}", error(&newer));
    for (content, looks) in [(&b"GGUF"[..], "GGUF"), (b"", "an empty file"), (b"{}", "JSON")] {
        assert!(error(content).contains(looks), "{}", error(content));
    }
    // What a text's conversion makes of it.
    let text = bytes().into_iter().filter(|byte| *byte != b'\r').collect::<Vec<u8>>();
    assert!(error(&text).contains("not a bundle"));
}

/// The same bundle with another header, its checksums right.
fn with_header(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut bytes = bytes();
    let at = |bytes: &[u8], i: usize| u64::from_le_bytes(*bytes[i..].first_chunk().expect("8"));
    let from = at(&bytes, 24) as usize;
    let mut header = serde_json::from_slice(&bytes[from..]).expect("a header");
    change(&mut header);
    let json = header.to_string();
    bytes.truncate(from);
    bytes.extend(json.as_bytes());
    let length = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    bytes[32..40].copy_from_slice(&(json.len() as u64).to_le_bytes());
    bytes[40..44].copy_from_slice(&crc32fast::hash(json.as_bytes()).to_le_bytes());
    let crc32 = crc32fast::hash(&bytes[16..64]);
    bytes[12..16].copy_from_slice(&crc32.to_le_bytes());
    bytes
}

#[test]
fn forged_headers() {
    let check = |at: &str, value: serde_json::Value, says: &[&str]| {
        let error = error(&with_header(|header| {
            *header.pointer_mut(at).expect("a place") = value.clone();
        }));
        says.iter().for_each(|word| assert!(error.contains(word), "{at} = {value}: {error:?}"));
    };
    assert_eq!(error(&with_header(|_| {})), "");
    let place = ["the tensor 'w'", "lies at bytes"];
    for offset in [json!(0), json!(1), json!(64), json!(100), json!(1u64 << 20), json!(u64::MAX)] {
        check("/tensors/0/section/offset", offset, &place);
    }
    for length in [json!(u64::MAX), json!(1u64 << 20), json!(129)] {
        check("/tensors/0/section/length", length, &["lies at bytes"]);
    }
    check("/tensors/0/section/length", json!(-1), &["header is not valid"]);
    check("/tensors/1/shape", json!([4]), &["'v'", "needs 16 bytes and has 12"]);
    check("/tensors/1/shape", json!([u64::MAX, 2]), &["'v'"]);
    check("/tensors/1/name", json!("w"), &["'w' occurs twice"]);
    check("/tensors/1/source", json!("Q99"), &["'v'", "Q99"]);
    check("/files", json!({}), &["header is not valid"]);
    check("/tensors/1", json!({"name": "x"}), &["header is not valid"]);
    let more = error(&with_header(|header| header["more"] = json!(1)));
    assert!(more.contains("unknown field `more`"), "{more}");
}

/// A writer that is full after some bytes.
struct Full {
    out: Cursor<Vec<u8>>,
    left: usize,
}
impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.left < bytes.len() {
            self.out.write_all(&bytes[..self.left])?;
            self.left = 0;
            return Err(std::io::Error::other("full"));
        }
        self.left -= bytes.len();
        self.out.write(bytes)
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.out.seek(to)
    }
}

#[test]
fn what_is_not_finished_is_no_bundle() {
    let mut left = 0;
    loop {
        let mut full = Full { out: Cursor::new(Vec::new()), left };
        match fill(&mut full, 0) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.to_string(), "full"),
        }
        // The last bytes to be written are zeros, as they were before.
        let written = full.out.get_ref();
        assert!(!error(written).is_empty() || *written == bytes(), "a bundle after {left} bytes");
        left += 1;
    }
    assert!(left > bytes().len());
}

#[test]
fn metadata_of_gguf_is_kept() {
    let file = Builder::of("x")
        .u32("tokenizer.ggml.eos_token_id", 7)
        .f32("general.sampling.temp", 0.25)
        .u32("split.count", 1)
        .key("a.signed", 5, &(-3i32).to_le_bytes())
        .key("a.bool", 7, &[1]);
    let from = Gguf::parse("a.gguf", file.build()).expect("a GGUF");
    let kept = Gguf::parse("b.gguf", metadata(&from)).expect("a GGUF");
    let (from, kept) = (from.metadata(), kept.metadata());
    let keys: Vec<&str> = from.keys().filter(|key| *key != "split.count").collect();
    assert_eq!(kept.keys().collect::<Vec<_>>(), keys);
    for key in keys {
        assert_eq!(kept.get(key), from.get(key), "{key}");
    }
    assert_eq!(kept.get("a.signed"), Some(Value::Signed(-3)));
}
