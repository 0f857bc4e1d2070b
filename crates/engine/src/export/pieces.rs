//! A `tokenizer.json`'s tokens, their kinds and what joins them, in GGUF's keys.
use super::vocab::{Items, key};
use rinfer_formats::gguf::tokenizers::{BYTE_LEVEL, LIKELIEST, PIECES, PRES, WORDS};
use rinfer_formats::gguf::write::Item;
use rinfer_text::tokenizer::base64;
use serde_json::Value;
use std::collections::HashMap;

/// Tokens' kinds, as GGUF counts them.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// What begins a word in GGUF, and continues one in a `tokenizer.json`.
const BEGINS: &str = "▁";
const CONTINUES: &str = "##";

/// Tokens, their kinds and how a text becomes some of them.
pub(super) struct Pieces {
    tokens: Vec<String>,
    kinds: Vec<i32>,
    how: How,
}

enum How {
    /// Pairs are merged, of texts in the byte alphabet.
    Bytes(Vec<String>),
    /// The same of characters.
    Pairs(Vec<String>),
    /// The likeliest are taken.
    Likeliest { scores: Vec<f32>, charsmap: Option<Vec<u8>> },
    /// The longest that words have.
    Words { lowercase: bool, strip_accents: bool },
}

impl Pieces {
    /// Those of a model with `rows` of them.
    ///
    /// # Errors
    /// What is no tokenizer, in words.
    pub fn read(json: &Value, rows: usize) -> Result<Pieces, String> {
        let model = &json["model"];
        let how = How::read(json, rows)?;
        let (mut tokens, mut kinds) = (vec![None; rows], vec![UNUSED; rows]);
        let mut put = |id: Option<u64>, token: &str, kind: i32| {
            let id = id.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < rows);
            let id =
                id.ok_or_else(|| format!("token {token:?} has no id below the model's {rows}"))?;
            tokens[id] = Some(token.to_owned());
            kinds[id] = kind;
            Ok::<_, String>(())
        };
        let unknown = match model["unk_id"].as_u64() {
            Some(id) => listed(model).nth(id as usize).map(|(token, _)| token),
            None => model["unk_token"].as_str(),
        };
        let fallback = model["byte_fallback"] == true || matches!(how, How::Pairs(_));
        let is_byte = |token: &str| {
            fallback && token.len() == 6 && token.starts_with("<0x") && token.ends_with('>')
        };
        let kind = |token: &str| match token {
            _ if is_byte(token) => BYTE,
            _ if unknown == Some(token) => UNKNOWN,
            _ => NORMAL,
        };
        for (token, id) in model["vocab"].as_object().into_iter().flatten() {
            put(id.as_u64(), token, kind(token))?;
        }
        for (id, (token, _)) in listed(model).enumerate() {
            put(Some(id as u64), token, kind(token))?;
        }
        let literal = matches!(how, How::Bytes(_));
        // A token beyond the rows is none that the model takes: an image's place, of a model without images.
        let within = |token: &&Value| token["id"].as_u64().is_none_or(|id| id < rows as u64);
        for added in json["added_tokens"].as_array().into_iter().flatten().filter(within) {
            let token = added["content"].as_str().unwrap_or_default();
            let kind = if added["special"] == true { CONTROL } else { USER };
            let kind = if !literal && unknown == Some(token) { UNKNOWN } else { kind };
            put(added["id"].as_u64(), token, kind)?;
        }
        let named =
            |(id, token): (usize, Option<String>)| token.unwrap_or_else(|| format!("[PAD{id}]"));
        let tokens = tokens.into_iter().enumerate().map(named).collect();
        Ok(Pieces { tokens, kinds, how })
    }

    /// Whether each is a word or a part of one.
    pub fn of_words(&self) -> bool {
        matches!(self.how, How::Words { .. })
    }

    /// What they may be to GGUF's readers: by each pre-tokenizer, or with a space before texts and
    /// without, and with runs of spaces kept or not.
    pub fn candidates(&self) -> Vec<Items> {
        let named = |model: &str, more: Items| {
            let mut items = vec![
                (key("model"), Item::str(model)),
                (key("tokens"), Item::strs(self.spelled(model).iter())),
                (key("token_type"), Item::i32s(self.kinds.iter().copied())),
            ];
            items.extend(more);
            items
        };
        let flag = |name: &str, value: bool| (key(name), Item::bool(value));
        let plain = || (key("pre"), Item::str("default"));
        match &self.how {
            How::Bytes(merges) => {
                let pre = |pre: &&str| {
                    let merges = (key("merges"), Item::strs(merges.iter()));
                    named(BYTE_LEVEL, vec![merges, (key("pre"), Item::str(pre))])
                };
                PRES.iter().map(pre).collect()
            }
            How::Pairs(merges) => {
                let spaced = |space: bool| {
                    let scores = (key("scores"), Item::f32s(self.ranked(merges).into_iter()));
                    named(PIECES, vec![scores, plain(), flag("add_space_prefix", space)])
                };
                [true, false].map(spaced).into()
            }
            How::Likeliest { scores, charsmap } => {
                let made = |(space, merged): (bool, bool)| {
                    let mut items = vec![
                        (key("scores"), Item::f32s(scores.iter().copied())),
                        plain(),
                        flag("add_space_prefix", space),
                        flag("remove_extra_whitespaces", merged),
                    ];
                    let map = charsmap.as_ref().map(|map| Item::u8s(map));
                    items.extend(map.map(|map| (key("precompiled_charsmap"), map)));
                    named(LIKELIEST, items)
                };
                [(true, true), (true, false), (false, true), (false, false)].map(made).into()
            }
            How::Words { lowercase, strip_accents } => {
                let more = vec![
                    plain(),
                    flag("normalizer.lowercase", *lowercase),
                    flag("normalizer.strip_accents", *strip_accents),
                ];
                vec![named(WORDS, more)]
            }
        }
    }

    /// The tokens as a model's files spell them.
    fn spelled(&self, model: &str) -> Vec<String> {
        let spell = |(token, kind): (&String, &i32)| match *kind {
            NORMAL if model == WORDS => {
                match token.strip_prefix(CONTINUES).filter(|rest| !rest.is_empty()) {
                    Some(rest) => rest.to_owned(),
                    None => BEGINS.to_owned() + token,
                }
            }
            _ => token.clone(),
        };
        self.tokens.iter().zip(&self.kinds).map(spell).collect()
    }

    /// As sentencepiece has them: what is merged first scores highest.
    fn ranked(&self, merges: &[String]) -> Vec<f32> {
        let joined = |(i, merge): (usize, &String)| (merge.replacen(' ', "", 1), -(i as f32));
        let ranks: HashMap<String, f32> = merges.iter().enumerate().rev().map(joined).collect();
        let last = -(merges.len() as f32);
        let score = |(token, kind): (&String, &i32)| match *kind {
            NORMAL => ranks.get(token).copied().unwrap_or(last),
            _ => 0.0,
        };
        self.tokens.iter().zip(&self.kinds).map(score).collect()
    }
}

