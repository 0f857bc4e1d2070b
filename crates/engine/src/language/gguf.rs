//! The tokenizer and template of a GGUF file.
use crate::error::{Error, Result};
use rinfer_formats::Gguf;
use rinfer_formats::gguf::{Metadata, Value};
use rinfer_text::tokenizer::{GgufVocab, Roles, Tokenizer};

/// The tokenizer.
pub fn tokenizer(gguf: &Gguf) -> Result<Tokenizer> {
    let meta = gguf.metadata();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let model = meta.str(&key("model"))?;
    let model = meta.required(&key("model"), model)?;
    let tokens = meta.strs(&key("tokens"))?;
    let tokens = meta.required(&key("tokens"), tokens)?;
    let charsmap = bytes(meta, &key("precompiled_charsmap"));
    let vocab = GgufVocab {
        pre: meta.str(&key("pre"))?,
        scores: meta.f32s(&key("scores"))?.unwrap_or_default(),
        token_types: meta.i32s(&key("token_type"))?.unwrap_or_default(),
        merges: match meta.strs(&key("merges"))? {
            Some(merges) => Box::new(merges),
            None => Box::new(std::iter::empty()),
        },
        roles: roles(meta)?,
        add_bos: meta.bool(&key("add_bos_token"))?,
        add_eos: meta.bool(&key("add_eos_token"))?,
        add_sep: meta.bool(&key("add_sep_token"))?,
        add_space_prefix: meta.bool(&key("add_space_prefix"))?,
        remove_extra_whitespaces: meta.bool(&key("remove_extra_whitespaces"))?,
        escape_whitespaces: meta.bool(&key("escape_whitespaces"))?,
        precompiled_charsmap: charsmap.as_deref(),
        lowercase: meta.bool(&key("normalizer.lowercase"))?,
        strip_accents: meta.bool(&key("normalizer.strip_accents"))?,
        ..GgufVocab::new(model, tokens)
    };
    Tokenizer::from_gguf(vocab)
        .map_err(|cause| Error::Tokenizer { file: gguf.path().display().to_string(), cause })
}

/// The template's source, if there is one.
pub fn template(gguf: &Gguf) -> Result<Option<String>> {
    Ok(gguf.metadata().str("tokenizer.chat_template")?.map(str::to_owned))
}

fn roles(meta: Metadata<'_>) -> Result<Roles> {
    let id = |name: &str| meta.u32(&format!("tokenizer.ggml.{name}_token_id"));
    // The misspelling is the format's.
    let sep = id("seperator")?;
    Ok(Roles {
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        eom: id("eom")?,
        unk: id("unknown")?,
        sep: if sep.is_none() { id("separator")? } else { sep },
        pad: id("padding")?,
        cls: id("cls")?,
        mask: id("mask")?,
    })
}

/// An array of bytes, whichever sign they were written with.
fn bytes(meta: Metadata<'_>, key: &str) -> Option<Vec<u8>> {
    let Some(Value::Array(array)) = meta.get(key) else { return None };
    let byte = |v| match v {
        Value::Unsigned(n) => u8::try_from(n).ok(),
        Value::Signed(n) => i8::try_from(n).ok().map(|n| n as u8),
        _ => None,
    };
    array.scalars()?.map(byte).collect()
}
