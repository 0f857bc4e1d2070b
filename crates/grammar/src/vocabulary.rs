//! A model's tokens as bytes, and what is made of them once a model.
use crate::error::GrammarError;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use std::sync::{Arc, OnceLock};
use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

/// Turns text into tokens as the model was trained to read it, adding nothing at its ends.
pub type Tokenise = dyn Fn(&str) -> Vec<u32> + Send + Sync;

/// Most memory that one matcher's automaton may take, in states of one to two KiB.
const MAX_STATES: usize = 50_000;
/// Most ways in which a grammar may go on from one place. A property that may be left out is two or three.
const MAX_ITEMS: usize = 20_000;

/// A model's tokens. Cloning it is cheap and shares what was built.
#[derive(Clone)]
pub struct Vocabulary(Arc<Inner>);

struct Inner {
    trie: TokTrie,
    tokenise: Arc<Tokenise>,
    factory: OnceLock<Result<Arc<ParserFactory>, GrammarError>>,
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
        Ok(Vocabulary(Arc::new(Inner { trie, tokenise, factory: OnceLock::new() })))
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.0.trie.vocab_size()
    }

    /// Whether it has no ids; it never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that end an answer.
    pub(crate) fn ends(&self) -> &[u32] {
        self.0.trie.eos_tokens()
    }

    /// The tokens that the model would write a text with.
    pub(crate) fn tokens(&self, text: &str) -> Vec<u32> {
        Env(self.0.clone()).tokenize_bytes(text.as_bytes())
    }

    pub(crate) fn trie(&self) -> &TokTrie {
        &self.0.trie
    }

    /// What grammars are compiled with: built at the first call, then shared.
    pub(crate) fn factory(&self) -> Result<Arc<ParserFactory>, GrammarError> {
        self.0.factory.get_or_init(|| self.build()).clone()
    }

    fn build(&self) -> Result<Arc<ParserFactory>, GrammarError> {
        let env: TokEnv = Arc::new(Env(self.0.clone()));
        // Tokens that the grammar forces are taken without asking the model.
        let forces = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&env, forces, &slices)
            .map_err(|e| GrammarError::Vocabulary(e.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.max_lexer_states = MAX_STATES;
        limits.max_items_in_row = MAX_ITEMS;
        limits.step_max_items = 10 * MAX_ITEMS;
        limits.verbose_errors = false;
        Ok(Arc::new(factory))
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

struct Env(Arc<Inner>);

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
