//! The models of GGUF files, each with the steps before and after it.
use super::GgufVocab;
use crate::tokenizer::bpe::{Bpe, ByteTokens, Merges, Ranks};
use crate::tokenizer::charsmap::Charsmap;
use crate::tokenizer::decode::Decoder;
use crate::tokenizer::normalize::Normalizer;
use crate::tokenizer::pattern::{Pattern, ROOM};
use crate::tokenizer::patterns::Named;
use crate::tokenizer::prefix::PrefixIndex;
use crate::tokenizer::pretokenize::{Behavior, PreTokenizer};
use crate::tokenizer::unigram::Unigram;
use crate::tokenizer::vocab::{Kind, Vocab};
use crate::tokenizer::wordpiece::WordPiece;
use crate::tokenizer::{Model, TokenizerError, unicode};

/// What differs from model to model.
pub struct Parts {
    pub normalizer: Vec<Normalizer>,
    pub pre_tokenizer: Vec<PreTokenizer>,
    pub model: Model,
    pub decoder: Vec<Decoder>,
}

pub fn bpe(g: GgufVocab<'_>, named: Named, vocab: &Vocab) -> Result<Parts, TokenizerError> {
    let mut pre_tokenizer = vec![];
    for pattern in named.patterns {
        pre_tokenizer.push(PreTokenizer::Split {
            pattern: Pattern::regex(pattern, "tokenizer.ggml.pre", ROOM)?.0,
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

pub fn sentence_piece(g: GgufVocab<'_>, vocab: &Vocab) -> Result<Parts, TokenizerError> {
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

pub fn unigram(g: GgufVocab<'_>, vocab: &Vocab) -> Result<Parts, TokenizerError> {
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

pub fn wordpiece(g: GgufVocab<'_>, vocab: &Vocab) -> Result<Parts, TokenizerError> {
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
