//! What the fuzz targets of `rinfer-formats` do with an input: read all that it gives.
use rinfer_formats::gguf::Value;
use rinfer_formats::{Gguf, Safetensors, Weights, quant};

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

fn weights(weights: &dyn Weights) {
    for name in weights.names() {
        let t = weights.get(name).expect("a listed tensor");
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
