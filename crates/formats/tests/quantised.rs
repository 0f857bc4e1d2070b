//! Quantised folders that lie, each a kind of fault, and what small ones hold.
use rinfer_formats::quant::dequantise;
use rinfer_formats::{DType, Folder, Weights};
use rinfer_testkit::safetensors::{Entry, write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

type Tensors = Vec<(&'static str, &'static str, Vec<usize>, Vec<u8>)>;

/// A folder that is removed again.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(config: &Value, tensors: &Tensors, side: Option<(&str, Value)>) -> Temporary {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("rinfer-folder-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&path).expect("it is sound");
    std::fs::write(path.join("config.json"), config.to_string()).expect("it is sound");
    let tensors: BTreeMap<String, Entry> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            let entry =
                Entry { dtype: (*dtype).into(), shape: shape.clone(), bytes: bytes.clone() };
            ((*name).to_owned(), entry)
        })
        .collect();
    std::fs::write(path.join("model.safetensors"), write(&tensors)).expect("it is sound");
    if let Some((name, json)) = side {
        std::fs::write(path.join(name), json.to_string()).expect("it is sound");
    }
    Temporary(path)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
fn halves(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect()
}
fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// `a.weight` of a folder: its type, shape and values.
fn opened(config: Value, tensors: &Tensors) -> (DType, Vec<usize>, Vec<f32>) {
    let folder = folder(&config, tensors, None);
    let open = Folder::open(&folder.0).expect("it is sound");
    assert!(open.names().contains(&"a.weight"), "{:?}", open.names());
    let tensor = open.get("a.weight").expect("a weight");
    assert_eq!(open.describe("a.weight"), Some((tensor.dtype, tensor.shape.to_vec())));
    let mut values = vec![0.0; tensor.rows() * tensor.cols()];
    dequantise(tensor.dtype, &tensor.bytes, &mut values).expect("it is sound");
    (tensor.dtype, tensor.shape.to_vec(), values)
}

fn gptq(bits: u32, more: Value) -> Value {
    let mut scheme = json!({"quant_method": "gptq", "bits": bits, "group_size": 32});
    scheme
        .as_object_mut()
        .expect("it is sound")
        .extend(more.as_object().expect("it is sound").clone());
    json!({"quantization_config": scheme})
}

/// 32 outputs of 32 inputs of so many bits: code `(i + o) % 2^bits`, zeros `zero` less `short`.
fn stream(bits: u32, zero: u32, short: u32) -> Tensors {
    let code = |i: u32, o: u32| (i + o) % (1 << bits);
    let pack = |code: &dyn Fn(u32) -> u32| -> Vec<u32> {
        (0..bits)
            .map(|w| {
                let bit = |b: u32| code((32 * w + b) / bits) >> ((32 * w + b) % bits) & 1;
                (0..32).map(|b| bit(b) << b).sum()
            })
            .collect()
    };
    let columns: Vec<Vec<u32>> = (0..32).map(|o| pack(&|i| code(i, o))).collect();
    let q: Vec<u32> = (0..bits as usize).flat_map(|w| columns.iter().map(move |c| c[w])).collect();
    vec![
        ("a.qweight", "I32", vec![bits as usize, 32], words(&q)),
        ("a.qzeros", "I32", vec![1, bits as usize], words(&pack(&|_| zero - short))),
        ("a.scales", "F16", vec![1, 32], halves(&[0.5; 32])),
    ]
}

#[test]
fn every_width_of_gptq() {
    for (bits, middle, plain, zeroed) in [
        (2, 2, DType::Q4_0, DType::Q4_Z),
        (3, 4, DType::Q4_0, DType::Q4_Z),
        (4, 8, DType::Q4_0, DType::Q4_Z),
        (8, 128, DType::Q8_0, DType::Q8_Z),
    ] {
        for (format, short) in [("gptq", 1), ("gptq_v2", 0)] {
            for (zero, dtype) in [(middle, plain), (1, zeroed)] {
                let config = gptq(bits, json!({"checkpoint_format": format}));
                let (found, shape, values) = opened(config, &stream(bits, zero, short));
                assert_eq!((found, &shape[..]), (dtype, &[32, 32][..]), "{bits} bits");
                for (at, value) in values.iter().enumerate() {
                    let code = (at / 32 + at % 32) % (1 << bits);
                    let want = 0.5 * (code as f32 - zero as f32);
                    assert_eq!(*value, want, "{bits} bits, {format}, zero {zero}, {at}");
                }
            }
        }
    }
}

