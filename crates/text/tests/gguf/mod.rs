//! A GGUF file's tokenizer, as the engine will read it.
use rinfer_formats::Gguf;
use rinfer_text::Tokenizer;
use rinfer_text::tokenizer::{GgufVocab, Roles};
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
