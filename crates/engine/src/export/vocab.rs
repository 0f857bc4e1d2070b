//! A folder's tokenizer and template in GGUF's keys.
//!
//! Which of the pre-tokenizers that GGUF knows by name a tokenizer has is found by trying them.
use super::pieces::Pieces;
use crate::error::{Error, Result};
use crate::language::Language;
use crate::load::Opened;
use rinfer_formats::gguf::write::{Item, write};
use rinfer_formats::{Folder, Gguf};
use rinfer_text::tokenizer::{Special, Tokenizer};
use serde_json::Value;
use std::borrow::Cow;

/// What tells pre-tokenizers apart.
const PROBE: &str = "Hello, world! It's I'LL don't we've\n\n  x = 12345 + 67,890.5\t(a_b)\r\n   \n\
    naïve café ÀÉ élan 日本語のテキスト 한국어 русский текст العربية ไทย हिन्दी 😀👍🏽\u{a0}3 000\u{2009}№42 \
    fooBar HTTPServer2 http://a.b/c?d=1&e=%20 ```rust\nfn main() {}\n``` ---===*** «»“” ①②③ 1a2b\n\n\n end   \n \
    1 22 333 4444 55555 666666 7777777 88888888 999999999\n =\n\n ==\n\t=\u{3000}y'all! How are you 😁 ?我想在apple工作1314151天～ \
    ''Quoted'' don''T $x->{y}::z; %s ";

pub(super) type Items = Vec<(String, Item)>;

/// The keys of a tokenizer of `rows` tokens, and what they don't say.
pub(super) fn of(folder: &Folder, opened: &Opened, rows: usize) -> Result<(Items, Vec<String>)> {
    let file = folder.path().join("tokenizer.json").display().to_string();
    let refuse = |problem: &str| Error::Export { file: file.clone(), problem: problem.into() };
    let language = opened.language()?;
    let bytes = folder.tokenizer()?.ok_or_else(|| refuse("it is missing"))?;
    let json: Value = serde_json::from_slice(&bytes).map_err(|e| refuse(&e.to_string()))?;
    let pieces = Pieces::read(&json, rows).map_err(|problem| refuse(&problem))?;
    let mut common = roles(&language, pieces.of_words());
    if let Some(source) = crate::language::template_source(&opened.files)? {
        common.push(("tokenizer.chat_template".to_owned(), Item::str(&source)));
    }
    let mut found = None;
    for mut all in pieces.candidates() {
        all.extend(common.iter().cloned());
        let Some(back) = read_back(&all).filter(|b| alike(&language.tokenizer, b, rows)) else {
            continue;
        };
        let unsaid = unsaid(&language.tokenizer, &back, rows);
        if found.as_ref().is_none_or(|(_, least): &(_, Vec<_>)| unsaid.len() < least.len()) {
            found = Some((all, unsaid));
        }
    }
    found.ok_or_else(|| {
        refuse(
            "GGUF knows no tokenizer that cuts texts as this one; pack the model as .rinf instead",
        )
    })
}

pub(super) fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

/// Beginning, end and the like. Of several ends the first is the text's, the others the turn's and the
/// message's. Where pieces are of words, texts begin with a class and end with a separator.
fn roles(language: &Language, words: bool) -> Items {
    let mut roles = *language.tokenizer.roles();
    if words {
        roles.cls = roles.cls.or(roles.bos);
        roles.sep = roles.sep.or(roles.eos);
    }
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
    let (end, role) = if words { ("sep", roles.sep) } else { ("eos", roles.eos) };
    items.push((key("add_bos_token"), Item::bool(adds(roles.bos))));
    items.push((key(&format!("add_{end}_token")), Item::bool(adds(role))));
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

/// Whether two tokenizers cut the probe alike, and the own text of every control token that has a row.
fn alike(a: &Tokenizer, b: &Tokenizer, rows: usize) -> bool {
    same(a, b, PROBE)
        && control(a, rows).all(|text| same(a, b, &text))
        && a.wrap(&[]) == b.wrap(&[])
}

fn same(a: &Tokenizer, b: &Tokenizer, text: &str) -> bool {
    a.encode(text, Special::Parse) == b.encode(text, Special::Parse)
}

/// The texts of control tokens.
fn control(tokenizer: &Tokenizer, rows: usize) -> impl Iterator<Item = Cow<'_, str>> {
    let all = 0..tokenizer.vocab_size().min(rows) as u32;
    all.filter(|id| tokenizer.is_control(*id)).filter_map(|id| tokenizer.token(id))
}

/// What GGUF has no keys for, whatever the tokenizer; other converters leave it out as well.
fn unsaid(a: &Tokenizer, b: &Tokenizer, rows: usize) -> Vec<String> {
    let mut all = Vec::new();
    let spaced = [format!(" {PROBE}"), format!("  {PROBE}  "), " ".into(), "  ".into()];
    if !spaced.iter().all(|text| same(a, b, text)) {
        all.push("spaces that texts begin or end with are cut otherwise".to_owned());
    }
    if !same(a, b, "e\u{301} o\u{308}") {
        all.push("accents that are characters of their own are not composed".to_owned());
    }
    if !same(a, b, "x ½ ² ④ Ⅳ") {
        all.push("numbers such as ½ and ² are cut otherwise".to_owned());
    }
    let takes = |text: &Cow<'_, str>| !same(a, b, &format!("x {text} x"));
    let count = control(a, rows).filter(takes).count();
    if count > 0 {
        all.push(format!("spaces beside control tokens are cut otherwise, beside {count} of them"));
    }
    all
}
