//! The tokenizer of a GGUF file, from its `tokenizer.ggml.*` values.
mod models;

use self::models::Parts;
use super::added::{AddedToken, Matcher};
use super::ends;
use super::patterns::{Named, named};
use super::template::{Slot, Template};
use super::vocab::{Kind, Vocab};
use super::{Roles, Tokenizer, TokenizerError};

/// What a GGUF file says of its tokenizer; each field is the key `tokenizer.ggml.FIELD` unless
/// said. Start from [`GgufVocab::new`].
pub struct GgufVocab<'a> {
    /// `gpt2` (byte-level BPE), `llama` (SentencePiece BPE), `gemma4` (BPE over characters),
    /// `bert` (WordPiece) or `t5` (Unigram).
    pub model: &'a str,
    /// The pre-tokenizer's name, for `gpt2`.
    pub pre: Option<&'a str>,
    /// The token texts, by id.
    pub tokens: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    /// Log-probabilities, by id; may be empty for `gpt2` and `bert`.
    pub scores: Vec<f32>,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; by id. All
    /// are normal if empty.
    pub token_types: Vec<i32>,
    /// `"left right"`, best first.
    pub merges: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    /// The `*_token_id` keys (`bos_token_id`, `seperator_token_id`, ...).
    pub roles: Roles,
    /// `add_bos_token`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_sep_token`.
    pub add_sep: Option<bool>,
    /// Whether a text starts with a space that it does not have.
    pub add_space_prefix: Option<bool>,
    /// Whether runs of spaces are one.
    pub remove_extra_whitespaces: Option<bool>,
    /// Whether spaces are written `▁`.
    pub escape_whitespaces: Option<bool>,
    /// SentencePiece's normalization rules.
    pub precompiled_charsmap: Option<&'a [u8]>,
    /// `normalizer.lowercase`, for `bert`; by default whether no token has a capital `A` to `Z`.
    pub lowercase: Option<bool>,
    /// `normalizer.strip_accents`, for `bert`; by default as `lowercase`.
    pub strip_accents: Option<bool>,
}

impl<'a> GgufVocab<'a> {
    /// With no more than the model and its tokens.
    pub fn new(model: &'a str, tokens: impl Iterator<Item = &'a [u8]> + 'a) -> Self {
        Self {
            model,
            pre: None,
            tokens: Box::new(tokens),
            scores: vec![],
            token_types: vec![],
            merges: Box::new(std::iter::empty()),
            roles: Roles::default(),
            add_bos: None,
            add_eos: None,
            add_sep: None,
            add_space_prefix: None,
            remove_extra_whitespaces: None,
            escape_whitespaces: None,
            precompiled_charsmap: None,
            lowercase: None,
            strip_accents: None,
        }
    }
}

pub(super) fn build(mut g: GgufVocab<'_>) -> Result<Tokenizer, TokenizerError> {
    let mut vocab = vocabulary(&mut g)?;
    g.roles = roles(&g, &vocab)?;
    // Files exist that list these as plain text. What pads may be: some models pad with a `!`.
    let steering = Roles { pad: None, ..g.roles };
    for id in steering.all().into_iter().flatten().chain(ends::named(&vocab)) {
        vocab.set_kind(id, Kind::Control);
    }
    let named = match g.model {
        "gpt2" => Some(named(g.pre.unwrap_or("default"))?),
        "gemma4" => Some(named("gemma4")?),
        _ => None,
    };
    let template = template(&g, named)?;
    let roles = g.roles;
    let parts = match (g.model, named) {
        (_, Some(named)) => models::bpe(g, named, &vocab)?,
        ("llama", _) => models::sentence_piece(g, &vocab)?,
        ("t5", _) => models::unigram(g, &vocab)?,
        ("bert", _) => models::wordpiece(g, &vocab)?,
        (other, _) => {
            return Err(TokenizerError::unsupported(
                "tokenizer.ggml.model",
                other,
                "gpt2, llama, gemma4, bert, t5",
            ));
        }
    };
    let Parts { normalizer, pre_tokenizer, model, decoder } = parts;
    Ok(Tokenizer {
        raw: Matcher::new(added_tokens(&vocab)),
        normalized: Matcher::new(vec![]),
        vocab,
        literal_added: true,
        normalizer,
        pre_tokenizer,
        model,
        template,
        decoder,
        roles,
        pieces: std::sync::OnceLock::new(),
    })
}

fn added_tokens(vocab: &Vocab) -> Vec<AddedToken> {
    let added = |id: &u32| matches!(vocab.kind(*id), Kind::Control | Kind::Added);
    let token = |id: u32| {
        Some(AddedToken {
            id,
            content: std::str::from_utf8(vocab.text(id)).ok()?.to_owned(),
            lstrip: false,
            rstrip: false,
            single_word: false,
            normalized: false,
        })
    };
    (0..vocab.len() as u32).filter(added).filter_map(token).collect()
}