impl How {
    fn read(json: &Value, rows: usize) -> Result<How, String> {
        let model = &json["model"];
        match model["type"].as_str().unwrap_or("BPE") {
            "BPE" if model["vocab"].is_object() => {
                let merges = merges(&model["merges"])?;
                let text = json["pre_tokenizer"].to_string() + &json["decoder"].to_string();
                let bytes = text.contains("ByteLevel");
                Ok(if bytes { How::Bytes(merges) } else { How::Pairs(merges) })
            }
            "Unigram" => {
                let mut scores: Vec<f32> = listed(model).map(|(_, score)| score as f32).collect();
                // Of tokens that were added, and rows without one.
                scores.resize(rows, 0.0);
                let map = find(&json["normalizer"], "Precompiled");
                let map = map.and_then(|map| map["precompiled_charsmap"].as_str());
                Ok(How::Likeliest { scores, charsmap: map.and_then(base64) })
            }
            "WordPiece" => {
                let prefix = model["continuing_subword_prefix"].as_str().unwrap_or(CONTINUES);
                if prefix != CONTINUES {
                    return Err(format!(
                        "its words go on with {prefix:?}, GGUF's with {CONTINUES:?}"
                    ));
                }
                let normalizer = find(&json["normalizer"], "BertNormalizer");
                let normalizer = normalizer.unwrap_or(&Value::Null);
                let lowercase = normalizer["lowercase"].as_bool().unwrap_or(true);
                let strip_accents = normalizer["strip_accents"].as_bool().unwrap_or(lowercase);
                Ok(How::Words { lowercase, strip_accents })
            }
            kind => Err(format!("its model is {kind}: GGUF has BPE, Unigram and WordPiece")),
        }
    }
}

/// The tokens that come with scores, in the order of their ids.
fn listed(model: &Value) -> impl Iterator<Item = (&str, f64)> {
    let all = model["vocab"].as_array().into_iter().flatten();
    all.filter_map(|entry| Some((entry[0].as_str()?, entry[1].as_f64()?)))
}

/// A step of a kind among others.
fn find<'a>(steps: &'a Value, kind: &str) -> Option<&'a Value> {
    if steps["type"] == kind {
        return Some(steps);
    }
    steps["normalizers"].as_array()?.iter().find_map(|step| find(step, kind))
}

/// Each with a space between, in either spelling of the file.
fn merges(list: &Value) -> Result<Vec<String>, String> {
    let merge = |merge: &Value| match merge {
        Value::String(both) => Some(both.clone()),
        Value::Array(pair) => match &pair[..] {
            [Value::String(a), Value::String(b)] => Some(format!("{a} {b}")),
            _ => None,
        },
        _ => None,
    };
    let all = list.as_array().map(|all| all.iter().map(merge).collect::<Option<Vec<_>>>());
    all.flatten().ok_or_else(|| "its merges are no list of pairs".to_owned())
}
