//! Reading a Hugging Face `tokenizer.json`.
mod model;
mod node;
mod outputs;
mod stages;

pub use stages::base64;

use self::model::{ModelSeed, Number, RawModel};
use self::node::Node;
use super::added::{AddedToken, Matcher};
use super::bpe::{Bpe, ByteTokens, Merges, Ranks};
use super::decode::Decoder;
use super::normalize::Normalizer;
use super::pattern::ROOM;
use super::prefix::PrefixIndex;
use super::pretokenize::PreTokenizer;
use super::unigram::Unigram;
use super::vocab::{Kind, Vocab};
use super::wordpiece::WordPiece;
use super::{Model, Roles, Tokenizer, TokenizerError};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// Reads all of it.
pub(super) fn read(bytes: &[u8]) -> Result<Tokenizer, TokenizerError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let (mut raw, rest) = json.deserialize_map(File)?;
    json.end()?;
    let rest = Value::Object(rest);
    let room = Cell::new(ROOM);
    let field = |key: &str| Node::new(rest.get(key).unwrap_or(&Value::Null), key, &room);
    let fields = Value::Object(std::mem::take(&mut raw.fields));
    let config = Node::new(&fields, "model", &room);

    let mut normalizer = vec![];
    stages::normalizer(&field("normalizer"), &mut normalizer)?;
    let mut pre_tokenizer = vec![];
    stages::pre_tokenizer(&field("pre_tokenizer"), &mut pre_tokenizer)?;
    let template = outputs::post_processor(&field("post_processor"))?.unwrap_or_default();
    let mut decoder = vec![];
    outputs::decoder(&field("decoder"), &mut decoder)?;
    if decoder.is_empty() {
        decoder.push(Decoder::Spaced);
    }
    let grown = normalizer.iter().map(Normalizer::growth);
    check_growth("normalizer", grown.chain(pre_tokenizer.iter().map(PreTokenizer::growth)))?;
    check_growth("decoder", decoder.iter().map(Decoder::growth))?;

    let mut vocab = vocabulary(&raw, bytes.len())?;
    let added = added_tokens(&field("added_tokens"), &mut vocab, bytes.len())?;
    if let Some(id) = template.ids().find(|&id| !vocab.contains(id)) {
        let problem = format!("the token with id {id} is not in the vocabulary");
        return Err(TokenizerError::invalid("post_processor", problem));
    }
    let model = build_model(&config, &raw, &vocab)?;
    let unk = match &model {
        Model::Bpe(m) => m.unk,
        Model::Unigram(m) => m.unk,
        Model::WordPiece(m) => Some(m.unk),
    };
    let roles = Roles { bos: template.begin(), eos: template.end(), unk, ..Roles::default() };
    let (early, late) = Matcher::stages(added, &normalizer);
    Ok(Tokenizer {
        vocab,
        raw: early,
        normalized: late,
        normalizer,
        pre_tokenizer,
        model,
        template,
        decoder,
        literal_added: false,
        roles,
        pieces: std::sync::OnceLock::new(),
    })
}

/// A few steps that each lengthen a text would make a huge one of a short one.
fn check_growth(path: &str, mut steps: impl Iterator<Item = usize>) -> Result<(), TokenizerError> {
    const MOST: usize = 4096;
    let grown =
        steps.try_fold(1usize, |grown, step| grown.checked_mul(step).filter(|g| *g <= MOST));
    match grown {
        Some(_) => Ok(()),
        None => {
            let problem = format!("its steps may make a text more than {MOST} times longer");
            Err(TokenizerError::invalid(path, problem))
        }
    }
}

/// The top level: the model and everything else.
struct File;
impl<'de> Visitor<'de> for File {
    type Value = (RawModel, Map<String, Value>);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tokenizer.json object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut model, mut rest) = (None, Map::new());
        while let Some(key) = map.next_key::<String>()? {
            if key == "model" {
                model = Some(map.next_value_seed(ModelSeed)?);
            } else {
                let value = map.next_value()?;
                rest.insert(key, value);
            }
        }
        let model = model.ok_or_else(|| serde::de::Error::missing_field("model"))?;
        Ok((model, rest))
    }
}

