//! The tensors of a checkpoint's text model, where it is one part of several.
use crate::backend::LoadError;
use rinfer_formats::{DType, Tensor, Weights};
use std::collections::HashMap;
use std::sync::Arc;

/// What names of a text model begin with inside a larger one, and by themselves.
const TEXT: [(&str, &str); 5] = [
    ("model.language_model.", "model."),
    ("model.text_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("model.lm_head.", "lm_head."),
];

/// What those of the other parts begin with: what sees, what hears, and what joins them to the text.
/// They are left out.
const OTHERS: [&str; 14] = [
    "visual.",
    "vision_tower.",
    "vision_model.",
    "vision_embed_tokens.",
    "multi_modal_projector.",
    "mm_projector.",
    "vision_projector.",
    "patch_merger.",
    "connector.",
    "audio_tower.",
    "audio_projector.",
    "embed_vision.",
    "embed_audio.",
    "image_newline",
];

/// A checkpoint's tensors by the names that the text model by itself would have.
pub(super) struct Text<'a> {
    raw: &'a dyn Weights,
    names: Vec<String>,
    /// What they are called in the checkpoint, if it is of several parts.
    whole: Option<HashMap<String, String>>,
}

impl<'a> Text<'a> {
    /// Of all tensors, unless the text model is `nested` among other parts.
    ///
    /// # Errors
    /// Two tensors of one name.
    pub fn new(raw: &'a dyn Weights, nested: bool) -> Result<Text<'a>, LoadError> {
        if !nested {
            let names = raw.names().into_iter().map(str::to_owned).collect();
            return Ok(Text { raw, names, whole: None });
        }
        let (mut names, mut whole) = (Vec::new(), HashMap::new());
        for outer in raw.names() {
            let Some(inner) = inner(outer) else { continue };
            if whole.insert(inner.clone(), outer.to_owned()).is_some() {
                return Err(super::unused(outer));
            }
            names.push(inner);
        }
        Ok(Text { raw, names, whole: Some(whole) })
    }
    fn outer<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        match &self.whole {
            None => Some(name),
            Some(whole) => whole.get(name).map(String::as_str),
        }
    }
    /// As an error names it: as the checkpoint does.
    pub fn stored<'n>(&'n self, name: &'n str) -> &'n str {
        self.outer(name).unwrap_or(name)
    }
}

/// What the text model calls a tensor; none of another part's.
fn inner(outer: &str) -> Option<String> {
    let text = TEXT.iter().find_map(|(from, to)| Some((to, outer.strip_prefix(from)?)));
    if let Some((to, rest)) = text {
        return Some(format!("{to}{rest}"));
    }
    let bare = outer.strip_prefix("model.").unwrap_or(outer);
    let other = OTHERS.iter().any(|part| bare.starts_with(part));
    (!other).then(|| outer.to_owned())
}

impl Weights for Text<'_> {
    fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.raw.get(self.outer(name)?)
    }
    fn part(&self, name: &str, i: usize) -> Option<Tensor<'_>> {
        self.raw.part(self.outer(name)?, i)
    }
    fn describe(&self, name: &str) -> Option<(DType, Vec<usize>)> {
        self.raw.describe(self.outer(name)?)
    }
    fn order(&self, name: &str) -> Option<(DType, Arc<[u32]>)> {
        self.raw.order(self.outer(name)?)
    }
    fn in_order(&self, name: &str) -> Option<Tensor<'_>> {
        self.raw.in_order(self.outer(name)?)
    }
    fn alike(&self, name: &str) -> usize {
        self.outer(name).map_or(1, |name| self.raw.alike(name))
    }
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
    fn release(&self, bytes: &[u8]) {
        self.raw.release(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let check = |outer: &str, expect: Option<&str>| {
            assert_eq!(inner(outer).as_deref(), expect, "{outer}");
        };
        let norm = Some("model.layers.0.input_layernorm.weight");
        check("model.language_model.layers.0.input_layernorm.weight", norm);
        check("language_model.model.layers.0.input_layernorm.weight", norm);
        check("model.layers.0.input_layernorm.weight", norm);
        check("language_model.lm_head.weight", Some("lm_head.weight"));
        check("lm_head.weight", Some("lm_head.weight"));
        for other in ["visual.patch_embed.proj.weight", "vision_tower.layer.0.weight"] {
            check(other, None);
            check(&format!("model.{other}"), None);
        }
        // What is neither is for the family's names to know, or to refuse.
        check("model.surprise.weight", Some("model.surprise.weight"));
    }
}
