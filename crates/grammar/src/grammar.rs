//! What an answer may be, and its compilation.
use crate::compound::{self, Shape};
use crate::error::{GrammarError, short};
use crate::kept::Compiled;
use crate::matcher::Matcher;
use crate::pattern::{Pattern, Spelling};
use crate::schema::{self, Spacing, fields::Field};
use crate::{Shares, Vocabulary, embedded, gbnf};
use serde_json::{Value, json};

/// Longest Lark grammar that is read, in bytes.
const LONGEST: usize = 256 << 10;
/// Most rules of a Lark grammar, and deepest nesting of its brackets.
const MOST_RULES: usize = 2_000;
const DEEPEST: usize = 100;
/// What the deepest of bounded grammars needs, many times over.
const STACK: usize = 256 << 20;

/// What an answer may be.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Grammar {
    /// Any JSON value.
    Json(Spacing),
    /// Any JSON object.
    Object(Spacing),
    /// JSON that satisfies a schema, of draft 2020-12 or 7.
    Schema(Value, Spacing),
    /// A text that a regular expression, as ECMAScript writes them, matches from start to end.
    Regex(String),
    /// One of some texts.
    Choice(Vec<String>),
    /// A text of a Lark grammar, in llguidance's dialect.
    Lark(String),
    /// A text of a GBNF grammar, as llama.cpp has them.
    Gbnf(String),
    /// Another, of which is noted how probable each token is among those allowed: for one answer.
    Measured(Box<Grammar>, Shares),
    /// A text of parts.
    Shape(Shape),
}

impl Grammar {
    /// A schema from its text.
    ///
    /// # Errors
    /// If it is not JSON. Whether it is a schema is told when it is compiled.
    pub fn schema(text: &str) -> Result<Grammar, GrammarError> {
        let schema = serde_json::from_str(text).map_err(|e| GrammarError::Json(e.to_string()))?;
        Ok(Grammar::Schema(schema, Spacing::default()))
    }

    /// Compiles the grammar for a vocabulary. Time and memory are bounded, whatever the grammar.
    ///
    /// # Errors
    /// What is not supported, makes no sense or is too large, with its place.
    pub fn compile(&self, vocabulary: &Vocabulary) -> Result<Matcher, GrammarError> {
        if let Grammar::Measured(grammar, shares) = self {
            return Ok(grammar.compile(vocabulary)?.measured(shares));
        }
        let name = format!("{self:?}");
        let kept = vocabulary.kept().get(&name);
        let compiled = match kept {
            Some(compiled) => compiled,
            None => {
                let compiled =
                    compiled(vocabulary, || self.lark()).map_err(|error| self.blame(error))?;
                vocabulary.kept().put(name, compiled.clone());
                compiled
            }
        };
        Ok(Matcher::new(vocabulary, compiled))
    }

    /// The parts of an answer of a schema that were decided among options: booleans, whole numbers,
    /// and strings of which the schema lists all. Of other forms there are none.
    ///
    /// # Errors
    /// What the schema has that is not supported.
    pub fn fields(&self, answer: &str) -> Result<Vec<Field>, GrammarError> {
        match self {
            Grammar::Schema(schema, _) => schema::fields::fields(schema, answer),
            Grammar::Measured(grammar, _) => grammar.fields(answer),
            _ => Ok(Vec::new()),
        }
    }

    /// The grammar in the library's language.
    pub(crate) fn lark(&self) -> Result<String, GrammarError> {
        match self {
            Grammar::Json(spacing) => schema::lark(&Value::Bool(true), *spacing),
            Grammar::Object(spacing) => schema::lark(&json!({"type": "object"}), *spacing),
            Grammar::Schema(schema, spacing) => schema::lark(schema, *spacing),
            Grammar::Regex(source) => regex(source),
            Grammar::Choice(choices) => choice(choices),
            Grammar::Lark(source) => {
                bounded(source)?;
                embedded::lark(source)
            }
            Grammar::Gbnf(source) => gbnf::lark(source),
            Grammar::Measured(grammar, _) => grammar.lark(),
            Grammar::Shape(shape) => compound::lark(shape),
        }
    }

    /// Errors of the library about what a person wrote are about that.
    fn blame(&self, error: GrammarError) -> GrammarError {
        match (self, error) {
            (Grammar::Lark(_), GrammarError::TooLarge(what)) => {
                GrammarError::Grammar { kind: "Lark", line: None, what }
            }
            (_, error) => error,
        }
    }
}

/// Compiles what `lark` gives, on a thread with stack enough for the deepest of bounded grammars.
pub(crate) fn compiled(
    vocabulary: &Vocabulary,
    lark: impl FnOnce() -> Result<String, GrammarError> + Send,
) -> Result<Compiled, GrammarError> {
    let built = std::thread::scope(|scope| {
        let build = || vocabulary.compiled(lark()?);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, build);
        thread.map(|thread| thread.join())
    });
    match built {
        Ok(Ok(built)) => built,
        Ok(Err(_)) => Err(GrammarError::TooLarge("its compilation failed".to_owned())),
        Err(e) => Err(GrammarError::TooLarge(format!("no thread to compile it: {e}"))),
    }
}

fn regex(source: &str) -> Result<String, GrammarError> {
    let wrong = |what: String| GrammarError::Regex { regex: short(source), what };
    let pattern = Pattern::new(source).map_err(wrong)?;
    let whole = pattern.whole(Spelling::Plain, false).map_err(wrong)?;
    if schema::matches_nothing(&whole).map_err(wrong)? {
        return Err(wrong("no text matches it".to_owned()));
    }
    Ok(format!("start: /{whole}/"))
}

fn choice(choices: &[String]) -> Result<String, GrammarError> {
    if choices.is_empty() {
        return Err(GrammarError::Choice("there are none: give at least one".to_owned()));
    }
    if let Some(i) = choices.iter().position(String::is_empty) {
        return Err(GrammarError::Choice(format!("number {} is empty", i + 1)));
    }
    if choices.iter().map(String::len).sum::<usize>() > LONGEST {
        return Err(GrammarError::TooLarge(format!("the choices have more than {LONGEST} bytes")));
    }
    let all: Vec<String> = choices.iter().map(|c| schema::literal(c)).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}", all.join(" | ")))
}

/// Refuses what would take the library long, or much of the stack.
fn bounded(source: &str) -> Result<(), GrammarError> {
    let large = |what: String| Err(GrammarError::TooLarge(what));
    if source.len() > LONGEST {
        return large(format!("it has {} bytes: at most {LONGEST} are read", source.len()));
    }
    let lines = source.lines().filter(|l| l.contains(':')).count();
    if lines > MOST_RULES {
        return large(format!("it has {lines} rules: at most {MOST_RULES} are read"));
    }
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for c in source.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (_, '\n') => quote = None,
            (Some(q), _) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '/') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return large(format!("its brackets are nested deeper than {DEEPEST}"));
        }
    }
    Ok(())
}
