//! A folder's tokenizer and template in GGUF's keys.
//!
//! Which of the pre-tokenizers that GGUF knows by name a tokenizer has is found by trying them.
use crate::error::{Error, Result};
use crate::language::Language;
use crate::load::Opened;
use rinfer_formats::gguf::tokenizers::{BYTE_LEVEL, PIECES, PRES};
use rinfer_formats::gguf::write::{Item, write};
use rinfer_formats::{Folder, Gguf};
use rinfer_text::tokenizer::{Special, Tokenizer};
use serde_json::Value;

/// What tells pre-tokenizers apart.
const PROBE: &str = "Hello, world! It's I'LL don't we've\n\n  x = 12345 + 67,890.5\t(a_b)\r\n   \n\
    naïve café ÀÉ élan 日本語のテキスト 한국어 русский текст العربية ไทย हिन्दी 😀👍🏽\u{a0}3 000\u{2009}№42 \
    fooBar HTTPServer2 http://a.b/c?d=1&e=%20 ```rust\nfn main() {}\n``` ---===*** «»“” ①②③ 1a2b\n\n\n end   \n \
    1 22 333 4444 55555 666666 7777777 88888888 999999999\n =\n\n ==\n\t=\u{3000}y'all! How are you 😁 ?我想在apple工作1314151天～ \
    ''Quoted'' don''T $x->{y}::z; %s ";

/// Tokens' kinds, as GGUF counts them.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

type Items = Vec<(String, Item)>;

/// The keys of a tokenizer of `rows` tokens.
pub(super) fn of(folder: &Folder, opened: &Opened, rows: usize) -> Result<Items> {
    let file = folder.path().join("tokenizer.json").display().to_string();
    let refuse = |problem: &str| Error::Export { file: file.clone(), problem: problem.into() };
    let language = opened.language()?;
    let bytes = folder.tokenizer()?.ok_or_else(|| refuse("it is missing"))?;
    let json: Value = serde_json::from_slice(&bytes).map_err(|e| refuse(&e.to_string()))?;
    let pieces = Pieces::read(&json, rows).map_err(|problem| refuse(&problem))?;
    let mut common = roles(&language);
    if let Some(source) = crate::language::template_source(&opened.files)? {
        common.push(("tokenizer.chat_template".to_owned(), Item::str(&source)));
    }
    for mut all in pieces.candidates() {
        all.extend(common.iter().cloned());
        if read_back(&all).is_some_and(|back| alike(&language.tokenizer, &back)) {
            return Ok(all);
        }
    }
    Err(refuse(
        "GGUF knows no tokenizer that cuts texts as this one; pack the model as .rinf instead",
    ))
}

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

/// Beginning, end and the like. Of several ends the first is the text's, the others the turn's and the
/// message's.
fn roles(language: &Language) -> Items {
    let roles = language.tokenizer.roles();
    let first = roles.eos.or(language.end.first().map(|id| id.0));
    let mut more = language.end.iter().map(|id| id.0).filter(|id| Some(*id) != first);
    let named = [
        ("bos", roles.bos),
        ("eos", first),
        ("eot", more.next()),
        ("eom", more.next()),
        ("unknown", roles.unk),
        ("padding", roles.pad),
        ("seperator", roles.sep),
        ("cls", roles.cls),
        ("mask", roles.mask),
    ];
    let id =
        |(name, id): (&str, Option<u32>)| Some((key(&format!("{name}_token_id")), Item::u32(id?)));
    let mut items: Items = named.into_iter().filter_map(id).collect();
    let wrapped = language.tokenizer.wrap(&[]);
    let adds = |role: Option<u32>| role.is_some_and(|id| wrapped.contains(&id));
    items.push((key("add_bos_token"), Item::bool(adds(roles.bos))));
    items.push((key("add_eos_token"), Item::bool(adds(roles.eos))));
    items
}

/// The tokenizer that keys make.
fn read_back(items: &Items) -> Option<Tokenizer> {
    let architecture = ("general.architecture".to_owned(), Item::str("none"));
    let all: Items = [architecture].into_iter().chain(items.iter().cloned()).collect();
    let mut file = Vec::new();
    write::<_, std::io::Error>(&mut file, &all, &[], |_, _| Ok(())).ok()?;
    crate::language::gguf_tokenizer(&Gguf::parse("a tokenizer", file).ok()?).ok()
}

