//! The tokenizer of a GGUF file, from its `tokenizer.ggml.*` values.
use super::added::{AddedToken, Matcher};
use super::bpe::{Bpe, ByteTokens, Merges, Ranks};
use super::charsmap::Charsmap;
use super::decode::Decoder;
use super::ends;
use super::normalize::Normalizer;
use super::pattern::Pattern;
use super::patterns::{Named, named};
use super::prefix::PrefixIndex;
use super::pretokenize::{Behavior, PreTokenizer};
use super::template::{Slot, Template};
use super::unicode;
use super::unigram::Unigram;
use super::vocab::{Kind, Vocab};
use super::wordpiece::WordPiece;
use super::{Model, Roles, Tokenizer, TokenizerError};

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

/// What differs from model to model.
struct Parts {
    normalizer: Vec<Normalizer>,
    pre_tokenizer: Vec<PreTokenizer>,
    model: Model,
    decoder: Vec<Decoder>,
}

pub(super) fn build(mut g: GgufVocab<'_>) -> Result<Tokenizer, TokenizerError> {
    default_roles(&mut g);
    let vocab = vocabulary(&mut g)?;
    for id in g.roles.all().into_iter().flatten() {
        if !vocab.contains(id) {
            let problem =
                format!("a special token has id {id}, the vocabulary {} tokens", vocab.len());
            return Err(TokenizerError::invalid("tokenizer.ggml.*_token_id", problem));
        }
    }
    let added = (0..vocab.len() as u32).filter_map(|id| {
        let content = std::str::from_utf8(vocab.text(id)).ok()?;
        let plain = AddedToken {
            id,
            content: content.to_owned(),
            lstrip: false,
            rstrip: false,
            single_word: false,
            normalized: false,
        };
        matches!(vocab.kind(id), Kind::Control | Kind::Added).then_some(plain)
    });
    let (raw, normalized) = (Matcher::new(added.collect()), Matcher::new(vec![]));
    let named = match g.model {
        "gpt2" => Some(named(g.pre.unwrap_or("default"))?),
        "gemma4" => Some(named("gemma4")?),
        _ => None,
    };
    let template = template(&g, named)?;
    let roles = g.roles;
    let parts = match (g.model, named) {
        (_, Some(named)) => bpe(g, named, &vocab)?,
        ("llama", _) => sentence_piece(g, &vocab)?,
        ("t5", _) => unigram(g, &vocab)?,
        ("bert", _) => wordpiece(g, &vocab)?,
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
        vocab,
        raw,
        normalized,
        normalizer,
        pre_tokenizer,
        model,
        template,
        decoder,
        roles,
        pieces: std::sync::OnceLock::new(),
    })
}

/// The ids that files leave out because llama.cpp assumes them.
fn default_roles(g: &mut GgufVocab<'_>) {
    let r = &mut g.roles;
    let default = |role: &mut Option<u32>, id| *role = role.or(Some(id));
    match g.model {
        "llama" => {
            default(&mut r.bos, 1);
            default(&mut r.eos, 2);
            default(&mut r.unk, 0);
        }
        "bert" => {
            default(&mut r.unk, 100);
            default(&mut r.sep, 102);
            default(&mut r.pad, 0);
            default(&mut r.mask, 103);
            r.cls = r.cls.or(r.bos).or(Some(101));
            r.bos = r.bos.or(r.cls);
        }
        "t5" => {
            default(&mut r.eos, 1);
            default(&mut r.unk, 2);
            default(&mut r.pad, 0);
        }
        _ => {}
    }
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
        let text = if continued && kind == Kind::Normal {
            bert_spelling(text, &mut spelled)
        } else {
            text
        };
        if text.is_empty() || vocab.find(text).is_some() {
            let text = String::from_utf8_lossy(text).into_owned();
            return Err(TokenizerError::invalid(
                format!("tokenizer.ggml.tokens[{i}]"),
                format!("the token {text:?} is empty or occurs twice"),
            ));
        }
        vocab.insert(id, text, kind)?;
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
    // Files exist that list these as plain text.
    for id in g.roles.all().into_iter().flatten().chain(ends::named(&vocab)) {
        vocab.set_kind(id, Kind::Control);
    }
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

fn bpe(g: GgufVocab<'_>, named: Named, vocab: &Vocab) -> Result<Parts, TokenizerError> {
    let mut pre_tokenizer = vec![];
    for pattern in named.patterns {
        pre_tokenizer.push(PreTokenizer::Split {
            pattern: Pattern::regex(pattern, "tokenizer.ggml.pre")?,
            behavior: Behavior::Isolated,
            invert: false,
        });
    }
    let model = Bpe {
        fallback: (!named.byte_level).then(|| Box::new(ByteTokens::find(vocab))),
        ignore_merges: named.ignore_merges,
        ..Bpe::new(Ranks::Merges(merges(g.merges, vocab)?), vocab)
    };
    let (normalizer, decoder) = if named.byte_level {
        pre_tokenizer.push(PreTokenizer::ByteLevel);
        (vec![], vec![Decoder::ByteLevel])
    } else {
        let escape = Normalizer::Replace(Pattern::Text(" ".into()), "▁".into());
        (vec![escape], spaced_decoder(false))
    };
    Ok(Parts { normalizer, pre_tokenizer, model: Model::Bpe(model), decoder })
}

fn merges<'a>(
    list: impl Iterator<Item = &'a [u8]>,
    vocab: &Vocab,
) -> Result<Merges, TokenizerError> {
    let mut merges = Merges::new(vocab);
    for (rank, merge) in list.enumerate() {
        let wrong = |problem: &str| {
            let shown = String::from_utf8_lossy(merge);
            TokenizerError::invalid(
                format!("tokenizer.ggml.merges[{rank}]"),
                format!("{shown:?} {problem}"),
            )
        };
        // The first token may itself be a space.
        let space = merge.iter().skip(1).position(|&b| b == b' ').map(|i| i + 1);
        let space = space.ok_or_else(|| wrong("is not two tokens with a space between"))?;
        let rank = u32::try_from(rank).map_err(|_| wrong("is one merge too many"))?;
        if !merges.insert(vocab, rank, &merge[..space], &merge[space + 1..]) {
            return Err(wrong("makes a token that is not in the vocabulary"));
        }
    }
    Ok(merges)
}

