//! Every block format against recorded blocks and their floats, bit for bit.
use rinfer_formats::quant::{Codes, FORMATS, Packs, codes, dequantise};
use rinfer_formats::tensor::DType;
use rinfer_testkit::safetensors;
use rinfer_testkit::shared::goldens;

/// `blocks` and the same as floats.
fn check(dtype: DType, blocks: &[u8], floats: &[f32]) {
    let name = dtype.name();
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let mut out = vec![f32::NAN; floats.len()];
    dequantise(dtype, blocks, &mut out).expect("weights");
    assert_eq!(bits(&out), bits(floats), "{name}");
    // Codes are independent of what their lists held before.
    let mut dirty = Codes { q: vec![7; 5], m: vec![9; 700], f32: vec![1.0], ..Codes::default() };
    let packs = codes(dtype, blocks, floats.len(), &mut dirty).expect("weights");
    if packs == Packs::F32 {
        assert_eq!(bits(&dirty.f32), bits(floats), "{name}");
        assert!(dirty.q.is_empty() && dirty.m.is_empty());
    }
    let mut clean = Codes::default();
    codes(dtype, blocks, floats.len(), &mut clean).expect("weights");
    assert_eq!(format!("{dirty:?}"), format!("{clean:?}"), "{name}");
}

#[test]
fn formats_equal_the_goldens() {
    let mut seen = 0;
    for format in FORMATS {
        let path = goldens().join(format!("gguf_types/{}.safetensors", format.name));
        let Ok(bytes) = std::fs::read(&path) else {
            let plain = format.ggml.is_none() || matches!(format.name, "F32" | "F64" | "Q8_K");
            assert!(plain || format.name.starts_with('I'), "{} has no golden", format.name);
            continue;
        };
        let t = safetensors::read(&bytes);
        for kind in ["random", "real"] {
            let blocks = &t[&format!("raw_{kind}")].bytes;
            check(format.dtype, blocks, &t[&format!("f32_{kind}")].f32());
        }
        seen += 1;
    }
    assert_eq!(seen, 27);
}
