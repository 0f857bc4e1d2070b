//! Arguments one by one: each has its key and its value between tags, and the value is written
//! without quotes. What type it has says the tool's schema.
use super::Tools;
use super::machine::Run;
use super::schema::{Types, typed};
use super::tape::{Found, Markup, Match, Tape};
use serde_json::Value;

/// The tags of one argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Params {
    /// Begins a key.
    pub open: &'static str,
    /// Ends a key.
    pub key_end: &'static str,
    /// Begins the value, after white space or an attribute; empty if the key's end does.
    pub value: &'static str,
    /// Ends the value.
    pub close: &'static str,
    /// What stands on both sides of a value and is not part of it, if it is there.
    pub pad: &'static str,
    /// Attributes between key and value: one that says the value is text, and one that it is JSON.
    pub attributes: Option<(&'static str, &'static str)>,
    /// What stands between a key's end and its value in a constrained call, and after the value.
    pub spaces: (&'static str, &'static str),
    /// Whether text may be in `<![CDATA[…]]>`.
    pub cdata: bool,
}

/// Reads the arguments of one call.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    tags: &'static Params,
    place: Place,
    keys: Vec<String>,
}

#[derive(Clone, Debug)]
enum Place {
    /// Before an argument, or after the last.
    Between,
    Key(String),
    Gap(String),
    /// Before a value.
    Begins(Types),
    /// In a value that is read when it is all there.
    Value(Types, String),
    /// In a text that is passed on as it comes, before or after its pad.
    Text(bool),
    /// In a quoted text, or after it.
    Quoted(String, Option<String>),
}

/// What is read, what for, and where to.
pub(crate) struct Reading<'a> {
    pub tape: &'a mut Tape,
    pub markup: &'a Markup,
    pub tools: &'a Tools,
    /// The tool that is called.
    pub tool: &'a str,
    pub raw: &'a mut String,
    pub json: &'a mut String,
}

impl Reading<'_> {
    fn take(&mut self, bytes: usize) -> String {
        let text = self.tape.take(bytes);
        self.raw.push_str(&text);
        text
    }
    /// Moves the text before `end` to `text`, and takes `end`.
    fn until(&mut self, end: &str, text: &mut String) -> Result<(), Run> {
        let found = self.tape.find(&[end], self.markup);
        let (Found::At(at, _) | Found::NotBefore(at)) = found;
        text.push_str(&self.take(at));
        match found {
            Found::NotBefore(_) => Err(Run::Waits),
            Found::At(..) => {
                self.take(end.len());
                Ok(())
            }
        }
    }
    /// Takes a tag if it is next.
    fn takes(&mut self, tag: &str) -> Result<bool, Run> {
        match self.tape.starts(tag, self.markup) {
            Match::Maybe => Err(Run::Waits),
            Match::Yes => {
                self.take(tag.len());
                Ok(true)
            }
            Match::No => Ok(false),
        }
    }
    fn quote(&mut self, text: &str) {
        self.json.push_str(&Value::from(text).to_string());
    }
}

impl Arguments {
    pub fn new(tags: &'static Params) -> Arguments {
        Arguments { tags, place: Place::Between, keys: Vec::new() }
    }
    /// Reads on.
    pub fn run(&mut self, reading: &mut Reading) -> Run {
        loop {
            match self.step(reading) {
                Ok(true) => return Run::Done,
                Ok(false) => {}
                Err(run) => return run,
            }
        }
    }
    /// True after the last argument.
    fn step(&mut self, r: &mut Reading) -> Result<bool, Run> {
        let tags = self.tags;
        let next = match &mut self.place {
            Place::Between => {
                if !r.tape.skip_space(r.raw) {
                    return Err(Run::Waits);
                }
                if !r.takes(tags.open)? {
                    r.json.push_str(if self.keys.is_empty() { "{}" } else { "}" });
                    return if r.tape.text().is_empty() { Err(Run::Failed) } else { Ok(true) };
                }
                Place::Key(String::new())
            }
            Place::Key(key) => {
                r.until(tags.key_end, key)?;
                let key = key.trim().to_owned();
                self.begin(key, r)?
            }
            Place::Gap(gap) => {
                if !tags.value.is_empty() {
                    r.until(tags.value, gap)?;
                }
                let key = self.keys.last().map_or("", String::as_str);
                match (gap.trim(), tags.attributes) {
                    ("", _) => Place::Begins(r.tools.types(r.tool, key)),
                    (said, Some((text, _))) if said == text => Place::Begins(Types::STRING),
                    (said, Some((_, json))) if said == json => Place::Begins(Types::NOT_STRING),
                    _ => return Err(Run::Failed),
                }
            }
            value => value_step(tags, value, r)?,
        };
        self.place = next;
        Ok(false)
    }
    /// At a key, which may come once.
    fn begin(&mut self, key: String, r: &mut Reading) -> Result<Place, Run> {
        if key.is_empty() || self.keys.contains(&key) {
            return Err(Run::Failed);
        }
        r.json.push_str(if self.keys.is_empty() { "{" } else { "," });
        r.quote(&key);
        r.json.push(':');
        self.keys.push(key);
        Ok(Place::Gap(String::new()))
    }
}

/// From a value's place to the next.
fn value_step(tags: &Params, place: &mut Place, r: &mut Reading) -> Result<Place, Run> {
    Ok(match place {
        Place::Begins(_) if tags.cdata && r.takes(CDATA)? => Place::Quoted(String::new(), None),
        Place::Begins(types) if *types == Types::STRING => {
            r.json.push('"');
            Place::Text(false)
        }
        Place::Begins(types) => Place::Value(*types, String::new()),
        Place::Value(types, text) => {
            r.until(tags.close, text)?;
            let inner = text.strip_prefix(tags.pad).unwrap_or(text);
            let inner = inner.strip_suffix(tags.pad).unwrap_or(inner);
            r.json.push_str(&typed(inner, *types));
            Place::Between
        }
        Place::Text(begun) => {
            if !*begun {
                r.takes(tags.pad)?;
                *begun = true;
            }
            text(tags, r)?;
            Place::Between
        }
        Place::Quoted(text, None) => {
            r.until("]]>", text)?;
            Place::Quoted(std::mem::take(text), Some(String::new()))
        }
        Place::Quoted(text, Some(after)) => {
            r.until(tags.close, after)?;
            if !after.trim().is_empty() {
                return Err(Run::Failed);
            }
            r.quote(text);
            Place::Between
        }
        Place::Between | Place::Key(_) | Place::Gap(_) => return Err(Run::Failed),
    })
}

const CDATA: &str = "<![CDATA[";

/// Passes a text on, as far as it is certain.
fn text(tags: &Params, r: &mut Reading) -> Result<(), Run> {
    let found = r.tape.find(&[tags.close], r.markup);
    let (Found::At(at, _) | Found::NotBefore(at)) = found;
    // The pad before the end waits with the end.
    let padded = !tags.pad.is_empty() && r.tape.text()[..at].ends_with(tags.pad);
    let text = r.take(if padded { at - tags.pad.len() } else { at });
    let quoted = Value::from(text).to_string();
    r.json.push_str(&quoted[1..quoted.len() - 1]);
    match found {
        Found::NotBefore(_) => Err(Run::Waits),
        Found::At(..) => {
            r.take(tags.close.len() + if padded { tags.pad.len() } else { 0 });
            r.json.push('"');
            Ok(())
        }
    }
}
