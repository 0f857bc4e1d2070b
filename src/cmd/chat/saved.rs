//! A conversation in a file: JSON with a version, read whole or not at all. It has what is said, and how
//! answers are chosen, so that going on from it is going on.
use rinfer_engine::batch::TokenId;
use rinfer_engine::sample::{Sampling, Think};
use rinfer_grammar::{Grammar, Spacing};
use rinfer_text::chat::{Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: &str = "rinfer conversation";
const VERSION: u32 = 1;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// A conversation.
#[derive(Debug, PartialEq)]
pub struct Saved {
    /// What the model was called.
    pub model: String,
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub sampling: Sampling,
}

/// Why a file was not written or read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct Refused {
    file: String,
    problem: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    model: String,
    system: Option<String>,
    messages: Vec<Message>,
    sampling: Chosen,
}

/// [`Sampling`], by the names of its flags.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    repeat_penalty: f32,
    repeat_last_n: usize,
    presence_penalty: f32,
    frequency_penalty: f32,
    seed: u64,
    max_tokens: Option<usize>,
    stop: Vec<String>,
    /// `ID=BIAS`, as the flag has it: JSON has no infinity.
    logit_bias: Vec<String>,
    think: Thinks,
    think_budget: Option<usize>,
    form: Option<Form>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Thinks {
    Auto,
    On,
    Off,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    JsonObject,
    Schema(Value),
    Regex(String),
    Choice(Vec<String>),
    Gbnf(String),
    Lark(String),
}

impl Saved {
    /// Writes the conversation, whole or not at all. A file that holds something else is left alone.
    ///
    /// # Errors
    /// Such a file, a form of answers that has no name, and those of writing.
    pub fn write(&self, path: &Path) -> Result<(), Refused> {
        let refused = refused(path);
        if path.exists() && !begins_as_ours(path) {
            return Err(refused("it holds something else: take another name".into()));
        }
        let file = File {
            format: FORMAT.into(),
            version: VERSION,
            model: self.model.clone(),
            system: self.system.clone(),
            messages: self.messages.clone(),
            sampling: Chosen::of(&self.sampling).ok_or_else(|| {
                refused("answers have a form that can't be written: /json off ends it".into())
            })?,
        };
        let text = serde_json::to_string_pretty(&file).map_err(|e| refused(e.to_string()))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let written = std::fs::File::create_new(&part).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&part, path)
        });
        written.map_err(|e| {
            // The cause is what is told.
            let _ = std::fs::remove_file(&part);
            refused(e.to_string())
        })
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// A file that is damaged, another version's, or no conversation, with the place.
    pub fn read(path: &Path) -> Result<Saved, Refused> {
        let refused = refused(path);
        let size = std::fs::metadata(path).map_err(|e| refused(e.to_string()))?.len();
        if size > LARGEST || !begins_as_ours(path) {
            let what =
                format!("it is no conversation: /save writes JSON with \"format\": \"{FORMAT}\"");
            return Err(refused(what));
        }
        let damaged = |e: serde_json::Error| refused(format!("it is damaged: {e}"));
        let text = std::fs::read_to_string(path).map_err(|e| refused(e.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(damaged)?;
        let (format, version) = (&value["format"], &value["version"]);
        if format != FORMAT {
            return Err(refused(format!("it is no conversation: its format is {format}")));
        }
        if *version != VERSION {
            let what = format!(
                "its version is {version}, and this program reads {VERSION}: take a newer rinfer"
            );
            return Err(refused(what));
        }
        let file: File = serde_json::from_str(&text).map_err(damaged)?;
        // What a message has besides is not told by its type.
        if serde_json::to_value(&file.messages).ok().as_ref() != value.get("messages") {
            return Err(refused("it is damaged: a message has fields that none has".into()));
        }
        in_turn(&file.messages).map_err(&refused)?;
        let sampling = file.sampling.sampling().map_err(&refused)?;
        let File { model, system, messages, .. } = file;
        Ok(Saved { model, system, messages, sampling })
    }
}

/// A path as a person types it: `~` is their folder.
pub fn expanded(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
            home.join(rest.trim_start_matches(['/', '\\']))
        }
        _ => path.into(),
    }
}

