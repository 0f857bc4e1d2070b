//! Which tags, messages and calls a model writes: found from its template.
//!
//! A template that prints past calls is asked to print some, and the syntax that reads the same
//! calls back is the model's. One that does not is known by the text that teaches the syntax.
use super::{Channels, Delta, Reader, Reply, Tags};
use crate::chat::{Chat, Content, Function, Message, Role, Tool, ToolCall};
use crate::template::{DateTime, Template};
use crate::tools::{Markup, SYNTAXES, Syntax, Tools};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::sync::Arc;

/// How a model writes its answers.
#[derive(Clone, Debug, Default)]
pub struct Format {
    /// How it writes calls; none if its template knows none.
    pub syntax: Option<&'static Syntax>,
    /// How it marks thoughts.
    pub thinking: Option<&'static Tags>,
    /// How it writes messages, if an answer is several.
    pub channels: Option<&'static Channels>,
    /// Whether its template shows it the tools there are.
    pub shows_tools: bool,
    /// How many past calls of one answer its template shows it: 0, 1, or 2 for any number.
    pub shows_calls: usize,
    /// Whether its template refuses a message of thoughts, text and a call all at once.
    pub one_or_other: bool,
    markup: Arc<Markup>,
}

impl Format {
    /// Of its parts. `tokens` gives the byte ranges of a text that are control tokens of the model's
    /// tokenizer or, if the second argument is true, any tokens added to its vocabulary: tags of calls
    /// that are control tokens, and other tags that are added tokens, are read by their ids alone.
    pub fn new(
        syntax: Option<&'static Syntax>,
        thinking: Option<&'static Tags>,
        channels: Option<&'static Channels>,
        tokens: impl Fn(&str, bool) -> Vec<Range<usize>>,
    ) -> Format {
        let calls = syntax.map(Syntax::tags).unwrap_or_default().into_iter();
        let thoughts = thinking.into_iter().flat_map(Tags::all);
        let messages = channels.into_iter().flat_map(Channels::all);
        let others = thoughts.chain(messages).map(|tag| (tag, tokens(tag, true)));
        let calls = calls.map(|tag| (tag, tokens(tag, false)));
        let markup = Arc::new(Markup::new(calls.chain(others)));
        let (shows_tools, shows_calls) = (syntax.is_some(), 2 * usize::from(syntax.is_some()));
        let one_or_other = false;
        Format { syntax, thinking, channels, shows_tools, shows_calls, one_or_other, markup }
    }
    /// Of a template.
    pub fn of(template: &Template, tokens: impl Fn(&str, bool) -> Vec<Range<usize>>) -> Format {
        let source = template.source();
        let (thinking, channels) = (Tags::of(source), Channels::of(source));
        let printed = probed(template, thinking, channels);
        let syntax = printed.map(|(syntax, _)| syntax).or_else(|| {
            SYNTAXES.iter().copied().find(|s| s.marks.iter().all(|mark| source.contains(mark)))
        });
        let shows_calls = printed.map_or(0, |(_, count)| count);
        let shows_tools = shows_tools(template);
        let one_or_other = shows_calls > 0 && one_or_other(template);
        Format {
            shows_tools,
            shows_calls,
            one_or_other,
            ..Format::new(syntax, thinking, channels, tokens)
        }
    }
    /// A conversation as the template can show it. Past calls that it would leave out are part of
    /// what was said, in the model's own syntax; where it takes one call at a time, several are
    /// several messages, each with its result. Where it takes no thoughts, text and calls all in one
    /// message, the text is part of the thoughts.
    ///
    /// # Errors
    /// Tools or calls that the model would not get to see.
    pub fn admit(&self, mut chat: Chat) -> Result<Chat, FormatError> {
        let able = self.shows_tools && self.syntax.is_some();
        if !able && !chat.tools.is_empty() {
            return Err(FormatError::Tools);
        }
        if self.shows_calls == 0 {
            chat.messages.iter_mut().try_for_each(|message| self.say_calls(message))?;
        } else if self.shows_calls == 1 {
            chat.messages = one_by_one(chat.messages);
        }
        if self.one_or_other {
            chat.messages.iter_mut().for_each(think_what_is_said);
        }
        Ok(chat)
    }
    fn say_calls(&self, message: &mut Message) -> Result<(), FormatError> {
        let calls = std::mem::take(&mut message.tool_calls);
        if calls.is_empty() {
            return Ok(());
        }
        let object = |call: &ToolCall| {
            let name = || FormatError::Arguments(call.function.name.clone());
            call.function.object().ok_or_else(name)
        };
        let objects: Vec<Map<String, Value>> =
            calls.iter().map(object).collect::<Result<_, _>>()?;
        let pairs = calls.iter().zip(&objects);
        let pairs: Vec<_> =
            pairs.map(|(call, object)| (call.function.name.as_str(), object)).collect();
        let text = self.syntax.and_then(|syntax| syntax.write(&pairs));
        let said = message.content.as_ref().map(Content::text).unwrap_or_default();
        message.content = Some(Content::Text(said + &text.ok_or(FormatError::Calls)?));
        Ok(())
    }
    /// The text that ends thoughts, and begins an answer or, if one must be made, a call. None if
    /// there are no thoughts.
    pub fn end_of_thoughts(&self, call: bool) -> Option<&'static str> {
        let message = self.channels.map(|c| c.call.filter(|_| call).unwrap_or(c.answer));
        message.or(self.thinking.map(|tags| tags.close))
    }
    /// The tokens that a [`Reader`] must be told of by name.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.markup.tokens()
    }
    pub(crate) fn markup(&self) -> Arc<Markup> {
        self.markup.clone()
    }
}