/// A stored zero of 15 is 16 in the first version, and no wrap to 0.
#[test]
fn zeros_of_the_first_version_go_to_sixteen() {
    let (dtype, _, values) = opened(gptq(4, json!({})), &stream(4, 16, 1));
    assert_eq!((dtype, values[0], values[1]), (DType::Q4_Z, -8.0, -7.5));
}

fn refused(config: Value, tensors: &Tensors, says: &[&str]) {
    refused_with(config, tensors, None, says);
}

fn refused_with(config: Value, tensors: &Tensors, side: Option<(&str, Value)>, says: &[&str]) {
    let folder = folder(&config, tensors, side);
    let error = Folder::open(&folder.0).map(|_| ()).expect_err("a folder that lies").to_string();
    assert!(error.contains("rinfer-folder"), "{error} names no file");
    for part in says {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

/// The tensors with one of them replaced, or left out.
fn but(tensors: Tensors, name: &str, with: Option<(&'static str, Vec<usize>, Vec<u8>)>) -> Tensors {
    let mut out: Tensors = tensors;
    let at = out.iter().position(|t| t.0 == name);
    let old = at.map(|at| out.remove(at));
    let name = old.map_or("a.g_idx", |old| old.0);
    out.extend(with.map(|(dtype, shape, bytes)| (name, dtype, shape, bytes)));
    out
}

#[test]
fn keys_are_known_or_refused() {
    let of = |more: Value| gptq(4, more);
    let sound = stream(4, 8, 1);
    let check = |config: Value, says: &[&str]| refused(config, &sound, says);
    check(gptq(5, json!({})), &["config.json", "quantization_config.bits is 5", "2, 3, 4, 8"]);
    check(of(json!({"bits": "4"})), &["bits is \"4\"", "a whole number"]);
    check(of(json!({"group_size": 0})), &["group_size is 0"]);
    check(of(json!({"checkpoint_format": "marlin"})), &["\"marlin\"", "gptq, gptq_v2"]);
    check(of(json!({"is_marlin_format": true})), &["is_marlin_format is true"]);
    check(of(json!({"pack_dtype": "int64"})), &["pack_dtype"]);
    check(of(json!({"quant_method": "hqq"})), &["quant_method is \"hqq\"", "compressed-tensors"]);
    let awq = |more: Value| {
        let mut config = json!({"quant_method": "awq", "bits": 4, "group_size": 32});
        config
            .as_object_mut()
            .expect("it is sound")
            .extend(more.as_object().expect("it is sound").clone());
        json!({"quantization_config": config})
    };
    check(awq(json!({"version": "gemv"})), &["version is \"gemv\"", "gemm"]);
    check(awq(json!({"bits": 8})), &["bits is 8"]);
    check(awq(json!({"zero_point": false})), &["zero_point is false"]);
    let fp8 = |more: Value| json!({"quantization_config": more});
    let block = json!({"quant_method": "fp8", "weight_block_size": [128]});
    check(fp8(block), &["weight_block_size is [128]"]);
    check(fp8(json!({"quant_method": "fp8", "fmt": "e5m2"})), &["fmt is \"e5m2\""]);
    let ct = |more: Value| {
        let group = json!({"weights": {"num_bits": 4, "type": "int"}});
        let mut config = json!({
            "quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": group},
        });
        config
            .as_object_mut()
            .expect("it is sound")
            .extend(more.as_object().expect("it is sound").clone());
        json!({"quantization_config": config})
    };
    check(ct(json!({"format": "marlin-24"})), &["format is \"marlin-24\""]);
    check(ct(json!({"kv_cache_scheme": {"num_bits": 8}})), &["kv_cache_scheme"]);
    check(ct(json!({"config_groups": null})), &["config_groups is not there"]);
    let five = json!({"g": {"weights": {"num_bits": 5, "type": "int"}}});
    check(ct(json!({"config_groups": five})), &["config_groups.g.weights.num_bits is 5"]);
    let sparse = json!({"format": "sparse-24-bitmask"});
    check(ct(json!({"sparsity_config": sparse})), &["sparsity_config.format"]);
    let side = Some(("quantize_config.json", json!({"bits": 8})));
    refused_with(of(json!({})), &sound, side, &["quantize_config.json", "bits is 8", "known: 4"]);
    let side = Some(("quantize_config.json", json!({"bits": 5, "group_size": 32})));
    refused_with(json!({}), &sound, side, &["quantize_config.json: bits is 5"]);
}

#[test]
fn older_folders_have_a_file_of_their_own() {
    let side = Some(("quantize_config.json", json!({"bits": 4, "group_size": 32})));
    let folder = folder(&json!({}), &stream(4, 8, 1), side);
    assert_eq!(Folder::open(&folder.0).expect("it is sound").names(), ["a.weight"]);
    let awq = |more: Value| {
        let mut config = json!({"w_bit": 4, "q_group_size": 32, "version": "GEMM"});
        config
            .as_object_mut()
            .expect("it is sound")
            .extend(more.as_object().cloned().unwrap_or_default());
        Some(("quant_config.json", config))
    };
    // Codes 0 to 7 of eight outputs, which lie in the order 0, 2, 4, 6, 1, 3, 5, 7.
    let tensors: Tensors = vec![
        ("a.qweight", "I32", vec![32, 1], words(&[0x7531_6420; 32])),
        ("a.qzeros", "I32", vec![1, 1], words(&[0x1111_1111])),
        ("a.scales", "F16", vec![1, 8], halves(&[0.5; 8])),
    ];
    let folder = self::folder(&json!({}), &tensors, awq(json!({"zero_point": true})));
    let tensor = Folder::open(&folder.0).expect("it is sound");
    let tensor = tensor.get("a.weight").expect("a weight");
    let mut values = [0.0; 256];
    dequantise(tensor.dtype, &tensor.bytes, &mut values).expect("it is sound");
    let first: Vec<f32> = values.chunks(32).map(|row| row[5]).collect();
    assert_eq!(first, [-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    let three = awq(json!({"w_bit": 3}));
    refused_with(json!({}), &tensors, three, &["quant_config.json: w_bit is 3"]);
}

#[test]
fn parts_of_gptq_agree_or_are_refused() {
    let sound = || stream(4, 3, 1);
    let check = |tensors: Tensors, says: &[&str]| refused(gptq(4, json!({})), &tensors, says);
    check(but(sound(), "a.scales", None), &["'a.scales' is missing", "'a.qweight'"]);
    check(but(sound(), "a.qzeros", None), &["'a.qzeros' is missing"]);
    let two = Some(("F16", vec![2, 32], halves(&[1.0; 64])));
    check(but(sound(), "a.scales", two), &["a.qzeros", "[1, 4]", "[2, 4]"]);
    let narrow = Some(("F16", vec![1, 31], halves(&[1.0; 31])));
    check(but(sound(), "a.scales", narrow), &["a.qweight", "[4, 31]"]);
    let integers = Some(("I32", vec![1, 32], words(&[1; 32])));
    check(but(sound(), "a.scales", integers), &["a.scales", "F16 or BF16 or F32"]);
    let none = Some(("I32", vec![0, 32], Vec::new()));
    check(but(sound(), "a.qweight", none), &["a.qweight", "[0, 32]"]);
    let flat = Some(("I32", vec![128], words(&[0; 128])));
    check(but(sound(), "a.qweight", flat), &["a.qweight", "2 axes"]);
    let beyond = |group: u32| {
        let mut all = vec![0; 32];
        all[5] = group;
        Some(("I32", vec![32], words(&all)))
    };
    check(but(sound(), "", beyond(1)), &["a.g_idx", "has 1 at 5", "below 1"]);
    check(but(sound(), "", beyond(u32::MAX)), &["a.g_idx", "has -1 at 5"]);
    let short = Some(("I32", vec![31], words(&[0; 31])));
    check(but(sound(), "", short), &["a.g_idx", "[32]"]);
    let sixteen = gptq(4, json!({"group_size": 16}));
    refused(sixteen, &sound(), &["a.scales", "2 groups of 16 of 32 inputs"]);
}

/// Columns that groups are scattered over are read as they are, or in the order of their groups.
#[test]
fn act_order_is_an_order() {
    let twice = |words: &[u8]| words.repeat(2);
    let sound = stream(4, 3, 1);
    let tensors: Tensors = vec![
        ("a.qweight", "I32", vec![8, 32], twice(&sound[0].3)),
        (
            "a.qzeros",
            "I32",
            vec![2, 4],
            [words(&[0x2222_2222; 4]), words(&[0x4444_4444; 4])].concat(),
        ),
        ("a.scales", "F16", vec![2, 32], halves(&[[0.5; 32], [0.25; 32]].concat())),
        ("a.g_idx", "I32", vec![64], words(&(0..64).map(|i| 1 - i % 2).collect::<Vec<u32>>())),
    ];
    let folder = folder(&gptq(4, json!({})), &tensors, None);
    let open = Folder::open(&folder.0).expect("it is sound");
    let (natural, sorted) = (
        open.get("a.weight").expect("it is sound"),
        open.in_order("a.weight").expect("it is sound"),
    );
    let (dtype, order) = open.order("a.weight").expect("an order");
    assert_eq!((natural.dtype, sorted.dtype, dtype), (DType::F32, DType::Q4_Z, DType::Q4_Z));
    assert_eq!((order[0], order[1], order[32], order[63]), (1, 3, 0, 62));
    let values = |tensor: &rinfer_formats::Tensor<'_>| {
        let mut values = vec![0.0; 32 * 64];
        dequantise(tensor.dtype, &tensor.bytes, &mut values).expect("it is sound");
        values
    };
    let (natural, sorted) = (values(&natural), values(&sorted));
    assert_eq!((natural[0], natural[1]), (0.25 * (0.0 - 5.0), 0.5 * (1.0 - 3.0)));
    for (natural, sorted) in natural.chunks(64).zip(sorted.chunks(64)) {
        let turned: Vec<f32> = order.iter().map(|k| natural[*k as usize]).collect();
        assert_eq!(turned, sorted);
    }
    assert!(open.order("a.qweight").is_none());
}

/// Groups that no block holds are widened, not approximated; halves of a block have scales of their own.
#[test]
fn odd_groups() {
    let two = Some(("F16", vec![2, 32], halves(&[0.5; 64])));
    let mut tensors = but(stream(4, 3, 1), "a.scales", two);
    let zeros = [words(&[0x2222_2222; 4]), words(&[0x4444_4444; 4])].concat();
    tensors = but(tensors, "a.qzeros", Some(("I32", vec![2, 4], zeros)));
    let config = || gptq(4, json!({"group_size": 16}));
    let (dtype, _, values) = opened(config(), &tensors);
    assert_eq!((dtype, values[0], values[16]), (DType::Q4_H, -1.5, -2.5));
    let four = Some(("F16", vec![4, 32], halves(&[0.5; 128])));
    let zeros = [0x2222_2222, 0x4444_4444, 0x2222_2222, 0x4444_4444].map(|zero| words(&[zero; 4]));
    let mut eights = but(tensors.clone(), "a.scales", four);
    eights = but(eights, "a.qzeros", Some(("I32", vec![4, 4], zeros.concat())));
    let (dtype, _, values) = opened(gptq(4, json!({"group_size": 8})), &eights);
    assert_eq!((dtype, values[0], values[8], values[16]), (DType::F32, -1.5, 1.5, -1.5));
    // Every second input is of the other group.
    let turns: Vec<u32> = (0..32).map(|i| i % 2).collect();
    let (dtype, _, values) =
        opened(config(), &but(tensors, "", Some(("I32", vec![32], words(&turns)))));
    assert_eq!((dtype, values[0], values[1]), (DType::F32, -1.5, -2.0));
}

fn fp8(scales: &'static str, shape: Vec<usize>) -> Tensors {
    // 1, -2, the smallest, the largest.
    let weights = [0x38, 0xc0, 0x01, 0x7e].repeat(32 * 2);
    let count = shape.iter().product::<usize>();
    vec![
        ("a.weight", "F8_E4M3", vec![4, 64], weights),
        (scales, "F32", shape, floats(&vec![0.5; count])),
    ]
}

#[test]
fn floats_of_eight_bits() {
    let config = |block: Value| {
        let scheme = json!({"quant_method": "fp8", "weight_block_size": block});
        json!({"quantization_config": scheme})
    };
    let want = [0.5, -1.0, 0.5 * 0.001953125, 224.0];
    for (block, name, shape, dtype) in [
        (json!([2, 32]), "a.weight_scale_inv", vec![2, 2], DType::Q8_E),
        (json!([3, 16]), "a.weight_scale_inv", vec![2, 4], DType::F32),
        (Value::Null, "a.weight_scale", vec![], DType::Q8_E),
        (Value::Null, "a.weight_scale", vec![1], DType::Q8_E),
        (Value::Null, "a.weight_scale", vec![4], DType::Q8_E),
        (Value::Null, "a.weight_scale", vec![4, 1], DType::Q8_E),
    ] {
        let (found, _, values) = opened(config(block), &fp8(name, shape));
        assert_eq!((found, &values[..4]), (dtype, &want[..]), "{name}");
    }
    let alike = |block: Value, name, shape| {
        let folder = folder(&config(block), &fp8(name, shape), None);
        Folder::open(&folder.0).expect("it is sound").alike("a.weight")
    };
    assert_eq!(alike(json!([2, 32]), "a.weight_scale_inv", vec![2, 2]), 2);
    assert_eq!(alike(Value::Null, "a.weight_scale", vec![]), 4);
    assert_eq!(alike(Value::Null, "a.weight_scale", vec![4]), 1);
    let block = json!([2, 32]);
    let wrong = fp8("a.weight_scale_inv", vec![2, 3]);
    refused(config(block.clone()), &wrong, &["a.weight_scale_inv", "[2, 3]", "blocks of 2x32"]);
    let missing = fp8("b.weight_scale_inv", vec![2, 2]);
    refused(config(block), &missing, &["'a.weight_scale_inv' is missing"]);
    refused(config(Value::Null), &fp8("a.weight_scale", vec![3]), &["each of 4 rows"]);
}

/// One that is no number shows in all that its block is part of.
#[test]
fn what_is_no_number_stays_none() {
    let mut tensors = fp8("a.weight_scale", vec![1]);
    tensors[0].3[70] = 0xff;
    let scheme = json!({"quantization_config": {"quant_method": "fp8"}});
    let (_, _, values) = opened(scheme, &tensors);
    assert!(values[70].is_nan() && values[64 + 32] == 0.5);
}

#[test]
fn parts_of_compressed_tensors() {
    let config = |bits: u32, kind: &str| {
        let weights = json!({"num_bits": bits, "type": kind});
        json!({"quantization_config": {
            "quant_method": "compressed-tensors", "config_groups": {"g": {"weights": weights}},
        }})
    };
    let sound = |scales: &'static str, bytes: Vec<u8>| -> Tensors {
        let size = |n: u64| n.to_le_bytes().to_vec();
        vec![
            ("a.weight_packed", "I32", vec![2, 4], words(&[0x7654_3210; 8])),
            ("a.weight_scale", scales, vec![2, 1], bytes),
            ("a.weight_shape", "I64", vec![2], [size(2), size(32)].concat()),
        ]
    };
    let halved = || sound("F16", halves(&[0.5, 0.25]));
    let (dtype, _, values) = opened(config(4, "int"), &halved());
    assert_eq!((dtype, values[0], values[33]), (DType::Q4_0, -4.0, -1.75));
    // A bfloat16 beyond halves, and a float.
    let small = 0x2000u16.to_le_bytes().repeat(2);
    let (dtype, _, values) = opened(config(4, "int"), &sound("BF16", small));
    assert_eq!((dtype, values[0]), (DType::Q4_B, -8.0 * f32::from_bits(0x2000_0000)));
    let (dtype, _, values) = opened(config(4, "int"), &sound("F32", floats(&[0.3, 0.1])));
    assert_eq!((dtype, values[1]), (DType::Q4_H, 0.3 * -7.0));
    refused(config(8, "int"), &halved(), &["a.weight_packed", "[8] bits"]);
    let none = but(halved(), "a.weight_shape", None);
    refused(config(4, "int"), &none, &["'a.weight_shape' is missing"]);
    let three = Some(("F16", vec![2, 3], halves(&[1.0; 6])));
    let three = but(halved(), "a.weight_scale", three);
    refused(config(4, "int"), &three, &["a.weight_scale", "4 groups of 10 of 32"]);
    let zeroed = |zeros: (&'static str, Vec<usize>, Vec<u8>)| {
        let mut all = halved();
        all.push(("a.weight_zero_point", zeros.0, zeros.1, zeros.2));
        all
    };
    let (dtype, _, values) = opened(config(4, "int"), &zeroed(("I8", vec![2, 1], vec![0xff, 2])));
    assert_eq!((dtype, values[0], values[32]), (DType::Q4_Z, -3.5, -2.5));
    let packed = zeroed(("I32", vec![1, 1], words(&[0xa7])));
    assert_eq!(opened(config(4, "int"), &packed).2, values);
    let beyond = zeroed(("I8", vec![2, 1], vec![0, 8]));
    refused(config(4, "int"), &beyond, &["a.weight_zero_point", "has 8 at 1", "-8 to 7"]);

    let bytes = |shape: Vec<usize>, scales: Vec<u8>| -> Tensors {
        let weights = (0..64).map(|i| if i == 0 { 0x80 } else { i }).collect();
        vec![("a.weight", "I8", vec![2, 32], weights), ("a.weight_scale", "F16", shape, scales)]
    };
    for shape in [vec![1], vec![2, 1]] {
        let scales = halves(&[0.5, 0.5][..shape[0]]);
        let (dtype, _, values) = opened(config(8, "int"), &bytes(shape, scales));
        assert_eq!((dtype, values[0], values[63]), (DType::Q8_0, -64.0, 31.5));
    }
    let three = bytes(vec![3], halves(&[1.0; 3]));
    refused(config(8, "int"), &three, &["a.weight_scale", "each of 2 rows"]);
}

/// So large that rows are translated side by side.
#[test]
fn large_matrices_are_whole() {
    let (rows, cols) = (1100, 1024);
    let bytes: Vec<u8> = (0..rows * cols).map(|i| (i % 251) as u8).collect();
    let tensors: Tensors = vec![
        ("a.weight", "I8", vec![rows, cols], bytes.clone()),
        ("a.weight_scale", "F16", vec![1], halves(&[0.5])),
    ];
    let group = json!({"g": {"weights": {"num_bits": 8, "type": "int"}}});
    let scheme = json!({"quant_method": "compressed-tensors", "config_groups": group});
    let (_, shape, values) = opened(json!({"quantization_config": scheme}), &tensors);
    assert_eq!(shape, [rows, cols]);
    let wrong = bytes.iter().zip(&values).position(|(b, x)| 0.5 * f32::from(*b as i8) != *x);
    assert_eq!(wrong, None);
}

#[test]
fn parts_of_mxfp4() {
    let config = || json!({"quantization_config": {"quant_method": "mxfp4"}});
    let sound = || -> Tensors {
        // Neighbours share a byte, the first of them in its low nibble.
        let blocks = [[0x21; 16], [0x9a; 16]].concat();
        vec![
            ("a_blocks", "U8", vec![2, 1, 1, 16], blocks),
            ("a_scales", "U8", vec![2, 1, 1], vec![127, 128]),
        ]
    };
    let folder = folder(&config(), &sound(), None);
    let open = Folder::open(&folder.0).expect("it is sound");
    assert_eq!(open.names(), ["a_blocks"]);
    let (all, one) = (
        open.get("a_blocks").expect("it is sound"),
        open.part("a_blocks", 1).expect("it is sound"),
    );
    assert_eq!((&*all.shape, &*one.shape), (&[2, 1, 32][..], &[1, 32][..]));
    assert_eq!(all.bytes[17..], one.bytes[..]);
    let mut values = [0.0; 64];
    dequantise(all.dtype, &all.bytes, &mut values).expect("it is sound");
    assert_eq!((&values[..3], &values[32..34]), (&[0.5, 1.0, 0.5][..], &[-2.0, -1.0][..]));
    refused(config(), &but(sound(), "a_scales", None), &["'a_scales' is missing"]);
    let two = Some(("U8", vec![2, 1, 2], vec![127; 4]));
    refused(config(), &but(sound(), "a_scales", two), &["a_scales", "[2, 1, 1]"]);
}

#[test]
fn parts_of_nf4() {
    let config = || {
        json!({"quantization_config": {
            "quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
        }})
    };
    let state = |json: Value| json.to_string().into_bytes();
    let plain = || state(json!({"blocksize": 2, "shape": [2, 3], "quant_type": "nf4"}));
    let table: Vec<f32> = (0..16).map(|i| i as f32 - 7.0).collect();
    let sound = |state: Vec<u8>| -> Tensors {
        let length = state.len();
        vec![
            ("a.weight", "U8", vec![3, 1], vec![0x01, 0x23, 0xef]),
            ("a.weight.absmax", "F32", vec![3], floats(&[1.0, 2.0, 0.5])),
            ("a.weight.quant_map", "F32", vec![16], floats(&table)),
            ("a.weight.quant_state.bitsandbytes__nf4", "U8", vec![length], state),
        ]
    };
    let (dtype, shape, values) = opened(config(), &sound(plain()));
    assert_eq!((dtype, &shape[..]), (DType::F32, &[2, 3][..]));
    assert_eq!(values, [-7.0, -6.0, -10.0, -8.0, 3.5, 4.0]);
    let how = json!({
        "blocksize": 2, "shape": [2, 3], "nested_blocksize": 2, "nested_offset": 0.5,
    });
    let codes = Some(("U8", vec![3], vec![2, 4, 255]));
    let mut nested = but(sound(state(how)), "a.weight.absmax", codes.clone());
    let steps: Vec<f32> = (0..256).map(|i| i as f32).collect();
    nested.push(("a.weight.nested_quant_map", "F32", vec![256], floats(&steps)));
    let without = nested.clone();
    nested.push(("a.weight.nested_absmax", "F32", vec![2], floats(&[0.25, 2.0])));
    let (_, _, values) = opened(config(), &nested);
    assert_eq!(values, [-7.0, -6.0, -7.5, -6.0, 7.0 * 510.5, 8.0 * 510.5]);
    refused(config(), &without, &["'a.weight.nested_absmax' is missing"]);
    refused(config(), &but(sound(plain()), "a.weight.absmax", codes), &["nested_quant_map"]);
    refused(config(), &but(sound(plain()), "a.weight.quant_map", None), &["quant_map' is missing"]);
    let long = state(json!({"blocksize": 2, "shape": [2, 4]}));
    refused(config(), &sound(long), &["a.weight", "[4, 1]"]);
    let huge = state(json!({"blocksize": 2, "shape": [u64::MAX, 2]}));
    refused(config(), &sound(huge), &["a.weight"]);
    refused(config(), &sound(state(json!({"blocksize": 0, "shape": [2, 3]}))), &["a blocksize"]);
    refused(config(), &sound(b"nonsense".to_vec()), &["JSON"]);
    let eight = json!({"quant_method": "bitsandbytes", "load_in_8bit": true});
    let eight = json!({"quantization_config": eight});
    refused(eight, &sound(plain()), &["load_in_8bit is true"]);
}