fn refused(path: &Path) -> impl Fn(String) -> Refused {
    let file = path.display().to_string();
    move |problem| Refused { file: file.clone(), problem }
}

/// Whether a file begins as JSON with this format: enough to tell it from what must not be lost.
fn begins_as_ours(path: &Path) -> bool {
    use std::io::Read;
    let mut begin = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut begin));
    let begin: String = String::from_utf8_lossy(&begin).split_whitespace().collect();
    read.is_ok() && begin.starts_with("{\"format\":\"")
}

/// A person and the model speak in turn, and the model last.
fn in_turn(messages: &[Message]) -> Result<(), String> {
    for (i, message) in messages.iter().enumerate() {
        let expected = if i % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != expected {
            let (n, found) = (i + 1, message.role);
            return Err(format!("it is damaged: message {n} is of {found:?}, not {expected:?}"));
        }
        if message.content.is_none() {
            return Err(format!("it is damaged: message {} has no content", i + 1));
        }
    }
    match messages.len() % 2 {
        0 => Ok(()),
        _ => Err("it is damaged: the last message has no answer".into()),
    }
}

impl Chosen {
    fn of(s: &Sampling) -> Option<Chosen> {
        Some(Chosen {
            temperature: s.temperature,
            top_k: s.top_k,
            top_p: s.top_p,
            min_p: s.min_p,
            repeat_penalty: s.repeat_penalty,
            repeat_last_n: s.repeat_last_n,
            presence_penalty: s.presence_penalty,
            frequency_penalty: s.frequency_penalty,
            seed: s.seed,
            max_tokens: s.max_tokens,
            stop: s.stop.clone(),
            logit_bias: s.logit_bias.iter().map(|(id, bias)| format!("{}={bias}", id.0)).collect(),
            think: match s.think {
                Think::Auto => Thinks::Auto,
                Think::On => Thinks::On,
                Think::Off => Thinks::Off,
            },
            think_budget: s.think_budget,
            form: match s.grammar.as_deref() {
                None => None,
                Some(Grammar::Object(_)) => Some(Form::JsonObject),
                Some(Grammar::Schema(schema, _)) => Some(Form::Schema(schema.clone())),
                Some(Grammar::Regex(text)) => Some(Form::Regex(text.clone())),
                Some(Grammar::Choice(texts)) => Some(Form::Choice(texts.clone())),
                Some(Grammar::Gbnf(text)) => Some(Form::Gbnf(text.clone())),
                Some(Grammar::Lark(text)) => Some(Form::Lark(text.clone())),
                Some(_) => return None,
            },
        })
    }

