//! A family's config as transformers 5 writes it again, `config.resaved.json`: the same model.
mod rig;

use rig::{Memory, goldens};
use rinfer_engine::config::{Config, Source};
use rinfer_engine::spec::ModelSpec;
use rinfer_engine::weights::Checkpoint;
use rinfer_testkit::{Golden, shared};
use serde_json::Value;

fn resaved(golden: &Golden) -> Option<Value> {
    let path = shared::goldens().join(&golden.name).join("config.resaved.json");
    let text = std::fs::read_to_string(path).ok()?;
    // As the reader of folders takes it.
    let text = text.replace("\"__float__\"", "\"wrapped\"");
    Some(unwrapped(serde_json::from_str(&text).expect("a config")))
}

fn unwrapped(value: Value) -> Value {
    match value {
        Value::Object(all) if all.contains_key("wrapped") => 3.4e38.into(),
        Value::Object(all) => all.into_iter().map(|(k, v)| (k, unwrapped(v))).collect(),
        Value::Array(all) => all.into_iter().map(unwrapped).collect(),
        other => other,
    }
}

#[test]
fn resaved_configs_are_the_same_models() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for golden in goldens() {
        let Some(config) = resaved(&golden) else { continue };
        let weights = Memory(golden.weights.clone());
        let open = |config| Checkpoint::open(Config::new(config, Source::HuggingFace), &weights);
        // Infinity stands in one, the number for it in the other.
        let spelt = |spec: ModelSpec| format!("{spec:?}").replace(" inf)", " 3.4e38)");
        let own = spelt(open(golden.config.clone()).expect("a model").spec);
        match open(config).map(|model| spelt(model.spec)) {
            Ok(other) if other == own => seen += 1,
            Ok(other) => wrong.push(format!("{}: {own}\n{other}", golden.name)),
            Err(error) => wrong.push(format!("{}: {error}", golden.name)),
        }
    }
    assert!(wrong.is_empty() && seen > 100, "{seen} are the same; {}", wrong.join("\n"));
}
