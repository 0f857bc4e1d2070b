//! Text to token ids and back, from a GGUF vocabulary or a Hugging Face `tokenizer.json`.
//!
//! Ids are those that Hugging Face's `tokenizers` gives. The steps are its steps: added tokens are
//! cut out, the rest is normalized, cut to pieces, and each piece is encoded by the model (BPE,
//! Unigram or WordPiece). Two boundaries are kept that text alone can't keep: the raw bytes of
//! every token, and text that must not become control tokens ([`Special`]).
mod added;
mod bpe;
mod bytes;
mod charsmap;
mod decode;
mod ends;
mod error;
mod gguf;
mod hash;
mod json;
mod merge;
mod normalize;
mod pattern;
mod patterns;
mod prefix;
mod pretokenize;
mod template;
mod unicode;
mod unigram;
mod vocab;
mod wordpiece;

pub use added::Special;
pub use error::TokenizerError;
pub use gguf::GgufVocab;
pub use json::base64;

use added::{Matcher, Part};
use bpe::Bpe;
use decode::Decoder;
use merge::Scratch;
use normalize::{Normalizer, normalize};
use pretokenize::{Pieces, PreTokenizer};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;
use template::Template;
use unigram::Unigram;
use vocab::{Kind, Vocab};
use wordpiece::WordPiece;

/// A tokenizer, ready to use from many threads.
pub struct Tokenizer {
    vocab: Vocab,
    raw: Matcher,
    normalized: Matcher,
    normalizer: Vec<Normalizer>,
    pre_tokenizer: Vec<PreTokenizer>,
    model: Model,
    template: Template,
    decoder: Vec<Decoder>,
    /// Whether added tokens are their texts whatever the decoder makes of such characters.
    literal_added: bool,
    roles: Roles,
    pieces: OnceLock<PieceTable>,
}

enum Model {
    Bpe(Bpe),
    Unigram(Unigram),
    WordPiece(WordPiece),
}

/// Tokens with a task. A `tokenizer.json` does not name them all: `tokenizer_config.json` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn of a chat.
    pub eot: Option<u32>,
    /// Ends a message that expects a tool's answer.
    pub eom: Option<u32>,
    /// Stands for what can't be encoded.
    pub unk: Option<u32>,
    /// Separates two sequences.
    pub sep: Option<u32>,
    /// Fills a batch up.
    pub pad: Option<u32>,
    /// Is read as the class of a text.
    pub cls: Option<u32>,
    /// Is to be guessed.
    pub mask: Option<u32>,
}

impl Roles {
    fn all(&self) -> [Option<u32>; 9] {
        let Self { bos, eos, eot, eom, unk, sep, pad, cls, mask } = *self;
        [bos, eos, eot, eom, unk, sep, pad, cls, mask]
    }
}