    fn sampling(self) -> Result<Sampling, String> {
        let bias = |text: String| crate::cmd::options::bias(&text);
        let logit_bias = self.logit_bias.into_iter().map(bias).collect::<Result<Vec<_>, _>>();
        let logit_bias = logit_bias.map_err(|e| format!("it is damaged: logit_bias: {e}"))?;
        let grammar = self.form.map(|form| match form {
            Form::JsonObject => Grammar::Object(Spacing::default()),
            Form::Schema(schema) => Grammar::Schema(schema, Spacing::default()),
            Form::Regex(text) => Grammar::Regex(text),
            Form::Choice(texts) => Grammar::Choice(texts),
            Form::Gbnf(text) => Grammar::Gbnf(text),
            Form::Lark(text) => Grammar::Lark(text),
        });
        let sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: logit_bias.into_iter().map(|(id, bias)| (TokenId(id), bias)).collect(),
            seed: self.seed,
            max_tokens: self.max_tokens,
            stop: self.stop,
            grammar: grammar.map(Arc::new),
            think: match self.think {
                Thinks::Auto => Think::Auto,
                Thinks::On => Think::On,
                Thinks::Off => Think::Off,
            },
            think_budget: self.think_budget,
            ..Sampling::default()
        };
        sampling.check(usize::MAX).map_err(|e| format!("its sampling is refused: {e}"))?;
        Ok(sampling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn saved() -> Saved {
        let mut answer = Message::new(Role::Assistant, "Hello \u{1b}[1m \"you\"\n");
        answer.reasoning_content = Some("Hm.".into());
        let sampling = Sampling {
            temperature: 0.1,
            top_p: 0.123_456_79,
            seed: u64::MAX,
            logit_bias: vec![(TokenId(3), f32::NEG_INFINITY), (TokenId(4), -0.1)],
            stop: vec!["END".into()],
            max_tokens: Some(7),
            think: Think::Off,
            grammar: Some(Arc::new(Grammar::Schema(
                json!({"type": "object", "properties": {"b": {}, "a": {}}}),
                Spacing::default(),
            ))),
            ..Sampling::default()
        };
        Saved {
            model: "m.gguf".into(),
            system: Some("Be brief".into()),
            messages: vec![Message::new(Role::User, "Hi 👩‍🚀"), answer],
            sampling,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rinfer-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let folder = folder("saved");
        let path = folder.join("c.json");
        saved().write(&path).unwrap();
        assert_eq!(Saved::read(&path).unwrap(), saved());
        // Again, over itself; and nothing else is left.
        saved().write(&path).unwrap();
        assert_eq!(folder.read_dir().unwrap().count(), 1);
        for grammar in [
            Grammar::Object(Spacing::default()),
            Grammar::Regex("a|b".into()),
            Grammar::Choice(vec!["a".into()]),
            Grammar::Gbnf("root ::= \"a\"".into()),
            Grammar::Lark("start: \"a\"".into()),
        ] {
            let mut other = saved();
            other.sampling.grammar = Some(Arc::new(grammar));
            other.write(&path).unwrap();
            assert_eq!(Saved::read(&path).unwrap(), other);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_damaged_or_foreign_is_refused() {
        let folder = folder("refused");
        let path = folder.join("c.json");
        saved().write(&path).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        let check = |text: &str, says: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Saved::read(&path).unwrap_err().to_string();
            assert!(error.contains("c.json") && error.contains(says), "{says}: {error}");
        };
        let trimmed = whole.trim_end().len();
        for at in (0..trimmed).filter(|at| whole.is_char_boundary(*at)) {
            check(&whole[..at], "it is ");
        }
        let with = |from: &str, to: &str| {
            assert!(whole.contains(from), "{from}");
            whole.replacen(from, to, 1)
        };
        check(&with("\"version\": 1", "\"version\": 2"), "version is 2");
        check(&with(FORMAT, "x"), "format is \"x\"");
        check(&with("\"top_k\"", "\"top_q\""), "top_q");
        check(&with("\"model\"", "\"extra\": 1, \"model\""), "extra");
        check(&with("\"role\": \"user\"", "\"role\": \"assistant\""), "message 1");
        check(&with("\"role\": \"user\"", "\"rank\": 1, \"role\": \"user\""), "fields");
        check(&with("\"3=-inf\"", "\"3\""), "ID=BIAS");
        check(&with("\"top_p\": 0.1", "\"top_p\": 7.1"), "top_p is 7.1");
        check("{}", "no conversation");
        check("GGUF", "no conversation");
        // What is no conversation is not written over.
        std::fs::write(&path, "a letter").unwrap();
        assert!(saved().write(&path).unwrap_err().to_string().contains("something else"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn homes() {
        let check = |path: &str, expect: &str| {
            assert_eq!(expanded(path, Some(Path::new("/h"))), Path::new(expect), "{path}");
        };
        check("~/a b", "/h/a b");
        check("~", "/h/");
        check("~a", "~a");
        check("a/~", "a/~");
    }
}