/// Whether two tokenizers cut the probe alike, and every token's own text.
fn alike(a: &Tokenizer, b: &Tokenizer) -> bool {
    let same = |text: &str| a.encode(text, Special::Parse) == b.encode(text, Special::Parse);
    let own =
        || (0..a.vocab_size() as u32).filter(|id| a.is_control(*id)).filter_map(|id| a.token(id));
    same(PROBE) && own().all(|text| same(&text)) && a.wrap(&[]) == b.wrap(&[])
}

/// Tokens, their kinds and what joins them.
struct Pieces {
    /// Whether texts are written in the byte alphabet.
    bytes: bool,
    tokens: Vec<String>,
    kinds: Vec<i32>,
    merges: Vec<String>,
}

impl Pieces {
    fn read(json: &Value, rows: usize) -> std::result::Result<Pieces, String> {
        let model = &json["model"];
        let kind = model["type"].as_str().unwrap_or("BPE");
        let vocab = model["vocab"].as_object().filter(|_| kind == "BPE");
        let vocab = vocab.ok_or_else(|| format!("its model is {kind}, only BPE is written yet"))?;
        let text = json["pre_tokenizer"].to_string() + &json["decoder"].to_string();
        let bytes = text.contains("ByteLevel");
        let mut tokens: Vec<Option<String>> = vec![None; rows];
        let mut kinds = vec![UNUSED; rows];
        let mut put = |id: Option<u64>, token: &str, kind: i32| {
            let id = id.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < rows);
            let id =
                id.ok_or_else(|| format!("token {token:?} has no id below the model's {rows}"))?;
            tokens[id] = Some(token.to_owned());
            kinds[id] = kind;
            Ok::<_, String>(())
        };
        let unknown = model["unk_token"].as_str();
        for (token, id) in vocab {
            let byte =
                !bytes && token.len() == 6 && token.starts_with("<0x") && token.ends_with('>');
            let kind = if byte { BYTE } else { NORMAL };
            put(id.as_u64(), token, if unknown == Some(token) { UNKNOWN } else { kind })?;
        }
        for added in json["added_tokens"].as_array().into_iter().flatten() {
            let token = added["content"].as_str().unwrap_or_default();
            let special = added["special"] == true;
            let kind = if special { CONTROL } else { USER };
            let kind = if !bytes && unknown == Some(token) { UNKNOWN } else { kind };
            put(added["id"].as_u64(), token, kind)?;
        }
        let named =
            |(id, token): (usize, Option<String>)| token.unwrap_or_else(|| format!("[PAD{id}]"));
        Ok(Pieces {
            bytes,
            tokens: tokens.into_iter().enumerate().map(named).collect(),
            kinds,
            merges: merges(&model["merges"])?,
        })
    }

    /// What they may be to GGUF's readers: by each pre-tokenizer, or with a space before texts and
    /// without.
    fn candidates(&self) -> Vec<Items> {
        let named = |model: &str, more: Items| {
            let mut items = vec![
                (key("model"), Item::str(model)),
                (key("tokens"), Item::strs(self.tokens.iter())),
                (key("token_type"), Item::i32s(self.kinds.iter().copied())),
            ];
            items.extend(more);
            items
        };
        if self.bytes {
            let pre = |pre: &&str| {
                let merges = (key("merges"), Item::strs(self.merges.iter()));
                named(BYTE_LEVEL, vec![merges, (key("pre"), Item::str(pre))])
            };
            return PRES.iter().map(pre).collect();
        }
        let spaced = |space: bool| {
            let scores = (key("scores"), Item::f32s(self.scores().into_iter()));
            let pre = (key("pre"), Item::str("default"));
            named(PIECES, vec![scores, pre, (key("add_space_prefix"), Item::bool(space))])
        };
        vec![spaced(true), spaced(false)]
    }

    /// As sentencepiece has them: what is merged first scores highest.
    fn scores(&self) -> Vec<f32> {
        let joined = |(i, merge): (usize, &String)| (merge.replacen(' ', "", 1), -(i as f32));
        let ranks: std::collections::HashMap<String, f32> =
            self.merges.iter().enumerate().rev().map(joined).collect();
        let last = -(self.merges.len() as f32);
        let score = |(token, kind): (&String, &i32)| match *kind {
            NORMAL => ranks.get(token).copied().unwrap_or(last),
            _ => 0.0,
        };
        self.tokens.iter().zip(&self.kinds).map(score).collect()
    }
}

/// Each with a space between, in either spelling of the file.
fn merges(list: &Value) -> std::result::Result<Vec<String>, String> {
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
