//! A model's tokens as bytes, and what is made of them once a model.
use crate::error::GrammarError;
use crate::kept::{Compiled, Kept};
use crate::masks::{Masks, Tables};
use crate::matcher::brief;
use llguidance::ParserFactory;
use llguidance::api::TopLevelGrammar;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

/// Turns text into tokens as the model was trained to read it, adding nothing at its ends.
pub type Tokenise = dyn Fn(&str) -> Vec<u32> + Send + Sync;

/// Most memory that one matcher's automaton may take, in states of one to two KiB.
const MAX_STATES: usize = 50_000;
/// Work that a mask may make for the automaton, in units of about 0.1 µs.
const FUEL: u64 = 2_000_000;
/// Most ways in which a grammar may go on from one place. A property that may be left out is two or three.
const MAX_ITEMS: usize = 20_000;

/// A model's tokens. Cloning it is cheap and shares what was built.
#[derive(Clone)]
pub struct Vocabulary(Arc<Inner>);

struct Inner {
    words: Arc<Words>,
    shared: OnceLock<Result<Shared, GrammarError>>,
    kept: Mutex<Kept>,
}

/// What compiled grammars hold.
struct Words {
    trie: TokTrie,
    tokenise: Arc<Tokenise>,
}

/// What all grammars are compiled with.
struct Shared {
    factory: ParserFactory,
    tables: Arc<Tables>,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Text, or a part of a character.
    Text(Vec<u8>),
    /// A control token, by name. It is no text and comes only where a grammar names it.
    Control(String),
    /// An id that never comes.
    Unused,
}

impl Vocabulary {
    /// Of the tokens in the order of their ids, and the ids that end an answer. `tokenise` gives
    /// the tokens that the model would write a text with.
    ///
    /// # Errors
    /// If there is no token or no end, or an end is none of the tokens.
    pub fn new(
        tokens: &[Token],
        ends: &[u32],
        tokenise: Arc<Tokenise>,
    ) -> Result<Vocabulary, GrammarError> {
        let wrong = |what: String| Err(GrammarError::Vocabulary(what));
        let Some(end) = ends.first() else {
            return wrong("no token ends an answer, so no constrained answer would end".to_owned());
        };
        if let Some(id) = ends.iter().find(|id| **id as usize >= tokens.len()) {
            return wrong(format!("end token {id}: there are {} tokens", tokens.len()));
        }
        let words: Vec<Vec<u8>> = (0..).zip(tokens).map(|(id, t)| word(id, t, ends)).collect();
        let info = TokRxInfo::new(tokens.len() as u32, *end);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(ends);
        let words = Arc::new(Words { trie, tokenise });
        let (shared, kept) = (OnceLock::new(), Mutex::default());
        Ok(Vocabulary(Arc::new(Inner { words, shared, kept })))
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.trie().vocab_size()
    }

    /// Whether it has no ids; it never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that end an answer.
    pub(crate) fn ends(&self) -> &[u32] {
        self.trie().eos_tokens()
    }

    /// The tokens that the model would write a text with.
    pub(crate) fn tokens(&self, text: &str) -> Vec<u32> {
        Env(self.0.words.clone()).tokenize_bytes(text.as_bytes())
    }

    pub(crate) fn trie(&self) -> &TokTrie {
        &self.0.words.trie
    }

    /// Grammars compiled before.
    pub(crate) fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what all grammars share, which takes some tenths of a second. Elsewhere it is made when
    /// the first grammar is compiled.
    ///
    /// # Errors
    /// If the vocabulary can't be used.
    pub fn prepare(&self) -> Result<(), GrammarError> {
        self.shared().map(|_| ())
    }

    fn shared(&self) -> Result<&Shared, GrammarError> {
        self.0.shared.get_or_init(|| self.build()).as_ref().map_err(Clone::clone)
    }

    /// A grammar in the library's language, at its start, with the states explored that most of its
    /// answers come through. What all share is built at the first call.
    ///
    /// # Errors
    /// If the grammar makes no sense or is too large.
    pub(crate) fn compiled(&self, lark: String) -> Result<Compiled, GrammarError> {
        let shared = self.shared()?;
        let mut masks = Masks::new(shared.tables.clone());
        let compile = || {
            let grammar = TopLevelGrammar::from_lark(lark.clone());
            let mut parser = shared.factory.create_parser(grammar)?;
            let mut explored = parser.deep_clone();
            explored.parser.with_recognizer(|rec| masks.explore(rec));
            // What explores too much uses up what the automaton may take.
            if explored.parser.get_error().is_none() {
                parser = explored;
            } else {
                masks = Masks::new(shared.tables.clone());
            }
            parser.bias_computer = Arc::new(masks);
            let explored = Arc::new(parser.parser.clone());
            Ok((llguidance::Matcher::new(Ok(parser)), explored))
        };
        let compile = std::panic::AssertUnwindSafe(compile);
        let (start, parser) = llguidance::panic_utils::catch_unwind(compile)
            .map_err(|e| GrammarError::TooLarge(brief(&e.to_string())))?;
        if let Some(error) = start.get_error() {
            return Err(GrammarError::TooLarge(brief(&error)));
        }
        Ok(Compiled { lark: lark.into(), start, parser })
    }

    fn build(&self) -> Result<Shared, GrammarError> {
        let env: TokEnv = Arc::new(Env(self.0.words.clone()));
        // Tokens that the grammar forces are taken without asking the model.
        let forces = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
        let mut factory = ParserFactory::new(&env, forces, &[])
            .map_err(|e| GrammarError::Vocabulary(e.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.max_lexer_states = MAX_STATES;
        limits.max_items_in_row = MAX_ITEMS;
        limits.step_max_items = 10 * MAX_ITEMS;
        limits.step_lexer_fuel = FUEL;
        limits.verbose_errors = false;
        Ok(Shared { factory, tables: Arc::new(Tables::new(self.trie())) })
    }
}

/// How the trie holds a token: text as it is, and control tokens after a byte that no text has.
fn word(id: u32, token: &Token, ends: &[u32]) -> Vec<u8> {
    let control = |name: &str| [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    match token {
        Token::Text(bytes) if ends.contains(&id) => control(&String::from_utf8_lossy(bytes)),
        Token::Text(bytes) if bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER) => Vec::new(),
        Token::Text(bytes) => bytes.clone(),
        Token::Control(name) => control(name),
        Token::Unused if ends.contains(&id) => control(&format!("<end-{id}>")),
        Token::Unused => Vec::new(),
    }
}

struct Env(Arc<Words>);

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.0.trie
    }
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let trie = &self.0.trie;
        let ids = trie.tokenize_with_greedy_fallback(bytes, |text| (self.0.tokenise)(text));
        // A tokenizer that changes text (case, white space) can't write this one.
        if trie.decode_raw(&ids) == bytes { ids } else { trie.greedy_tokenize(bytes) }
    }
}