/// The roles that the file gives, and those that files leave out because llama.cpp assumes them.
fn roles(g: &GgufVocab<'_>, vocab: &Vocab) -> Result<Roles, TokenizerError> {
    let mut roles = g.roles;
    // Many files pad with a token that was never added; nothing here needs it.
    roles.pad = roles.pad.filter(|&id| vocab.contains(id));
    if let Some(id) = roles.all().into_iter().flatten().find(|&id| !vocab.contains(id)) {
        let problem = format!("it is {id}, and the vocabulary has {} tokens", vocab.len());
        return Err(TokenizerError::invalid("a tokenizer.ggml.*_token_id", problem));
    }
    let known =
        |role: &mut Option<u32>, id| *role = role.or(Some(id).filter(|&id| vocab.contains(id)));
    match g.model {
        "llama" => {
            known(&mut roles.bos, 1);
            known(&mut roles.eos, 2);
            known(&mut roles.unk, 0);
        }
        "bert" => {
            known(&mut roles.unk, 100);
            known(&mut roles.sep, 102);
            known(&mut roles.pad, 0);
            known(&mut roles.mask, 103);
            roles.cls = roles.cls.or(roles.bos);
            known(&mut roles.cls, 101);
            roles.bos = roles.bos.or(roles.cls);
        }
        "t5" => {
            known(&mut roles.eos, 1);
            known(&mut roles.unk, 2);
            known(&mut roles.pad, 0);
        }
        _ => {}
    }
    Ok(roles)
}

fn vocabulary(g: &mut GgufVocab<'_>) -> Result<Vocab, TokenizerError> {
    let (lower, _) = g.tokens.size_hint();
    let mut vocab = Vocab::with_capacity(lower, lower * 8);
    let continued = g.model == "bert";
    let mut spelled = vec![];
    for (i, text) in g.tokens.by_ref().enumerate() {
        let id = u32::try_from(i)
            .map_err(|_| TokenizerError::invalid("tokenizer.ggml.tokens", "too many tokens"))?;
        let kind = match g.token_types.get(i).copied().unwrap_or(1) {
            2 | 3 => Kind::Control,
            4 => Kind::Added,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Normal,
        };
        if text.is_empty() {
            vocab.leave_hole(id);
            continue;
        }
        let text = match kind {
            Kind::Normal if continued => bert_spelling(text, &mut spelled),
            _ => text,
        };
        if let Some(other) = vocab.insert(id, text, kind)? {
            let text = String::from_utf8_lossy(text);
            return Err(TokenizerError::invalid(
                format!("tokenizer.ggml.tokens[{i}]"),
                format!("{text:?} is token {other} already"),
            ));
        }
    }
    let sized = |key: &str, len: usize| match len == 0 || len == vocab.len() {
        true => Ok(()),
        false => Err(TokenizerError::invalid(
            key,
            format!("it has {len} elements for {} tokens", vocab.len()),
        )),
    };
    sized("tokenizer.ggml.scores", g.scores.len())?;
    sized("tokenizer.ggml.token_type", g.token_types.len())?;
    Ok(vocab)
}

/// GGUF marks the tokens that begin a word (`▁the`), BERT those that don't (`##ing`).
fn bert_spelling<'s>(text: &'s [u8], spelled: &'s mut Vec<u8>) -> &'s [u8] {
    if let Some(word) = text.strip_prefix("▁".as_bytes()) {
        return word;
    }
    spelled.clear();
    spelled.extend_from_slice(b"##");
    spelled.extend_from_slice(text);
    spelled
}

fn template(g: &GgufVocab<'_>, named: Option<Named>) -> Result<Template, TokenizerError> {
    let bert = g.model == "bert";
    let bos = g.add_bos.unwrap_or(match named {
        Some(n) => n.add_bos,
        None => matches!(g.model, "llama" | "bert"),
    });
    let eos = g.add_eos.unwrap_or(g.model == "t5");
    let sep = g.add_sep.unwrap_or(bert);
    let token = |wanted: bool, id: Option<u32>, key: &str, id_key: &str| match (wanted, id) {
        (false, _) => Ok(None),
        (true, Some(id)) => Ok(Some(id)),
        (true, None) => Err(TokenizerError::invalid(
            format!("tokenizer.ggml.{key}"),
            format!("it is true, but tokenizer.ggml.{id_key} is missing"),
        )),
    };
    let bos = token(bos, g.roles.bos, "add_bos_token", "bos_token_id")?;
    let eos = token(eos && !bert, g.roles.eos, "add_eos_token", "eos_token_id")?;
    let sep = token(sep, g.roles.sep.or(g.roles.eos), "add_sep_token", "seperator_token_id")?;
    let slot = |id: Option<u32>, kind| id.map(|id| Slot::Tokens(vec![id], kind));
    let end = if bert { sep } else { eos };
    let single: Vec<Slot> =
        slot(bos, 0).into_iter().chain([Slot::First(0)]).chain(slot(end, 0)).collect();
    let between = if end == sep { None } else { sep };
    let mut pair = single.clone();
    pair.extend(slot(between, 0));
    pair.push(Slot::Second(u32::from(bert)));
    pair.extend(slot(end, u32::from(bert)));
    Ok(Template { single, pair })
}