fn vocabulary(raw: &RawModel, file_size: usize) -> Result<Vocab, TokenizerError> {
    let tokens = &raw.vocab.tokens;
    let mut vocab = Vocab::with_capacity(tokens.len(), raw.vocab.text.len());
    for (i, (range, number)) in tokens.iter().enumerate() {
        let id = match number {
            Number::Id(id) => *id,
            Number::Score(_) => i as u32,
        };
        let text = &raw.vocab.text[range.clone()];
        check_id(id, text, file_size, "model.vocab")?;
        let other = vocab.insert(id, text.as_bytes(), Kind::Normal)?;
        if matches!(number, Number::Id(_)) && other.is_some() {
            return Err(TokenizerError::invalid("model.vocab", format!("{text:?} occurs twice")));
        }
    }
    Ok(vocab)
}

/// Ids index tables, so one beyond what the file could number is an error, not an allocation.
fn check_id(id: u32, text: &str, file_size: usize, path: &str) -> Result<(), TokenizerError> {
    if id as usize > file_size {
        let problem = format!("{text:?} has id {id}, beyond any vocabulary of this file's size");
        return Err(TokenizerError::invalid(path, problem));
    }
    Ok(())
}

fn added_tokens(
    list: &Node<'_>,
    vocab: &mut Vocab,
    file_size: usize,
) -> Result<Vec<AddedToken>, TokenizerError> {
    let mut out = BTreeMap::new();
    if list.value.is_null() {
        return Ok(vec![]);
    }
    for n in list.items()? {
        let content = n.get("content").str()?.to_owned();
        if content.is_empty() {
            continue;
        }
        let special = n.get("special").bool_or(false)?;
        let kind = if special { Kind::Control } else { Kind::Added };
        // The model's own id wins over the list's, as in Hugging Face's reader.
        let id = match vocab.find(content.as_bytes()) {
            Some(id) => id,
            None => {
                let id = n.get("id").id()?;
                check_id(id, &content, file_size, &n.path)?;
                vocab.insert(id, content.as_bytes(), kind)?;
                id
            }
        };
        vocab.set_kind(id, kind);
        let token = AddedToken {
            id,
            content,
            lstrip: n.get("lstrip").bool_or(false)?,
            rstrip: n.get("rstrip").bool_or(false)?,
            single_word: n.get("single_word").bool_or(false)?,
            normalized: n.get("normalized").bool_or(!special)?,
        };
        out.insert(id, token);
    }
    Ok(out.into_values().collect())
}

fn build_model(n: &Node<'_>, raw: &RawModel, vocab: &Vocab) -> Result<Model, TokenizerError> {
    let kind = n.get("type");
    match kind.value.as_str() {
        Some("BPE") => bpe(n, raw, vocab).map(Model::Bpe),
        None if kind.value.is_null() && raw.has_merges => bpe(n, raw, vocab).map(Model::Bpe),
        Some("Unigram") => unigram(n, raw, vocab).map(Model::Unigram),
        Some("WordPiece") => wordpiece(n, raw, vocab).map(Model::WordPiece),
        _ => Err(n.unsupported("BPE, Unigram, WordPiece")),
    }
}

