//! LoRA adapters merged into goldens, against PEFT's logits (`tools/goldens/extra/make_lora.py`).
#![expect(clippy::unwrap_used, reason = "a failed write fails the test")]
mod rig;

use rig::{LIMITS, Memory, Rig, distance};
use rinfer_engine::backend::Limits;
use rinfer_engine::config::{Config, Source};
use rinfer_engine::lora::{Adapter, Adapters};
use rinfer_engine::weights::Checkpoint;
use rinfer_kernels::Kernels;
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

fn run(config: &Config, raw: &Memory, adapters: &[Adapter], ids: &[i32]) -> Vec<f32> {
    let adapters = Adapters::read(adapters, raw, false).expect("adapters");
    let merged = adapters.over(raw);
    let model = Checkpoint::open(config.clone(), &merged).expect("a model");
    Rig::load(&model, &Limits { ..LIMITS }, 2, Kernels::best()).run(ids, ids.len())
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
        // They change something.
        let without = distance(&run(&config, &raw, &[], &ids), &logits);
        assert!(without > 0.1, "{name}: differs by {without} without them");
    }
    assert!(seen >= 6);
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
