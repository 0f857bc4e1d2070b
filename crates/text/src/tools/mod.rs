//! Calls of tools in what a model writes: one syntax a file, and one machine that reads them all.
//!
//! A syntax is a list of [`Op`]s, as short as its description. The machine reads it forward only,
//! character by character: what comes out does not depend on how the text was cut, and nothing is
//! read twice. From the same list calls are written ([`Syntax::write`]) and
//! constrained ([`Syntax::shapes`]).
//!
//! A call is over only when its text is: what is cut off or no call after all ends as
//! [`Delta::Broken`](crate::reply::Delta::Broken), with the text as it was written.
mod apertus;
mod apriel;
mod atem;
mod cohere;
mod deepseek;
mod dsml;
mod firefunction;
mod functionary;
mod gemma;
mod gigachat;
mod glm;
mod granite;
mod harmony;
mod hermes;
mod kimi;
mod lfm2;
mod llama3;
pub(crate) mod machine;
mod minicpm;
mod minimax;
mod mistral;
mod nemotron;
mod notation;
mod object;
mod params;
mod python;
mod qwen3_coder;
mod scan;
mod schema;
mod seed;
mod shape;
mod tables;
pub(crate) mod tape;
mod write;

pub use notation::{Bare, Frame, Keys, Notation, Quotes};
pub use params::Params;
pub use schema::{Declared, Tools};
pub use shape::{Calls, Header, Place, Shape};
pub use tape::Markup;

use serde_json::{Map, Value};

/// All syntaxes. The first that reads back what a template writes is the template's.
pub const SYNTAXES: &[&Syntax] = &[
    &hermes::HERMES,
    &qwen3_coder::QWEN3_CODER,
    &glm::GLM,
    &seed::SEED,
    &mistral::NAMED,
    &mistral::LIST,
    &llama3::LLAMA3,
    &deepseek::FENCED,
    &deepseek::PLAIN,
    &dsml::DSML,
    &kimi::KIMI,
    &cohere::ACTION,
    &cohere::COMMAND_R,
    &harmony::HARMONY,
    &functionary::RECIPIENT,
    &functionary::FUNCTION,
    &firefunction::FIREFUNCTION,
    &gemma::GEMMA,
    &granite::GRANITE,
    &lfm2::LFM2,
    &apertus::APERTUS,
    &apriel::APRIEL,
    &nemotron::NEMOTRON,
    &minimax::M1,
    &minimax::M2,
    &minimax::M3,
    &minicpm::MINICPM,
    &gigachat::GIGACHAT,
    &gigachat::GIGACHAT31,
    &atem::ATEM,
];

/// How a family of models writes calls.
#[derive(Debug)]
pub struct Syntax {
    /// Its name in messages and documents.
    pub name: &'static str,
    /// What models are known to write so.
    pub models: &'static str,
    /// How calls begin, and what they are then.
    pub calls: &'static [(Opening, &'static [Op])],
    /// For templates that don't print past calls: texts that those have which teach this syntax.
    pub marks: &'static [&'static str],
    /// Control tokens that vocabularies for this syntax have.
    pub tokens: &'static [&'static str],
}

