//! Thoughts apart from answers: in all tags, however the text is cut, and by tokens where the tags are.
#![allow(clippy::unwrap_used)]
use rinfer_text::chat::{Chat, Message, Role};
use rinfer_text::reply::{Delta, Format, Reader, Reply, TAGS, Tags};
use rinfer_text::template::{DateTime, Template};
use rinfer_text::tools::Tools;
use serde_json::Value;
use std::sync::Arc;

const NOW: DateTime = DateTime { year: 2025, month: 7, day: 4, hour: 12, minute: 34, second: 56 };

fn read<'a>(
    format: &Format,
    prompt: &str,
    pieces: impl IntoIterator<Item = &'a str>,
) -> (String, String) {
    let mut reader = Reader::new(format, Arc::new(Tools::default()), prompt);
    let mut deltas: Vec<Delta> = pieces.into_iter().flat_map(|piece| reader.push(piece)).collect();
    deltas.extend(reader.finish(false));
    let reply: Reply = deltas.iter().collect();
    assert!(reply.calls.is_empty());
    (reply.reasoning, reply.content)
}

fn plain(tags: &'static Tags) -> Format {
    Format::new(None, Some(tags), None, |_, _| Vec::new())
}

/// C9: a prompt that opens thoughts begins the answer in them.
#[test]
fn c9_thoughts_that_the_prompt_opened() {
    for tags in TAGS {
        let format = plain(tags);
        let prompt = format!("<|assistant|>{}", tags.open);
        for (text, reasoning, content) in [
            (format!("a{}b", tags.close), "a", "b"),
            (format!("\na é\n\n c \n{}\n\nb {}\n", tags.close, tags.open), "a é\n\n c", ""),
            ("all of it".to_owned(), "all of it", ""),
            (tags.close.to_owned(), "", ""),
            (format!("{}b", &tags.close[1..]), &*format!("{}b", &tags.close[1..]), ""),
        ] {
            let content = match content {
                "" if text.contains("\nb ") => format!("b {}\n", tags.open),
                _ => content.to_owned(),
            };
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let (a, b) = text.split_at(at);
                assert_eq!(
                    read(&format, &prompt, [a, b]),
                    (reasoning.to_owned(), content.clone()),
                    "{text}"
                );
            }
        }
        // The scripted pieces of the row, and thoughts that the prompt closed.
        let (half, rest) = tags.close.split_at(tags.close.len() / 2);
        let got = read(&format, &prompt, [&*format!("a{half}"), &*format!("{rest}b")]);
        assert_eq!(got, ("a".into(), "b".into()));
        let closed = format!("{prompt}\n\n{}\n\n", tags.close);
        assert_eq!(read(&format, &closed, ["b"]), (String::new(), "b".into()));
    }
}

#[test]
fn thoughts_that_the_model_opens() {
    for tags in TAGS {
        let format = plain(tags);
        let text = format!("\n{}\nhm\n{}\n\nyes \n", tags.open, tags.close);
        let by_char = text.split_inclusive(|_| true);
        assert_eq!(read(&format, "<|assistant|>", by_char), ("hm".into(), "yes \n".into()));
        // Later it is a text about tags; and without thoughts nothing is stripped.
        let text = format!(" so {}hm{}", tags.open, tags.close);
        assert_eq!(read(&format, "", [&*text]), (String::new(), text.clone()));
        assert_eq!(read(&format, "", [" \n a "]), (String::new(), " \n a ".into()));
    }
}

#[test]
fn the_tags_of_an_answer_after_thoughts_are_dropped() {
    let granite = Tags::of("<think></think><response></response>").unwrap();
    let text = "<think>a</think>\n<response>b</response>\n";
    assert_eq!(read(&plain(granite), "", [text]), ("a".into(), "b\n".into()));
    let apriel = Tags::of("[BEGIN FINAL RESPONSE]").unwrap();
    let text = "a\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]";
    assert_eq!(
        read(&plain(apriel), "Here are my reasoning steps:\n", [text]),
        ("a".into(), "b\n".into())
    );
}