fn bpe(n: &Node<'_>, raw: &RawModel, vocab: &Vocab) -> Result<Bpe, TokenizerError> {
    expect_ids(raw)?;
    let dropout = n.get("dropout");
    if !dropout.value.is_null() && dropout.value.as_f64() != Some(0.0) {
        return Err(dropout.wrong("dropout makes ids random; expected null"));
    }
    let prefix = n.get("continuing_subword_prefix");
    if !prefix.str_or_empty()?.is_empty() {
        return Err(TokenizerError::unsupported(&prefix.path, prefix.str()?, "none"));
    }
    let fallback = n.get("byte_fallback").bool_or(false)?;
    let suffix = n.get("end_of_word_suffix").str_or_empty()?;
    let model = Bpe::new(Ranks::Merges(merges(raw, vocab)?), vocab);
    Ok(Bpe {
        fallback: fallback.then(|| Box::new(ByteTokens::find(vocab))),
        unk: optional_token(&n.get("unk_token"), vocab)?,
        fuse_unk: n.get("fuse_unk").bool_or(false)?,
        ignore_merges: n.get("ignore_merges").bool_or(false)?,
        suffix: suffix.to_owned(),
        before_marks: model.before_marks.filter(|_| suffix.is_empty()),
        ..model
    })
}

fn merges(raw: &RawModel, vocab: &Vocab) -> Result<Merges, TokenizerError> {
    let mut merges = Merges::new(vocab);
    for (rank, (left, right)) in raw.merges.iter().enumerate() {
        let (left, right) = (&raw.merge_text[left.clone()], &raw.merge_text[right.clone()]);
        if !merges.insert(vocab, rank as u32, left.as_bytes(), right.as_bytes()) {
            let problem = format!("{left:?} and {right:?} joined are not in the vocabulary");
            return Err(TokenizerError::invalid(format!("model.merges[{rank}]"), problem));
        }
    }
    Ok(merges)
}

fn unigram(n: &Node<'_>, raw: &RawModel, vocab: &Vocab) -> Result<Unigram, TokenizerError> {
    let mut scores = Vec::with_capacity(raw.vocab.tokens.len());
    for (i, (_, number)) in raw.vocab.tokens.iter().enumerate() {
        match number {
            Number::Score(s) if s.is_finite() => scores.push(*s),
            _ => {
                let path = format!("model.vocab[{i}]");
                return Err(TokenizerError::invalid(path, "expected a token and its score"));
            }
        }
    }
    let unk = n.get("unk_id").id()?;
    if unk as usize >= scores.len() {
        return Err(n.get("unk_id").wrong("it is not in the vocabulary"));
    }
    let fallback = n.get("byte_fallback").bool_or(false)?;
    let plain = (0..scores.len() as u32).filter(|&id| vocab.is_plain(id));
    Ok(Unigram {
        least: scores.iter().copied().fold(f64::INFINITY, f64::min),
        unk: Some(unk),
        fallback: fallback.then(|| Box::new(ByteTokens::find(vocab))),
        index: PrefixIndex::new(plain, |id| vocab.text(id)),
        scores,
    })
}

fn wordpiece(n: &Node<'_>, raw: &RawModel, vocab: &Vocab) -> Result<WordPiece, TokenizerError> {
    expect_ids(raw)?;
    let unk = n.get("unk_token");
    let longest = n.get("max_input_chars_per_word");
    let prefix = n.get("continuing_subword_prefix");
    let plain = (0..vocab.len() as u32).filter(|&id| vocab.is_plain(id));
    Ok(WordPiece {
        prefix: if prefix.value.is_null() { "##" } else { prefix.str()? }.to_owned(),
        unk: optional_token(&unk, vocab)?.ok_or_else(|| unk.wrong("expected a token"))?,
        longest_word: if longest.value.is_null() { 100 } else { longest.usize()? },
        index: PrefixIndex::new(plain, |id| vocab.text(id)),
    })
}

fn expect_ids(raw: &RawModel) -> Result<(), TokenizerError> {
    match raw.vocab.tokens.iter().all(|(_, n)| matches!(n, Number::Id(_))) {
        true => Ok(()),
        false => Err(TokenizerError::invalid("model.vocab", "expected a map of tokens to ids")),
    }
}

fn optional_token(n: &Node<'_>, vocab: &Vocab) -> Result<Option<u32>, TokenizerError> {
    if n.value.is_null() {
        return Ok(None);
    }
    let token = n.str()?;
    let id = vocab.find(token.as_bytes());
    id.map(Some).ok_or_else(|| n.wrong(format!("{token:?} is not in the vocabulary")))
}