struct PieceTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Tokenizer {
    /// Reads a Hugging Face `tokenizer.json`. Its `truncation` and `padding` are left to the
    /// caller: a text is always encoded whole.
    ///
    /// # Errors
    /// If it is not such a file, or names a component that is not implemented.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        json::read(bytes)
    }

    /// Builds the tokenizer that a GGUF file describes.
    ///
    /// # Errors
    /// If the description contradicts itself, or names a model or pre-tokenizer that is not
    /// implemented.
    pub fn from_gguf(vocab: GgufVocab<'_>) -> Result<Self, TokenizerError> {
        gguf::build(vocab)
    }

    /// The ids of `text`. Adds nothing: see [`Self::wrap`].
    pub fn encode(&self, text: &str, special: Special<'_>) -> Vec<u32> {
        let mut out = vec![];
        let mut scratch = Scratch::default();
        for part in self.raw.split(&self.vocab, text, 0, special) {
            match part {
                Part::Token(id) => out.push(id),
                Part::Text(range) => {
                    let at = range.start;
                    self.encode_text(&text[range], at, special, &mut scratch, &mut out);
                }
            }
        }
        out
    }

    /// The ids of a whole input: `ids` with the begin, end and separator tokens that the model
    /// was trained with.
    pub fn wrap(&self, ids: &[u32]) -> Vec<u32> {
        self.template.apply(ids, None).0
    }

    /// The ids and the type ids (BERT's segments) of two sequences that are judged together.
    pub fn wrap_pair(&self, first: &[u32], second: &[u32]) -> (Vec<u32>, Vec<u32>) {
        self.template.apply(first, Some(second))
    }

    /// The text of `ids`. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], skip_control: bool) -> String {
        let shown = ids.iter().filter(|&&id| self.vocab.contains(id));
        let shown = shown.filter(|&&id| !skip_control || !self.is_control(id));
        decode::decode(&self.decoder, shown.map(|&id| self.spelling(id).into_owned()).collect())
    }

    /// The bytes of `id` in a stream. `first` is whether it is the first token of the text; tokens
    /// that are not shown don't count. The space that SentencePiece puts before a text, and
    /// WordPiece before a word, is dropped there and only there. The pieces of some ids joined are
    /// [`Self::decode`] of them, but for bytes that are not UTF-8. An id without a token has none.
    pub fn piece(&self, id: u32, first: bool) -> Vec<u8> {
        if !self.vocab.contains(id) {
            return Vec::new();
        }
        match std::str::from_utf8(self.vocab.text(id)) {
            Ok(_) => decode::piece(&self.decoder, &self.spelling(id), first),
            // A token that is no text is its own bytes.
            Err(_) => self.vocab.text(id).to_vec(),
        }
    }

    /// The bytes that `id` stands for inside a text, whatever the scheme; a control token's are
    /// its name. The first call makes the table for all tokens.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let table = self.pieces.get_or_init(|| {
            let mut table =
                PieceTable { bytes: vec![], ends: Vec::with_capacity(self.vocab.len()) };
            for id in 0..self.vocab.len() as u32 {
                table.bytes.extend(self.piece(id, false));
                table.ends.push(table.bytes.len());
            }
            table
        });
        match table.ends.get(id as usize) {
            Some(&end) => {
                let before = (id as usize).checked_sub(1).map_or(0, |i| table.ends[i]);
                &table.bytes[before..end]
            }
            None => &[],
        }
    }

    /// Whether `id` steers the model (begin, end, turn, unknown, ...) rather than stands for text.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id) == Kind::Control
    }

    /// Where in `text` there are tokens that are found before the model runs: control tokens and, with
    /// `words`, those added to the vocabulary that are text.
    pub fn added_in(&self, text: &str, words: bool) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for stage in [&self.raw, &self.normalized] {
            let mut at = 0;
            for part in stage.split(&self.vocab, text, 0, Special::Parse) {
                match part {
                    Part::Token(id) => {
                        let start =
                            at + text[at..].find(stage.spelling(id).unwrap_or("")).unwrap_or(0);
                        at = start + stage.spelling(id).map_or(0, str::len);
                        if words || self.is_control(id) {
                            found.push(start..at);
                        }
                    }
                    Part::Text(range) => at = range.end,
                }
            }
        }
        found.sort_by_key(|range| range.start);
        found.dedup_by(|b, a| b.start < a.end);
        found
    }

    /// The id of a token by its text as the vocabulary spells it: `<|im_end|>`, `Ġthe`, `▁the`.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.vocab.find(token.as_bytes())
    }

    /// The text of a token as the vocabulary spells it, or none if there is no such token.
    pub fn token(&self, id: u32) -> Option<Cow<'_, str>> {
        self.vocab.contains(id).then(|| String::from_utf8_lossy(self.vocab.text(id)))
    }

    /// One more than the highest id.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// The tokens with a task.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The tokens after which a model has nothing more to say, in order: those with the tasks
    /// `eos`, `eot` and `eom`, and control tokens known by their text, like `<|im_end|>`.
    pub fn ends(&self) -> Vec<u32> {
        ends::all(&self.vocab, &self.roles)
    }

    /// The same tokenizer with other tasks, for what `tokenizer_config.json` says. Added tokens
    /// among them become control tokens; a word of the model's, such as a `!` to pad with, stays
    /// text.
    #[must_use]
    pub fn with_roles(mut self, roles: Roles) -> Self {
        for id in roles.all().into_iter().flatten() {
            if self.vocab.kind(id) == Kind::Added {
                self.vocab.set_kind(id, Kind::Control);
            }
        }
        self.roles = roles;
        self
    }

    fn encode_text(
        &self,
        text: &str,
        at: usize,
        special: Special<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) {
        let n = normalize(&self.normalizer, text);
        // Places in normalized text are not places in the original, so where the two may differ a
        // text that holds any plain part makes no control token.
        let special = match special {
            Special::Except(_) if !self.normalizer.is_empty() => {
                let apart = special.allows(&(at..at + text.len()));
                if apart { Special::Parse } else { Special::Plain }
            }
            other => other,
        };
        let from_start = at == 0 && n.from_start;
        for part in self.normalized.split(&self.vocab, &n.text, at, special) {
            match part {
                Part::Token(id) => out.push(id),
                Part::Text(range) => {
                    let first = from_start && range.start == 0;
                    let mut pieces = Pieces::new(&n.text[range], first);
                    self.pre_tokenizer.iter().for_each(|step| pieces.apply(step));
                    pieces.iter().for_each(|piece| self.encode_piece(piece, scratch, out));
                }
            }
        }
    }

    fn encode_piece(&self, piece: &str, scratch: &mut Scratch, out: &mut Vec<u32>) {
        match &self.model {
            Model::Bpe(m) => m.encode(&self.vocab, piece, scratch, out),
            Model::Unigram(m) => m.encode(&self.vocab, piece, out),
            Model::WordPiece(m) => m.encode(&self.vocab, piece, out),
        }
    }

    /// The text of a token as the decoders read it: a normalized added token's is normalized.
    fn spelling(&self, id: u32) -> Cow<'_, str> {
        let text = String::from_utf8_lossy(self.vocab.text(id));
        if !matches!(self.vocab.kind(id), Kind::Added | Kind::Control) {
            return text;
        }
        if self.literal_added && matches!(self.decoder[..], [Decoder::ByteLevel]) {
            let mut spelled = String::new();
            bytes::encode_into(&text, &mut spelled);
            return spelled.into();
        }
        self.normalized.spelling(id).map_or(text, Cow::Borrowed)
    }
}
