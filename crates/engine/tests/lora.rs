//! LoRA adapters merged into goldens, against PEFT's logits (`tools/goldens/extra/make_lora.py`).
#![expect(clippy::unwrap_used, reason = "a failed write fails the test")]
mod adapters;
mod rig;

use adapters::{Compared, over_both, over_gguf, random, run};
use rig::{LIMITS, Memory, Rig, distance};
use rinfer_engine::backend::{Kv, Limits, Quant};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::cpu::Cpu;
use rinfer_engine::load::Opened;
use rinfer_engine::lora::{Adapter, Adapters};
use rinfer_formats::{DType, quant};
use rinfer_kernels::Kernels;
use rinfer_testkit::gguf::GgufGolden;
use rinfer_testkit::gguf_builder::Builder;
use rinfer_testkit::safetensors::{self, Entry};
use rinfer_testkit::{Golden, shared};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TOLERANCE: f32 = 1e-3;

fn base(name: &str) -> (Config, Memory) {
    let golden = Golden::load(&shared::goldens().join(name));
    (Config::new(golden.config.clone(), Source::HuggingFace), Memory(golden.weights))
}

/// The adapters of a case's folder, the second at half its scale.
fn adapters(case: &Path) -> Vec<Adapter> {
    let at = |i: &usize| case.join(i.to_string());
    let scale = |i: usize| if i == 0 { 1.0 } else { 0.5 };
    (0..2).filter(|i| at(i).exists()).map(|i| Adapter { path: at(&i), scale: scale(i) }).collect()
}

/// The same over the GGUF file of a case's base, if there is one.
fn over_the_file(name: &str, adapters: &[Adapter], ids: &[i32], logits: &[f32]) {
    let base = name.split('.').next().expect("a base");
    let golden = shared::goldens().join(format!("gguf/{base}.bf16"));
    if golden.exists() {
        let file = GgufGolden::load(&golden).write(&folder("peft").join(format!("{name}.gguf")));
        let found = over_gguf(&file, adapters, ids).unwrap_or_else(|e| panic!("{name}: {e}"));
        let worst = distance(&found, logits);
        assert!(worst <= TOLERANCE, "{name} over a file: differs by {worst}");
    }
}

#[test]
fn merged_equals_peft() {
    let cases = std::fs::read_dir(shared::goldens().join("lora")).expect("cases");
    let mut seen = 0;
    for case in cases.map(|entry| entry.expect("a case").path()) {
        seen += 1;
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        let golden = safetensors::read(&std::fs::read(case.join("golden.safetensors")).unwrap());
        let (ids, logits) = (golden["input_ids"].i32(), golden["logits"].f32());
        let (config, raw) = base(name.split('.').next().expect("a base"));
        let worst = distance(&run(&config, &raw, &adapters(&case), &ids), &logits);
        assert!(worst <= TOLERANCE, "{name}: differs by {worst}");
        over_the_file(&name, &adapters(&case), &ids, &logits);
        // They change something.
        let without = distance(&run(&config, &raw, &[], &ids), &logits);
        assert!(without > 0.1, "{name}: differs by {without} without them");
    }
    assert!(seen >= 10);
}

