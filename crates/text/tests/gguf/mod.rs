//! A GGUF file's tokenizer, as the engine will read it.
use rinfer_formats::Gguf;
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::{GgufVocab, Roles};
use serde_json::Value;
use std::error::Error;
use std::path::Path;

/// The tokenizer of the file at `path`.
pub fn tokenizer(path: &Path) -> Result<Tokenizer, Box<dyn Error>> {
    let file = Gguf::open(path)?;
    let m = file.metadata();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let id = |name: &str| m.u32(&key(name));
    let flag = |name: &str| m.bool(&key(name));
    let model = m.str(&key("model"))?.ok_or("no tokenizer.ggml.model")?;
    let tokens = m.strs(&key("tokens"))?.ok_or("no tokenizer.ggml.tokens")?;
    let mut v = GgufVocab::new(model, tokens);
    v.pre = m.str(&key("pre"))?;
    v.scores = m.f32s(&key("scores"))?.unwrap_or_default();
    v.token_types = m.i32s(&key("token_type"))?.unwrap_or_default();
    if let Some(merges) = m.strs(&key("merges"))? {
        v.merges = Box::new(merges);
    }
    v.roles = Roles {
        bos: id("bos_token_id")?,
        eos: id("eos_token_id")?,
        eot: id("eot_token_id")?,
        eom: id("eom_token_id")?,
        unk: id("unknown_token_id")?,
        sep: id("seperator_token_id")?,
        pad: id("padding_token_id")?,
        cls: id("cls_token_id")?,
        mask: id("mask_token_id")?,
    };
    v.add_bos = flag("add_bos_token")?;
    v.add_eos = flag("add_eos_token")?;
    v.add_space_prefix = flag("add_space_prefix")?;
    v.remove_extra_whitespaces = flag("remove_extra_whitespaces")?;
    Ok(Tokenizer::from_gguf(v)?)
}

/// A `tokenizer.json` as a GGUF file would describe it.
pub struct Converted {
    model: &'static str,
    pre: &'static str,
    tokens: Vec<String>,
    types: Vec<i32>,
    scores: Vec<f32>,
    merges: Vec<String>,
}

impl Converted {
    /// As the model called `model` with the pre-tokenizer called `pre`.
    pub fn new(model: &'static str, pre: &'static str, json: &Value) -> Self {
        let vocab = &json["model"]["vocab"];
        let mut all: Vec<(usize, String, f32)> = match vocab {
            Value::Object(map) => {
                map.iter().map(|(t, id)| (id.as_u64().unwrap() as usize, t.clone(), 0.0)).collect()
            }
            list => {
                let one = |(i, v): (usize, &Value)| {
                    (i, v[0].as_str().unwrap().to_owned(), v[1].as_f64().unwrap() as f32)
                };
                list.as_array().unwrap().iter().enumerate().map(one).collect()
            }
        };
        let added = json["added_tokens"].as_array().unwrap();
        let id = |t: &Value| t["id"].as_u64().unwrap() as usize;
        all.extend(added.iter().map(|t| (id(t), t["content"].as_str().unwrap().to_owned(), 0.0)));
        all.sort_by_key(|t| t.0);
        all.dedup_by_key(|t| t.0);
        let mut types = vec![1; all.len()];
        for t in added {
            types[id(t)] = if t["special"] == true { 3 } else { 4 };
        }
        for (i, t) in all.iter_mut().enumerate() {
            match (model, types[i]) {
                ("bert", 1) if t.1.starts_with("##") => drop(t.1.drain(..2)),
                ("bert", 1) => t.1.insert(0, '▁'),
                ("llama", _) if t.1 == "<unk>" => types[i] = 2,
                ("llama", 1) if t.1.starts_with("<0x") => types[i] = 6,
                _ => {}
            }
        }
        let merge = |m: &Value| match m {
            Value::String(s) => s.clone(),
            pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        };
        let merges = json["model"]["merges"].as_array();
        let merges: Vec<String> = merges.map(|m| m.iter().map(merge).collect()).unwrap_or_default();
        if model == "llama" {
            // The order of the merges is that of the scores.
            let mut ranks = std::collections::HashMap::new();
            for (rank, m) in merges.iter().enumerate() {
                ranks.entry(m.replace(' ', "")).or_insert(rank);
            }
            for t in &mut all {
                t.2 = ranks.get(&t.1).map_or(0.0, |rank| -(*rank as f32));
            }
        }
        Self {
            model,
            pre,
            types,
            scores: all.iter().map(|t| t.2).collect(),
            tokens: all.into_iter().map(|t| t.1).collect(),
            merges,
        }
    }

    /// Its tokenizer, with `roles`.
    pub fn tokenizer(&self, roles: Roles) -> Tokenizer {
        let mut v = GgufVocab::new(self.model, self.tokens.iter().map(String::as_bytes));
        v.pre = Some(self.pre);
        v.remove_extra_whitespaces = Some(true);
        v.token_types = self.types.clone();
        v.scores = self.scores.clone();
        v.merges = Box::new(self.merges.iter().map(String::as_bytes));
        v.roles = roles;
        Tokenizer::from_gguf(v).unwrap_or_else(|e| panic!("{} {}: {e}", self.model, self.pre))
    }
}
