//! The tokens after which a model has nothing more to say. Files name one or two of them; the
//! others are known by their texts.
use super::Roles;
use super::vocab::{Kind, Vocab};

/// Texts that end a turn or a text in some published model.
const NAMES: [&str; 23] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
    "[EOS]",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<end_of_utterance>",
    "<turn|>",
    "<|tool_response>",
    "<|fim_pad|>",
    "[e~[",
];

/// The tokens of `vocab` whose text says that they end a turn.
pub(crate) fn named(vocab: &Vocab) -> Vec<u32> {
    let has = |name: &str| vocab.find(name.as_bytes()).is_some();
    // Where a model has these, the others end a message, not the turn.
    let harmony = has("<|call|>") && has("<|return|>") || has("<|calls|>") && has("<|flush|>");
    let tool_response = has("<|tool_response>");
    let ends = NAMES.iter().filter(|&&name| match name {
        "<|end|>" => !harmony,
        "</s>" => !tool_response,
        _ => true,
    });
    ends.filter_map(|name| vocab.find(name.as_bytes())).collect()
}

/// All ends: by task, and by name where the token is a control token.
pub(crate) fn all(vocab: &Vocab, roles: &Roles) -> Vec<u32> {
    let tasks = [roles.eos, roles.eot, roles.eom].into_iter().flatten();
    let named = named(vocab).into_iter().filter(|&id| vocab.kind(id) == Kind::Control);
    let mut ids: Vec<u32> = tasks.chain(named).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