/// Each call in a message of its own, and its result after it: the one that names it, or else the
/// next.
fn one_by_one(messages: Vec<Message>) -> Vec<Message> {
    let mut out = Vec::new();
    let mut messages = messages.into_iter().peekable();
    while let Some(mut message) = messages.next() {
        if message.tool_calls.len() < 2 {
            out.push(message);
            continue;
        }
        let mut results = Vec::new();
        while let Some(result) = messages.next_if(|next| next.role == Role::Tool) {
            results.push(result);
        }
        for call in std::mem::take(&mut message.tool_calls) {
            let named =
                results.iter().position(|r| r.tool_call_id.is_some() && r.tool_call_id == call.id);
            let at = named.or_else(|| results.iter().position(|r| r.tool_call_id.is_none()));
            out.push(Message { tool_calls: vec![call], ..message });
            out.extend(at.map(|at| results.remove(at)));
            // What was said and thought comes before the first.
            message = Message { content: None, ..Message::new(Role::Assistant, "") };
        }
        out.extend(results);
    }
    out
}

/// Joins what is said before a call to the thoughts, if there are both.
fn think_what_is_said(message: &mut Message) {
    let said = message.content.as_ref().map(Content::text).filter(|text| !text.is_empty());
    if let (false, Some(thought), Some(said)) =
        (message.tool_calls.is_empty(), &mut message.reasoning_content, said)
        && !thought.is_empty()
    {
        *thought += "\n\n";
        *thought += &said;
        message.content = None;
    }
}

/// What a template can't show its model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The template prints no tools, or none is known to be called by what it prints.
    #[error(
        "the model's chat template has no place for tools: take a model that was trained to call \
         them, or describe them in the system message and read the answer's text"
    )]
    Tools,
    /// A past call whose arguments are no object, where the template would not print it.
    #[error(
        "a past call of '{0}' has arguments that are no JSON object: send what the call was made with"
    )]
    Arguments(String),
    /// The template prints no calls, and how the model writes them is not known.
    #[error(
        "the model's chat template leaves out calls of tools: put them in the messages' content"
    )]
    Calls,
}

/// Any time.
const NOW: DateTime = DateTime { year: 2025, month: 1, day: 1, hour: 0, minute: 0, second: 0 };

fn probe_tools() -> Vec<Tool> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let properties = json!({"colour": text("A colour."), "count": {"type": "integer",
        "description": "How many."}, "exact": {"type": "boolean", "description": "Exactly?"}});
    let parameters = json!({"type": "object", "properties": properties, "required": ["colour"]});
    let other = json!({"type": "object", "properties": {"names": {"type": "array", "description":
        "Names.", "items": text("A name.")}}, "required": ["names"]});
    vec![
        Tool::function("paint_probe", "Paints.", parameters),
        Tool::function("list_probe", "Lists.", other),
    ]
}

