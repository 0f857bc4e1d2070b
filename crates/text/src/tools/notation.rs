//! How arguments are written in a call, for whoever constrains one: what stands around objects, keys,
//! values and strings. Plain data; JSON is one of these notations.
use super::schema::{Types, property_types};
use super::{Declared, Params};
use serde_json::Value;

/// How values are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notation {
    /// What is around objects and their values.
    pub object: Frame,
    /// What is around lists and their items.
    pub list: Frame,
    /// How strings are quoted, and words spelled.
    pub quotes: Quotes,
    /// How keys are spelled.
    pub keys: Keys,
    /// Texts that no string and no key has: they would end more than it.
    pub without: Vec<String>,
}

/// What is around an object or a list, and around each value in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Before the first value.
    pub open: String,
    /// Between values.
    pub between: String,
    /// Before a value: before its key, and after that. Items of a list have no key.
    pub before: [String; 2],
    /// After a value; with a second part, the key is told again between the two.
    pub after: (String, Option<String>),
    /// After the last value.
    pub close: String,
    /// Strings have no quotes in it.
    pub bare: Option<Bare>,
    /// Only properties that the schema names are in it.
    pub named: bool,
}

/// Strings without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bare {
    /// Between every value and its end.
    pub pad: String,
    /// Ends every value; what is after values comes then.
    pub end: String,
    /// What is before a value, if that tells strings from others.
    pub before: Option<[String; 2]>,
    /// The keys whose values are read as text, or as text or nothing; all, if none.
    pub keys: Option<Vec<String>>,
    /// Texts that a string may stand between as well.
    pub fence: Option<(String, String)>,
}

/// How strings are quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// As in JSON.
    Json,
    /// As in Python.
    Python,
    /// Nothing in them has another meaning, between a text and another.
    Marks(String, String),
}

/// How keys are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// As strings of JSON are.
    Quoted,
    /// As they are: letters, digits, `_` and these characters.
    Plain(String),
}

/// What keys between tags may have.
const KEYS: &str = "-.$@:/# ";

fn frame(open: &str, between: &str, colon: &str, close: &str) -> Frame {
    let [open, between, colon, close] = [open, between, colon, close].map(str::to_owned);
    Frame { open, between, before: [String::new(), colon], close, ..Frame::default() }
}

/// JSON.
pub(super) fn json(without: &[&str]) -> Notation {
    Notation {
        object: frame("{", ", ", ": ", "}"),
        list: frame("[", ", ", "", "]"),
        quotes: Quotes::Json,
        keys: Keys::Quoted,
        without: without.iter().map(|text| (*text).to_owned()).collect(),
    }
}

/// Arguments as Python has them, and Python's literals in them.
pub(super) fn python(without: &[&str]) -> Vec<Notation> {
    let inner = Notation { quotes: Quotes::Python, ..json(without) };
    let object = Frame { named: true, ..frame("", ", ", "=", "") };
    let keys = Keys::Plain("-.".into());
    vec![Notation { object, keys, ..inner.clone() }, inner]
}

/// JSON with bare keys, and `quote` around strings.
pub(super) fn bare_keys(quote: &str, without: &[&str]) -> Vec<Notation> {
    let quotes = Quotes::Marks(quote.to_owned(), quote.to_owned());
    vec![Notation {
        object: frame("{", ",", ":", "}"),
        list: frame("[", ",", "", "]"),
        quotes,
        keys: Keys::Plain("-.$".into()),
        ..json(without)
    }]
}

/// Elements by keys, and of lists by `item`, all the way down: each tag is after `mark`.
pub(super) fn elements(mark: &str, item: &str) -> Vec<Notation> {
    let bare =
        Bare { pad: String::new(), end: mark.to_owned(), before: None, keys: None, fence: None };
    let inside = |before: [String; 2], after| Frame {
        before,
        after,
        bare: Some(bare.clone()),
        ..Frame::default()
    };
    let open = [format!("{mark}<"), ">".to_owned()];
    vec![Notation {
        object: inside(open, ("</".to_owned(), Some(">".to_owned()))),
        list: inside([format!("{mark}<{item}>"), String::new()], (format!("</{item}>"), None)),
        keys: Keys::Plain("-.$".into()),
        ..json(&[mark])
    }]
}

/// Each value between tags: text as it is, and what is no text as JSON.
pub(super) fn tagged(tags: &Params, tool: &Declared) -> Vec<Notation> {
    let (gap, after) = tags.spaces;
    let before = |attribute: Option<&str>| {
        let attribute = attribute.map_or(String::new(), |a| format!(" {a}"));
        let Params { open, key_end, value, pad, .. } = tags;
        [(*open).to_owned(), format!("{key_end}{attribute}{gap}{value}{pad}")]
    };
    let text = |key: &&String| {
        let types = property_types(&tool.parameters, key);
        types.is_some_and(|types| types.within_all(Types::TEXT_OR_NULL))
    };
    let declared = tool.parameters.get("properties").and_then(Value::as_object);
    let keys = declared.into_iter().flat_map(|all| all.keys()).filter(text).cloned();
    let bare = Bare {
        pad: tags.pad.to_owned(),
        end: tags.close.to_owned(),
        before: tags.attributes.map(|(text, _)| before(Some(text))),
        keys: tags.attributes.is_none().then(|| keys.collect()),
        fence: tags.cdata.then(|| ("<![CDATA[".to_owned(), "]]>".to_owned())),
    };
    let object = Frame {
        before: before(tags.attributes.map(|(_, json)| json)),
        after: (after.to_owned(), None),
        bare: Some(bare),
        named: true,
        ..Frame::default()
    };
    let inner = json(&[tags.close]);
    vec![Notation { object, keys: Keys::Plain(KEYS.to_owned()), ..inner.clone() }, inner]
}