/// `▁` to space, byte tokens to bytes, without the space that was put in front.
fn spaced_decoder(prefixed: bool) -> Vec<Decoder> {
    let mut steps = vec![
        Decoder::Replace(Pattern::Text("▁".into()), " ".into()),
        Decoder::ByteFallback,
        Decoder::Fuse,
    ];
    if prefixed {
        steps.push(Decoder::Strip { content: ' ', start: 1, stop: 0 });
    }
    steps
}

fn sentence_piece(g: GgufVocab<'_>, vocab: &Vocab) -> Result<Parts, TokenizerError> {
    if g.scores.is_empty() {
        return Err(TokenizerError::invalid("tokenizer.ggml.scores", "missing, llama needs it"));
    }
    let prefixed = g.add_space_prefix.unwrap_or(true);
    let mut normalizer = vec![];
    if prefixed {
        normalizer.push(Normalizer::Prepend("▁".into()));
    }
    normalizer.push(Normalizer::Replace(Pattern::Text(" ".into()), "▁".into()));
    let model = Bpe {
        fallback: Some(Box::new(ByteTokens::find(vocab))),
        unk: g.roles.unk,
        ..Bpe::new(Ranks::Scores(g.scores), vocab)
    };
    Ok(Parts {
        normalizer,
        pre_tokenizer: vec![],
        model: Model::Bpe(model),
        decoder: spaced_decoder(prefixed),
    })
}

fn unigram(g: GgufVocab<'_>, vocab: &Vocab) -> Result<Parts, TokenizerError> {
    if g.scores.is_empty() || g.scores.iter().any(|s| !s.is_finite()) {
        let problem = "missing or not finite, t5 needs a score for every token";
        return Err(TokenizerError::invalid("tokenizer.ggml.scores", problem));
    }
    let charsmap = match g.precompiled_charsmap {
        Some(blob) => Some(Charsmap::new(blob, "tokenizer.ggml.precompiled_charsmap")?),
        None => None,
    };
    let prefixed = g.add_space_prefix.unwrap_or(true);
    let kind = |id: usize| vocab.kind(id as u32);
    let normal = g.scores.iter().enumerate().filter(|(id, _)| kind(*id) == Kind::Normal);
    let least = normal.map(|(_, s)| f64::from(*s)).fold(f64::INFINITY, f64::min);
    // A user's own token is always taken where it stands.
    let score = |(id, s): (usize, &f32)| if kind(id) == Kind::Added { 0.0 } else { f64::from(*s) };
    let found = |id: &u32| matches!(vocab.kind(*id), Kind::Normal | Kind::Added);
    let model = Unigram {
        scores: g.scores.iter().enumerate().map(score).collect(),
        least: if least.is_finite() { least } else { 0.0 },
        unk: g.roles.unk,
        fallback: None,
        index: PrefixIndex::new((0..vocab.len() as u32).filter(found), |id| vocab.text(id)),
    };
    let space = if g.escape_whitespaces.unwrap_or(true) { "▁" } else { " " };
    let normalizer = vec![Normalizer::SentencePiece {
        charsmap,
        prepend: prefixed,
        merge_spaces: g.remove_extra_whitespaces.unwrap_or(false),
        space: space.to_owned(),
    }];
    Ok(Parts {
        normalizer,
        pre_tokenizer: vec![],
        model: Model::Unigram(model),
        decoder: spaced_decoder(prefixed),
    })
}

fn wordpiece(g: GgufVocab<'_>, vocab: &Vocab) -> Result<Parts, TokenizerError> {
    let normal = |id: &u32| vocab.kind(*id) == Kind::Normal;
    let mut texts = (0..vocab.len() as u32).filter(normal).map(|id| vocab.text(id));
    let cased = texts.any(|t| t.iter().any(u8::is_ascii_uppercase));
    let lowercase = g.lowercase.unwrap_or(!cased);
    let normalizer = vec![Normalizer::Bert {
        clean: true,
        chinese: true,
        strip_accents: g.strip_accents.unwrap_or(lowercase),
        lowercase,
    }];
    let by_char = |is: fn(char) -> bool, behavior| PreTokenizer::Split {
        pattern: Pattern::Char(Box::new(is)),
        behavior,
        invert: false,
    };
    let unk = g.roles.unk.ok_or_else(|| {
        TokenizerError::invalid("tokenizer.ggml.unknown_token_id", "missing, bert needs it")
    })?;
    let model = WordPiece {
        prefix: "##".into(),
        unk,
        longest_word: 100,
        index: PrefixIndex::new((0..vocab.len() as u32).filter(normal), |id| vocab.text(id)),
    };
    Ok(Parts {
        normalizer,
        pre_tokenizer: vec![
            by_char(char::is_whitespace, Behavior::Removed),
            by_char(unicode::is_punctuation, Behavior::Isolated),
        ],
        model: Model::WordPiece(model),
        decoder: vec![Decoder::WordPiece { prefix: "##".into(), cleanup: true }],
    })
}