/// A copy of the plain adapter in which a config's keys, or tensors, are changed.
fn changed(
    name: &str,
    keys: &[(&str, serde_json::Value)],
    change: impl FnOnce(&mut BTreeMap<String, Entry>),
) -> PathBuf {
    let from = shared::goldens().join("lora/llama3.plain/0");
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lora").join(name);
    std::fs::create_dir_all(&to).unwrap();
    let config = std::fs::read(from.join("adapter_config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    keys.iter().for_each(|(key, value)| config[*key] = value.clone());
    std::fs::write(to.join("adapter_config.json"), config.to_string()).unwrap();
    let bytes = std::fs::read(from.join("adapter_model.safetensors")).unwrap();
    let mut tensors = safetensors::read(&bytes);
    change(&mut tensors);
    std::fs::write(to.join("adapter_model.safetensors"), safetensors::write(&tensors)).unwrap();
    to
}

#[test]
fn what_is_not_merged_is_refused() {
    let (_, raw) = base("llama3");
    let check = |path: PathBuf, says: &[&str]| {
        let adapter = Adapter { path, scale: 1.0 };
        let error = Adapters::read(&[adapter], &raw, false).expect_err("refused").to_string();
        assert!(says.iter().all(|text| error.contains(text)), "{error}");
    };
    let key = |name: &str, value: serde_json::Value| changed(name, &[(name, value)], |_| {});
    use serde_json::json;
    check(key("peft_type", json!("IA3")), &["adapter_config.json", "peft_type", "IA3", "LORA"]);
    check(key("bias", json!("all")), &["bias", "all"]);
    check(key("modules_to_save", json!(["lm_head"])), &["modules_to_save", "lm_head"]);
    check(key("init_lora_weights", json!("pissa")), &["init_lora_weights", "pissa"]);
    check(key("use_qalora", json!(true)), &["use_qalora"]);
    check(key("a_key_of_later", json!({"x": 1})), &["a_key_of_later"]);
    check(key("alpha_pattern", json!({"q_.*": 1})), &["alpha_pattern", "q_.*"]);
    check(key("lora_alpha", json!("x")), &["lora_alpha", "a number"]);
    check(PathBuf::from("/nowhere"), &["/nowhere/adapter_config.json"]);
    let a = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
    let rename = |name: &str, to: &str| {
        let to = to.to_owned();
        changed(name, &[], move |t| {
            let entry = t.remove(a).unwrap();
            t.insert(to, entry);
        })
    };
    check(rename("bias-tensor", "base_model.model.model.norm.bias"), &["model.norm.bias"]);
    let other = "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight";
    check(rename("module", other), &["adapter_model.safetensors", "q_proj"]);
    let cut = changed("shape", &[], |t| {
        let entry = t.get_mut(a).unwrap();
        entry.shape[1] -= 1;
        entry.bytes.truncate(4 * entry.shape.iter().product::<usize>());
    });
    check(cut, &["layers.0.self_attn.q_proj", "A is [4, 63]"]);
    let adapter = shared::goldens().join("lora/llama3.embedding/0");
    let tied = Adapters::read(&[Adapter { path: adapter, scale: 1.0 }], &raw, true);
    assert!(tied.expect_err("refused").to_string().contains("embed_tokens"));
    let (_, gpt2) = base("gpt2");
    let plain = Adapter { path: shared::goldens().join("lora/llama3.plain/0"), scale: 1.0 };
    let error = Adapters::read(&[plain], &gpt2, false).expect_err("refused").to_string();
    assert!(error.contains("the base has no 'model.layers.0"), "{error}");
}

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lora").join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// PEFT's adapter over a GGUF file is the same over the folder that it was made of.
#[test]
fn over_gguf_as_over_the_folder() {
    let (root, mut seen) = (folder("gguf"), 0);
    for path in std::fs::read_dir(shared::goldens().join("gguf")).unwrap() {
        let path = path.unwrap().path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let Compared { found, want, plain } = over_both(&path, &root);
        if name.starts_with("falcon_h1") {
            let error = found.expect_err("refused");
            assert!(error.contains("the file does not keep; give the base's folder"), "{error}");
            continue;
        }
        seen += 1;
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        let far = distance(&found, &want);
        assert!(far <= TOLERANCE, "{name}: differs by {far}");
        assert!(distance(&want, &plain) > 0.1, "{name}: no difference");
    }
    assert!(seen >= 60, "{seen}");
}

/// llama.cpp's file of what PEFT's folder adds to a Llama: its names, and heads' rows in pairs.
fn converted(tensors: &BTreeMap<String, Entry>, heads: [usize; 2], key: &str) -> Vec<u8> {
    let mut file = Builder::of("llama").str("general.type", "adapter").str("adapter.type", "lora");
    file = file.f32(key, 2.0);
    let names = [
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    for (name, entry) in tensors {
        let name = name.strip_prefix("base_model.model.model.layers.").expect("a layer's");
        let (layer, rest) = name.split_once('.').expect("a layer's");
        let (_, ours) = names.iter().find(|(theirs, _)| rest.starts_with(theirs)).expect("known");
        let [rows, cols] = entry.shape[..] else { panic!("no matrix") };
        let b = rest.contains("lora_B");
        let head = match *ours {
            "attn_q" if b => rows / heads[0],
            "attn_k" if b => rows / heads[1],
            // As they are.
            _ => 1,
        };
        let mut bytes = Vec::new();
        for i in 0..rows {
            let half = head / 2;
            let from = i / head * head + i % head / 2 + i % 2 * half;
            bytes.extend(&entry.bytes[4 * cols * from..4 * cols * (from + 1)]);
        }
        let end = if b { "b" } else { "a" };
        let name = format!("blk.{layer}.{ours}.weight.lora_{end}");
        file = file.tensor(&name, &[cols as u64, rows as u64], 0, &bytes);
    }
    file.build()
}

#[test]
fn files_of_llama_cpp() {
    let root = folder("files");
    let GgufGolden { golden, bytes } =
        GgufGolden::load(&shared::goldens().join("gguf/llama31.f32"));
    let file = root.join("base.gguf");
    std::fs::write(&file, bytes).unwrap();
    let peft = random(&golden, &root.join("peft"), 3, false);
    let tensors = std::fs::read(peft.path.join("adapter_model.safetensors")).unwrap();
    let tensors = safetensors::read(&tensors);
    let size = |key: &str| golden.config[key].as_u64().expect("a number") as usize;
    let heads = [size("num_attention_heads"), size("num_key_value_heads")];
    let alpha = "adapter.lora.alpha";
    let path = root.join("adapter.gguf");
    std::fs::write(&path, converted(&tensors, heads, alpha)).unwrap();
    let (ids, ..) = golden.prompt(0);
    let theirs = Adapter { path: path.clone(), scale: 0.5 };
    let want = over_gguf(&file, &[Adapter { scale: 0.5, ..peft.clone() }], &ids).unwrap();
    let found = over_gguf(&file, std::slice::from_ref(&theirs), &ids).unwrap();
    assert!(distance(&found, &want) < 1e-4, "{}", distance(&found, &want));
    // With PEFT's beside it, the whole of it.
    let both = over_gguf(&file, &[theirs.clone(), Adapter { scale: 0.5, ..peft.clone() }], &ids);
    let whole = over_gguf(&file, std::slice::from_ref(&peft), &ids).unwrap();
    assert!(distance(&both.unwrap(), &whole) < 1e-3);
    let refused = |adapter: &Adapter, file: &Path, says: &str| {
        let error = over_gguf(file, std::slice::from_ref(adapter), &ids).expect_err("refused");
        assert!(error.contains(says), "{error}");
    };
    let other = |name: &str, bytes: Vec<u8>| {
        let path = root.join(name);
        std::fs::write(&path, bytes).unwrap();
        Adapter { path, scale: 1.0 }
    };
    let invoked = converted(&tensors, heads, "adapter.alora.invocation_tokens");
    refused(&other("alora", invoked), &file, "adapter.alora.invocation_tokens");
    refused(&other("model", std::fs::read(&file).unwrap()), &file, "general.type");
    let whole = Builder::of("llama").str("general.type", "adapter").str("adapter.type", "lora");
    let of = |name: &str, axes: &[u64]| {
        let bytes = vec![0; 4 * axes.iter().product::<u64>() as usize];
        whole.clone().tensor(name, axes, 0, &bytes)
    };
    refused(&other("bias", of("blk.0.attn_q.bias", &[64]).build()), &file, "neither A nor B");
    let a = of("blk.0.attn_q.weight.lora_a", &[64, 2]);
    refused(&other("a", a.clone().build()), &file, "no two matrices");
    let short = a.clone().tensor("blk.0.attn_q.weight.lora_b", &[2, 8], 0, &[0; 64]);
    refused(&other("short", short.build()), &file, "of shape [8, 64]");
    let beyond = of("blk.9.attn_q.weight.lora_a", &[64, 2]);
    let beyond = beyond.tensor("blk.9.attn_q.weight.lora_b", &[2, 64], 0, &[0; 512]);
    refused(&other("beyond", beyond.build()), &file, "the base has no 'blk.9.attn_q.weight'");
    // PEFT's, of another family.
    let gpt2 = Adapter { path: shared::goldens().join("lora/gpt2.turned/0"), scale: 1.0 };
    refused(&gpt2, &file, "nothing that a model of llama is made of");
    let (_, raw) = base("llama3");
    let error = Adapters::read(&[theirs], &raw, false).expect_err("refused").to_string();
    assert!(error.contains("go with GGUF files"), "{error}");
}

/// Over a quantised folder, an adapter is the same as over its weights widened, in an order or not.
#[test]
fn over_quantised_folders() {
    for name in ["nf4_nested", "gptq_v1_4bit_g32_sym_desc_alike", "awq_gemm_experts"] {
        let golden = Golden::load(&shared::goldens().join("quant").join(name));
        let path = golden.write_checkpoint(&folder(name));
        let quantised = Opened::open(&path).expect("a folder");
        let files = quantised.files.weights();
        let mut plain = BTreeMap::new();
        for name in files.names() {
            let tensor = files.get(name).expect("a tensor");
            let (mut values, shape) =
                (vec![0.0; tensor.shape.iter().product()], tensor.shape.to_vec());
            quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).expect("weights");
            let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
            plain.insert(name.to_owned(), Entry { dtype: "F32".into(), shape, bytes });
        }
        let mut some = Golden::load(&shared::goldens().join("quant").join(name));
        some.weights = plain.clone();
        some.weights
            .retain(|name, _| ["0.self_attn.q", "down_proj"].iter().any(|n| name.contains(n)));
        let adapter = random(&some, &folder(&format!("{name}-adapter")), 9, true);
        let (ids, ..) = golden.prompt(0);
        let config = Config::new(golden.config.clone(), Source::HuggingFace);
        let raw = Memory(plain);
        let want = run(&config, &raw, std::slice::from_ref(&adapter), &ids);
        let adapted = quantised.adapted(&[adapter]).expect("both");
        let of = |limits: &Limits| {
            let weights = adapted.weights().expect("weights");
            let executor = Cpu::new(2, Kernels::best()).executor(&adapted.spec, &*weights, limits);
            let mut rig = Rig { executor: executor.expect("a model"), vocab: adapted.spec.vocab };
            rig.run(&ids, ids.len())
        };
        let far = distance(&of(&LIMITS), &want);
        assert!(far < 1e-4, "{name}: differs by {far}");
        let vocab = adapted.spec.vocab;
        let native = of(&Limits { kv: Kv::F16, quant: Quant::Native, ..LIMITS });
        let rows = want.chunks(vocab).zip(native.chunks(vocab));
        let mean = rows.map(|(p, q)| rig::divergence(p, q)).sum::<f64>() / ids.len() as f64;
        assert!(mean < 2e-3, "{name}: diverges by {mean}");
    }
}

/// What is quantised is widened, and then added to.
#[test]
fn over_quantised_files() {
    let file = shared::goldens().join("gguf_quant/llama.Q4_0.gguf");
    let plain = Opened::open(&file).expect("a model");
    let (d, vocab) = (plain.spec.d_model, plain.spec.vocab);
    let root = folder("quantised");
    let mut made = Golden::load(&shared::goldens().join("llama3"));
    made.weights.retain(|name, _| name.contains("layers.0.self_attn.v_proj"));
    let rows = plain.weights().unwrap().describe("blk.0.attn_v.weight").expect("there").1[0];
    let entry = made.weights.values_mut().next().expect("a matrix");
    (entry.shape, entry.bytes) = (vec![rows, d], vec![0; 4 * rows * d]);
    let adapter = random(&made, &root, 5, false);
    let tensors = std::fs::read(adapter.path.join("adapter_model.safetensors")).unwrap();
    let tensors = safetensors::read(&tensors);
    let [a, b] = ["A", "B"].map(|part| {
        let name = |name: &&String| name.ends_with(&format!("lora_{part}.weight"));
        tensors[tensors.keys().find(name).expect("there")].f32()
    });
    let with = Opened::open(&file).and_then(|opened| opened.adapted(&[adapter])).expect("both");
    let values = |opened: &Opened| {
        let weights = opened.weights().expect("weights");
        let tensor = weights.get("blk.0.attn_v.weight").expect("there");
        let mut values = vec![0.0; rows * d];
        quant::dequantise(tensor.dtype, &tensor.bytes, &mut values).expect("weights");
        (tensor.dtype, values)
    };
    let ((was, before), (is, after)) = (values(&plain), values(&with));
    assert_eq!((was, is), (DType::Q4_0, DType::F32));
    for (i, (before, after)) in before.iter().zip(&after).enumerate() {
        let (row, col) = (i / d, i % d);
        let sum = before + b[2 * row] * a[col] + b[2 * row + 1] * a[d + col];
        assert!((after - sum).abs() < 1e-6, "{row}, {col}: {after}, {sum}");
    }
    let logits = |opened: &Opened| {
        let weights = opened.weights().expect("weights");
        let limits = Limits { quant: Quant::Native, ..LIMITS };
        let executor = Cpu::new(2, Kernels::best()).executor(&opened.spec, &*weights, &limits);
        Rig { executor: executor.expect("a model"), vocab }.run(&[1, 2, 3], 3)
    };
    assert!(distance(&logits(&plain), &logits(&with)) > 0.01);
}