/// How a call begins.
#[derive(Clone, Copy, Debug)]
pub enum Opening {
    /// With this text, anywhere in an answer. The [`Op`]s read it again.
    Tag(&'static str),
    /// With this character, where an answer begins or a call before it ended.
    Bare(char),
    /// With the header of a message for a tool, which gives its name.
    Message(&'static Header),
}

/// A part of a call.
#[derive(Clone, Copy)]
pub enum Op {
    /// This text.
    Text(&'static str),
    /// White space, or none. A constrained call has this.
    Space(&'static str),
    /// The function's name, up to a text that is taken too.
    Name(Name),
    /// An object: the arguments.
    Json,
    /// An object that has the name under one of some keys and the arguments under another.
    Object {
        /// Keys of the name; a constrained call has the first.
        name: &'static [&'static str],
        /// Keys of the arguments; a constrained call has the first.
        arguments: &'static [&'static str],
        /// Whether it is a call only if the name is a tool's.
        known: bool,
    },
    /// An object with one key, the name, and one value, the arguments.
    Keyed,
    /// Arguments one by one, each between tags.
    Params(&'static Params),
    /// One or more calls in a notation of their own.
    Whole(Whole),
    /// The call is over.
    End,
    /// These, again and again until a text, which is taken too.
    Until(&'static [Op], &'static str),
    /// A JSON list of these.
    List(&'static [Op]),
}

/// A name between texts.
#[derive(Clone, Copy)]
pub struct Name {
    /// The text that ends it; empty if `before` does.
    pub until: &'static str,
    /// Texts that end it too, but are the next part's.
    pub before: &'static [&'static str],
    /// The name in what was written.
    pub read: fn(&str) -> Option<&str>,
    /// What stands before and after a name in a constrained call, the text that ends it included.
    pub around: (&'static str, &'static str),
}

/// Calls in a notation of their own, which are read when they are all there.
#[derive(Clone, Copy)]
pub struct Whole {
    /// The text that ends them; empty if the answer's end does.
    pub until: &'static str,
    /// The calls in a text, if it is calls.
    pub read: fn(&str, &Tools) -> Option<Vec<Read>>,
    /// Calls as text.
    pub write: fn(&[Call<'_>]) -> String,
    /// What is before, between and after calls; without the second there is only one.
    pub around: (&'static str, Option<&'static str>, &'static str),
    /// What a call of a tool may look like.
    pub shapes: fn(&Declared) -> Vec<Shape>,
}

/// A call that was read: the function, and its arguments as JSON.
pub type Read = (String, String);

/// A call to be written: the function and its arguments, an object.
pub type Call<'a> = (&'a str, &'a Map<String, Value>);

impl Syntax {
    /// The syntax of this name.
    pub fn named(name: &str) -> Option<&'static Syntax> {
        SYNTAXES.iter().copied().find(|syntax| syntax.name == name)
    }
    /// The tools that a model of this syntax knows by itself, of those that its template's variables
    /// name.
    pub fn built_in(&self, vars: &Map<String, Value>) -> Vec<Declared> {
        if self.name == llama3::LLAMA3.name { llama3::built_in(vars) } else { Vec::new() }
    }
    /// Whether a call is a message to the tool.
    pub fn by_message(&self) -> bool {
        self.calls.iter().any(|(opening, _)| matches!(opening, Opening::Message(_)))
    }
    /// The tags that open calls.
    pub(crate) fn openings(&self) -> Vec<&'static str> {
        let tag = |(opening, _): &(Opening, _)| match opening {
            Opening::Tag(tag) => Some(*tag),
            Opening::Bare(_) | Opening::Message(_) => None,
        };
        self.calls.iter().filter_map(tag).collect()
    }
    /// Every text that a call may have as markup.
    pub fn tags(&self) -> Vec<&'static str> {
        let mut tags = self.openings();
        self.calls.iter().for_each(|(_, ops)| gather(ops, &mut tags));
        tags.extend(self.tokens);
        tags.retain(|tag| !tag.is_empty());
        tags
    }
}

fn gather(ops: &'static [Op], tags: &mut Vec<&'static str>) {
    for op in ops {
        match op {
            Op::Text(text) => tags.push(text),
            Op::Name(name) => {
                tags.push(name.until);
                tags.extend(name.before);
            }
            Op::Whole(whole) => tags.push(whole.until),
            Op::Params(p) => tags.extend([p.open, p.key_end, p.value, p.close]),
            Op::Until(body, end) => {
                gather(body, tags);
                tags.push(end);
            }
            Op::List(body) => gather(body, tags),
            Op::Space(_) | Op::Json | Op::Object { .. } | Op::Keyed | Op::End => {}
        }
    }
}

/// A name that stands alone.
pub(crate) fn plain(text: &str) -> Option<&str> {
    let name = text.trim();
    let whole =
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "<>{}\"".contains(c));
    whole.then_some(name)
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Op")
    }
}
