//! The tokenizer and template of a Hugging Face folder.
use crate::error::{Error, Result};
use rinfer_formats::Folder;
use rinfer_text::tokenizer::{Roles, Tokenizer};
use serde_json::{Map, Value};

/// The tokenizer, with the roles that the files beside it give.
pub fn tokenizer(folder: &Folder) -> Result<Tokenizer> {
    let file = folder.path().join("tokenizer.json").display().to_string();
    let Some(bytes) = folder.tokenizer()? else {
        return Err(Error::Field {
            file: folder.path().display().to_string(),
            field: "tokenizer.json".into(),
            found: "missing".into(),
            expected: "the file; a tokenizer.model alone is not read: save the tokenizer with \
                       transformers to make it"
                .into(),
        });
    };
    let tokenizer =
        Tokenizer::from_json(&bytes).map_err(|cause| Error::Tokenizer { file, cause })?;
    let names = special(folder)?;
    let found = *tokenizer.roles();
    let id = |name: &str, found: Option<u32>| {
        names.get(name).and_then(|token| tokenizer.id_of(token)).or(found)
    };
    let roles = Roles {
        bos: id("bos_token", found.bos),
        eos: id("eos_token", found.eos),
        unk: id("unk_token", found.unk),
        sep: id("sep_token", found.sep),
        pad: id("pad_token", found.pad),
        cls: id("cls_token", found.cls),
        mask: id("mask_token", found.mask),
        ..found
    };
    Ok(tokenizer.with_roles(roles))
}

/// The template's source, if there is one: of several, the one called `default`.
pub fn template(folder: &Folder) -> Result<Option<String>> {
    if let Some(source) = folder.chat_template()? {
        return Ok(Some(source));
    }
    let config = config(folder)?;
    let named = match config.get("chat_template") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(source)) => return Ok(Some(source.clone())),
        Some(Value::Array(named)) => named,
        Some(other) => return Err(wrong(folder, &other.to_string())),
    };
    let text = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).map(str::to_owned);
    let default = named.iter().find(|v| text(v, "name").as_deref() == Some("default"));
    let source = default.or_else(|| named.first().filter(|_| named.len() == 1));
    match source.and_then(|v| text(v, "template")) {
        Some(source) => Ok(Some(source)),
        None => {
            let names: Vec<String> = named.iter().filter_map(|v| text(v, "name")).collect();
            Err(wrong(folder, &format!("a list of templates named {}", names.join(", "))))
        }
    }
}

/// The special tokens' texts by their task's name, such as `bos_token`.
pub fn special(folder: &Folder) -> Result<std::collections::BTreeMap<String, String>> {
    let map = match folder.special_tokens_map()? {
        Some(bytes) => object(folder, "special_tokens_map.json", &bytes)?,
        None => Map::new(),
    };
    let mut all = std::collections::BTreeMap::new();
    for (name, value) in map.into_iter().chain(config(folder)?) {
        let text = value.as_str().or_else(|| value.get("content")?.as_str());
        if let Some(text) = text.filter(|_| name.ends_with("_token")) {
            all.insert(name, text.to_owned());
        }
    }
    Ok(all)
}

fn config(folder: &Folder) -> Result<Map<String, Value>> {
    match folder.tokenizer_config()? {
        Some(bytes) => object(folder, "tokenizer_config.json", &bytes),
        None => Ok(Map::new()),
    }
}

fn object(folder: &Folder, name: &str, bytes: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(bytes).map_err(|e| Error::Field {
        file: folder.path().join(name).display().to_string(),
        field: "the text".into(),
        found: e.to_string(),
        expected: "a JSON object".into(),
    })
}

fn wrong(folder: &Folder, found: &str) -> Error {
    Error::Field {
        file: folder.path().join("tokenizer_config.json").display().to_string(),
        field: "chat_template".into(),
        found: found.into(),
        expected: "a template, or a list with one that is named default".into(),
    }
}
