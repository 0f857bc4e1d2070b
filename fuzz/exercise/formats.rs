//! What the fuzz targets of `rinfer-formats` do with an input: read all that it gives.
use rinfer_formats::bundle::Writer;
use rinfer_formats::error::Error;
use rinfer_formats::executable::{self, Program, SLOT};
use rinfer_formats::gguf::Value;
use rinfer_formats::{Bundle, Folder, Gguf, Safetensors, Weights, quant};
use std::path::{Path, PathBuf};

/// Opens a GGUF file, its metadata, its config and its tensors.
pub fn gguf(bytes: &[u8]) {
    let Ok(gguf) = Gguf::parse("fuzz.gguf", bytes.to_vec()) else { return };
    let metadata = gguf.metadata();
    for key in metadata.keys() {
        let value = metadata.get(key).expect("a listed key has a value");
        if let Value::Array(array) = value {
            let strings = array.strings().map(|s| s.map(<[u8]>::len).count());
            let scalars = array.scalars().map(|s| s.count());
            let counts = [strings, scalars];
            assert!(counts.into_iter().flatten().all(|n| n == array.len()));
        }
        let _ = (metadata.u32(key), metadata.f32(key), metadata.bool(key), metadata.str(key));
        let _ = (metadata.i32s(key), metadata.u32s(key), metadata.f32s(key), metadata.bools(key));
    }
    if let Err(error) = gguf.config() {
        assert!(!error.to_string().is_empty());
    }
    weights(&gguf);
}

/// Opens a safetensors file and its tensors.
pub fn safetensors(bytes: &[u8]) {
    if let Ok(file) = Safetensors::parse("fuzz.safetensors", bytes.to_vec()) {
        weights(&file);
    }
}

/// Opens a quantised folder: the length of its config as a byte pair, config.json, and its tensors.
pub fn quantised(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let Some((config, tensors)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
    else {
        return;
    };
    if let Ok(folder) = Folder::parse("fuzz", config, tensors.to_vec()) {
        weights(&folder);
        for name in folder.names() {
            let (all, part) = (folder.get(name).expect("a tensor"), folder.part(name, 0));
            assert!(part.is_none_or(|part| all.bytes.starts_with(&part.bytes)), "{name}");
        }
    }
}

/// Opens a bundle, its files and its tensors; then the same with checksums that are right, so that
/// what is behind them is met as well.
pub fn bundle(bytes: &[u8]) {
    open_bundle(bytes);
    let mut forged = bytes.to_vec();
    if let Some(number) = forged.get(24..32).and_then(|b| b.first_chunk()) {
        let header = usize::try_from(u64::from_le_bytes(*number)).unwrap_or(usize::MAX);
        let Some(json) = forged.get(header..) else { return };
        let (length, crc32) = (json.len() as u64, crc32fast::hash(json));
        let all = forged.len() as u64;
        let Some(first) = forged.first_chunk_mut::<64>() else { return };
        first[16..24].copy_from_slice(&all.to_le_bytes());
        first[32..40].copy_from_slice(&length.to_le_bytes());
        first[40..44].copy_from_slice(&crc32.to_le_bytes());
        let crc32 = crc32fast::hash(&first[16..]);
        first[12..16].copy_from_slice(&crc32.to_le_bytes());
        open_bundle(&forged);
    }
}

fn open_bundle(bytes: &[u8]) {
    if let Ok(bundle) = Bundle::parse("fuzz.rinf", bytes.to_vec()) {
        read(&bundle);
    }
}

fn read(bundle: &Bundle) {
    let _ = bundle.verify();
    for file in &bundle.header().files {
        bundle.file(&file.name).expect("a listed file");
    }
    for stored in bundle.header().tensors.iter().filter(|t| t.layout.is_some()) {
        let prepared = bundle.prepared(&stored.name).expect("a packed tensor");
        assert_eq!(prepared.bytes.len() as u64, stored.section.length);
    }
    weights(bundle);
}

/// Opens a program and the bundle at its end, as it is and with a note that is right; gives it a
/// bundle, which is then found.
pub fn executable(bytes: &[u8]) {
    let [path, made] = ["", "-made"].map(scratch);
    open_program(bytes, &path, &made);
    let mut forged = bytes.to_vec();
    let mark = &executable::slot()[..16];
    if let Some(at) = forged.windows(16).position(|window| window == mark)
        && let Some(slot) = forged[at..].first_chunk_mut::<SLOT>()
    {
        let crc32 = u64::from(crc32fast::hash(&slot[..40]));
        slot[40..48].copy_from_slice(&crc32.to_le_bytes());
        open_program(&forged, &path, &made);
    }
    for path in [path, made] {
        let _ = std::fs::remove_file(path);
    }
}

fn open_program(bytes: &[u8], path: &Path, made: &Path) {
    std::fs::write(path, bytes).expect("a writable folder");
    match executable::bundle(path) {
        Ok(bundle) => read(&bundle),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let Ok(program) = Program::read(path) else { return };
    let mut out = std::fs::File::options();
    let out = out.read(true).write(true).create(true).truncate(true).open(made);
    let written = program.append::<Failed>(made, &mut out.expect("a file"), 0, |out, at| {
        let mut writer = Writer::new(out, at)?;
        writer.file("a", &[7; 100])?;
        Ok(writer.finish(serde_json::json!({"name": "a model"}))?)
    });
    let length = written.expect("a program that a bundle goes with");
    assert_eq!(std::fs::metadata(made).expect("a file").len(), length);
    let bundle = executable::bundle(made).expect("the bundle");
    assert_eq!(bundle.model()["name"], "a model");
    bundle.verify().expect("what was written");
    drop(bundle);
    // What was made is a program, and its bundle is replaced.
    Program::read(made).expect("a program still");
}

/// A file of this process's own, in memory where the system has such a folder.
fn scratch(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("rinfer-fuzz-{}{name}", std::process::id()))
}

#[derive(Debug)]
struct Failed(#[expect(dead_code, reason = "it is shown")] String);
impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        Failed(error.to_string())
    }
}
impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed(error.to_string())
    }
}

fn weights(weights: &dyn Weights) {
    for name in weights.names().into_iter().filter(|name| weights.prepared(name).is_none()) {
        let t = weights.get(name).expect("a listed tensor");
        let described = weights.describe(name).expect("a listed tensor");
        assert_eq!(described, (t.dtype, t.shape.to_vec()), "{name}");
        let format = t.dtype.format();
        let elems = t.rows() * t.cols();
        assert_eq!(t.bytes.len(), elems / format.elems * format.bytes, "{name}");
        // Types of a bit an element make many floats of few bytes.
        if elems <= 1 << 16 {
            let mut out = vec![0.0; elems];
            let floats = quant::dequantise(t.dtype, &t.bytes, &mut out);
            let codes = quant::codes(t.dtype, &t.bytes, elems, &mut quant::Codes::default());
            assert_eq!(floats.is_ok(), codes.is_ok(), "{name}");
        }
    }
}