fn probe_calls() -> Vec<(&'static str, Value)> {
    vec![
        ("paint_probe", json!({"colour": "deep blue", "count": 3, "exact": true})),
        ("list_probe", json!({"names": ["a", "b c"]})),
    ]
}

/// The syntax that reads back the calls that the template prints, and how many it prints: two, or one;
/// with no text beside them, or with nothing for it.
fn probed(
    template: &Template,
    thinking: Option<&'static Tags>,
    channels: Option<&'static Channels>,
) -> Option<(&'static Syntax, usize)> {
    let tools = Arc::new(Tools::new(&probe_tools()));
    let calls = probe_calls();
    for (count, content) in [(2, Some("")), (2, None), (1, Some("")), (1, None)] {
        let Some((prompt, text)) = written(template, content, &calls[..count]) else { continue };
        let reads = |syntax: &&&'static Syntax| {
            let format = Format::new(Some(**syntax), thinking, channels, |_, _| Vec::new());
            let mut reader = Reader::new(&format, tools.clone(), &prompt);
            let mut deltas = reader.push(&text);
            deltas.extend(reader.finish(false));
            same(&deltas, &calls[..count])
        };
        let mut possible = SYNTAXES.iter().filter(|syntax| {
            !syntax.by_message() || channels.is_some_and(|c| c.syntax == syntax.name)
        });
        if let Some(syntax) = possible.find(reads) {
            return Some((*syntax, count));
        }
    }
    None
}

fn same(deltas: &[Delta], calls: &[(&str, Value)]) -> bool {
    let read = deltas.iter().collect::<Reply>().calls;
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    read.len() == calls.len()
        && read.iter().zip(calls).all(|((name, arguments), (called, value))| {
            name == called && json(arguments).as_ref() == Some(value)
        })
}

/// The prompt that asks for an answer, and what the template prints for an answer of calls.
fn written(
    template: &Template,
    content: Option<&str>,
    calls: &[(&str, Value)],
) -> Option<(String, String)> {
    let mut chat = asked();
    let prompt = template.render(&chat, NOW).ok()?.text;
    chat.messages.push(answer(content, calls));
    chat.add_generation_prompt = false;
    let whole = template.render(&chat, NOW).ok()?.text;
    let same = |(a, b): &(char, char)| a == b;
    let pairs = prompt.chars().zip(whole.chars()).take_while(same);
    let common: usize = pairs.map(|(c, _)| c.len_utf8()).sum();
    // Not inside of a tag: two may begin with the same letters.
    let tag = prompt[..common].rfind('<').filter(|at| !prompt[*at..common].contains('>'));
    let (before, after) = whole.split_at(tag.unwrap_or(common));
    Some((before.to_owned(), after.to_owned()))
}

/// A conversation that asks for an answer of calls.
fn asked() -> Chat {
    let messages = vec![Message::new(Role::User, "Paint and list.")];
    Chat { messages, tools: probe_tools(), add_generation_prompt: true, ..Chat::default() }
}

fn answer(content: Option<&str>, calls: &[(&str, Value)]) -> Message {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| ToolCall {
        id: Some(format!("probe000{index}")),
        function: Function { name: (*name).to_owned(), arguments: arguments.clone() },
    };
    Message {
        content: content.map(|text| Content::Text(text.to_owned())),
        tool_calls: calls.iter().enumerate().map(call).collect(),
        ..Message::new(Role::Assistant, "")
    }
}

/// Whether the template takes thoughts with a call, and text with a call, but not both.
fn one_or_other(template: &Template) -> bool {
    let prints = |said: Option<&str>, thought: Option<&str>| {
        let reasoning_content = thought.map(str::to_owned);
        let message = Message { reasoning_content, ..answer(said, &probe_calls()[..1]) };
        let mut chat = asked();
        chat.messages.push(message);
        template.render(&chat, NOW).is_ok()
    };
    prints(None, Some("Blue.")) && !prints(Some("So."), Some("Blue."))
}

/// Whether tools change what the template prints.
fn shows_tools(template: &Template) -> bool {
    let mut chat = asked();
    let with = template.render(&chat, NOW).map(|prompt| prompt.text);
    chat.tools.clear();
    let without = template.render(&chat, NOW).map(|prompt| prompt.text);
    with.is_ok_and(|text| text.contains("paint_probe") && without.as_ref().ok() != Some(&text))
}
