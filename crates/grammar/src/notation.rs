//! How values are written: as JSON, or in a notation that calls of tools have. A notation is what
//! stands around objects, keys, items and strings; the grammar of a schema is written in any.
use crate::schema::Spacing;

/// A part of what stands around something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// This text.
    Text(String),
    /// This token.
    Token(u32),
    /// The key of the value that it stands around.
    Key,
}

/// How values are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notation {
    /// What is around objects and their values.
    pub object: Frame,
    /// What is around lists and their items.
    pub list: Frame,
    /// How strings are quoted, and with it how words are spelled.
    pub quotes: Quotes,
    /// How keys are spelled.
    pub keys: Keys,
    /// Texts that no string and no key has, because they would end more than it.
    pub without: Vec<String>,
}

/// What is around an object or a list, and around each value in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Before the first value.
    pub open: Vec<Mark>,
    /// Between values.
    pub between: Vec<Mark>,
    /// Before each value.
    pub before: Vec<Mark>,
    /// After each value.
    pub after: Vec<Mark>,
    /// After the last value.
    pub close: Vec<Mark>,
    /// Strings have no quotes in it.
    pub bare: Option<Bare>,
    /// Only properties that the schema names are in it.
    pub named: bool,
}

/// Strings without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bare {
    /// What stands between every value and its end.
    pub pad: String,
    /// The text or token that ends every value; what is after values comes then.
    pub end: Mark,
    /// Before a string, where that tells it from other values.
    pub before: Option<Vec<Mark>>,
    /// The keys whose values are read as text, or as text or nothing (`null`); all, if none.
    pub keys: Option<Vec<String>>,
    /// Texts that a string may stand between as well.
    pub fence: Option<(String, String)>,
}

/// How strings are quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quotes {
    /// As in JSON.
    Json,
    /// As in Python, which has other words too.
    Python,
    /// The text itself, between a mark and another.
    Marks(Mark, Mark),
}

/// How keys are spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// As strings of JSON are.
    Quoted,
    /// As they are: letters, digits, `_` and these characters.
    Plain(String),
}

impl Notation {
    /// JSON.
    pub fn json(spacing: Spacing) -> Notation {
        let text = |text: &str| vec![Mark::Text(text.to_owned())];
        let frame = |open, close| {
            let (open, close, between) = (text(open), text(close), text(spacing.comma()));
            Frame { open, between, close, ..Frame::default() }
        };
        let before = vec![Mark::Key, Mark::Text(spacing.colon().to_owned())];
        Notation {
            object: Frame { before, ..frame("{", "}") },
            list: frame("[", "]"),
            quotes: Quotes::Json,
            keys: Keys::Quoted,
            without: Vec::new(),
        }
    }

    /// Whether a token ends strings.
    pub(crate) fn ends_by_token(&self) -> bool {
        let bare = [&self.object, &self.list].into_iter().filter_map(|frame| frame.bare.as_ref());
        let quoted = match &self.quotes {
            Quotes::Marks(_, end) => Some(end),
            _ => None,
        };
        bare.map(|bare| &bare.end).chain(quoted).any(|end| matches!(end, Mark::Token(_)))
    }
}

impl Keys {
    /// A key as it is written, if it can be.
    pub(crate) fn spelled(&self, key: &str) -> Option<String> {
        match self {
            Keys::Quoted => Some(serde_json::Value::from(key).to_string()),
            Keys::Plain(more) => {
                let plain = |c: char| c.is_alphanumeric() || c == '_' || more.contains(c);
                (!key.is_empty() && key.chars().all(plain)).then(|| key.to_owned())
            }
        }
    }
}