/// Where a tag is a token, the token is the tag, wherever it comes, and its spelling is not.
#[test]
fn tags_that_are_tokens_are_read_by_id() {
    let tags = Tags::of("<think>").unwrap();
    let all = |tag: &str, _| std::iter::once(0..tag.len()).collect();
    let format = Format::new(None, Some(tags), None, all);
    assert_eq!(format.tokens().collect::<Vec<_>>(), ["</think>", "<think>"]);
    let mut reader = Reader::new(&format, Arc::new(Tools::default()), "<think>\n");
    let mut deltas = reader.push("a </think> <thi");
    assert!(reader.is_thinking());
    deltas.extend(reader.push("nk> b"));
    deltas.extend(reader.push_token("</think>", true));
    assert!(!reader.is_thinking());
    deltas.extend(reader.push("c <think> d "));
    deltas.extend(reader.push_token("<think>", true));
    deltas.extend(reader.push("e"));
    deltas.extend(reader.finish(false));
    let reply: Reply = deltas.iter().collect();
    assert_eq!((&*reply.reasoning, &*reply.content), ("a </think> <think> be", "c <think> d "));
}

#[test]
fn channels_of_messages() {
    let harmony = "<|start|>assistant <|channel|>analysis";
    let format = Format::of(&Template::new(harmony).unwrap(), |_, _| Vec::new());
    let check = |prompt: &str, text: &str, want: (&str, &str)| {
        for step in [1, 3, 1000] {
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(step).map(|c| c.iter().collect()).collect();
            let got = read(&format, prompt, pieces.iter().map(String::as_str));
            assert_eq!((&*got.0, &*got.1), want, "{text}");
        }
    };
    let start = "<|end|><|start|>assistant";
    check(
        start,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        ("Hm.", "Yes."),
    );
    check(start, "<|channel|>final<|message|>Yes.<|return|>", ("", "Yes."));
    check(
        start,
        "<|channel|>commentary<|message|>First,<|end|><|start|>assistant<|channel|>final<|message|> then.",
        ("", "First, then."),
    );
    check(start, "<|channel|>analysis<|message|>cut off", ("cut off", ""));
    check("<|start|>assistant<|channel|>final<|message|>", "Yes.", ("", "Yes."));
    check("<|start|>assistant<|channel|>analysis<|message|>", "Hm.<|end|>", ("Hm.", ""));
    check(start, "no header at all", ("", "no header at all"));
}

/// Every published template's own way to print thoughts is read back, where it prints them.
#[test]
fn templates_read_back_their_own_thoughts() {
    let Some(path) = rinfer_testkit::shared::shared("goldens/chat_templates") else { return };
    let file = std::fs::read(path.join("chat_templates.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    let mut read_back = Vec::new();
    for t in file["templates"].as_array().unwrap() {
        let name = t["name"].as_str().unwrap();
        let tokens = t["tokens"].as_object().unwrap().clone();
        let tokens = tokens.into_iter().filter_map(|(k, v)| Some((k, v.as_str()?.to_owned())));
        let template =
            Template::new(t["chat_template"].as_str().unwrap()).unwrap().with_tokens(tokens);
        let mut chat = Chat {
            messages: vec![Message::new(Role::User, "What?")],
            add_generation_prompt: true,
            ..Chat::default()
        };
        chat.vars.insert("enable_thinking".into(), true.into());
        let Ok(prompt) = template.render(&chat, NOW) else { continue };
        chat.messages.push(Message {
            reasoning_content: Some("Two thoughts,\nno more.".into()),
            ..Message::new(Role::Assistant, "The answer.")
        });
        chat.add_generation_prompt = false;
        let Ok(whole) = template.render(&chat, NOW) else { continue };
        if !whole.text.contains("Two thoughts") {
            continue;
        }
        let prompt = prompt.text;
        let same = prompt.chars().zip(whole.text.chars()).take_while(|(a, b)| a == b);
        let common: usize = same.map(|(c, _)| c.len_utf8()).sum();
        let tag = prompt[..common].rfind('<').filter(|at| !prompt[*at..common].contains('>'));
        let (before, after) = whole.text.split_at(tag.unwrap_or(common));
        let format = Format::of(&template, |_, _| Vec::new());
        // Apriel's prompt has the words that begin thoughts, its history has not.
        let opens = |text: &str| {
            format.thinking.is_some_and(|t| text.trim_end().ends_with(t.open.trim_end()))
        };
        let before = if name.starts_with("Apriel") && opens(&prompt) { &prompt } else { before };
        let (reasoning, content) = self::read(&format, before, [after]);
        assert_eq!(reasoning, "Two thoughts,\nno more.", "{name}: {after:?}");
        assert!(content.starts_with("The answer."), "{name}: {content:?} of {after:?}");
        read_back.push(name);
    }
    assert_eq!(read_back.len(), 20, "{read_back:?}");
}
