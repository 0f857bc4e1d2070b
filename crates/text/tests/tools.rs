//! Calls of tools: written in every syntax and read back, however the text is cut; and those that
//! published templates print.
#![allow(clippy::unwrap_used)]
use rinfer_text::chat::{Chat, Content, Function, Message, Role, Tool, ToolCall};
use rinfer_text::reply::{Channels, Delta, Format, FormatError, Reader, Reply, Tags};
use rinfer_text::template::{DateTime, Template};
use rinfer_text::tools::{Frame, Keys, Notation, Place, Quotes, SYNTAXES, Shape, Syntax, Tools};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const NOW: DateTime = DateTime { year: 2025, month: 7, day: 4, hour: 12, minute: 34, second: 56 };

/// A function and its arguments.
type Call = (&'static str, Map<String, Value>);

fn tools() -> Vec<Tool> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let weather = json!({"type": "object", "required": ["city"], "properties": {
        "city": text("A city."),
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "A unit."}}});
    let search = json!({"type": "object", "required": ["pattern", "dirs"], "properties": {
        "pattern": text("What."),
        "max_results": {"type": "integer", "description": "How many."},
        "recursive": {"type": "boolean", "description": "All the way down?"},
        "dirs": {"type": "array", "items": text("A folder."), "description": "Where."},
        "size": {"type": "number", "description": "How large."}}});
    vec![
        Tool::function("get_weather", "The weather.", weather),
        Tool::function("search_files", "Finds files.", search),
        Tool::function("now", "The time.", json!({"type": "object", "properties": {}})),
    ]
}

/// Calls with what is hard to write: quotes, breaks, other scripts, brackets, all types, nothing.
fn calls() -> Vec<Call> {
    let object = |value: Value| value.as_object().unwrap().clone();
    vec![
        ("get_weather", object(json!({"city": "\"Paris\" é東😀 {[(\\n",  "unit": "celsius"}))),
        (
            "search_files",
            object(json!({"pattern": "*.rs\n<a> & b = ,;:", "max_results": 3,
            "recursive": true, "dirs": ["src", "a b", "it\"s"], "size": -1.5})),
        ),
        ("now", Map::new()),
    ]
}

fn reader(format: &Format, prompt: &str) -> Reader {
    Reader::new(format, Arc::new(Tools::new(&tools())), prompt)
}

/// Reads pieces, and joins what belongs together.
fn read<'a>(format: &Format, pieces: impl IntoIterator<Item = &'a str>, cut: bool) -> Vec<Delta> {
    let mut reader = reader(format, "");
    let mut deltas: Vec<Delta> = pieces.into_iter().flat_map(|piece| reader.push(piece)).collect();
    deltas.extend(reader.finish(cut));
    joined(deltas)
}

fn joined(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut all: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (all.last_mut(), &delta) {
            (Some(Delta::Content(a)), Delta::Content(b)) => *a += b,
            (Some(Delta::Reasoning(a)), Delta::Reasoning(b)) => *a += b,
            (Some(Delta::Arguments { json: a, .. }), Delta::Arguments { json: b, .. }) => *a += b,
            _ => all.push(delta),
        }
    }
    all
}

fn same_calls(reply: &Reply, calls: &[Call]) -> bool {
    let value = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    reply.calls.len() == calls.len()
        && reply.calls.iter().zip(calls).all(|((name, arguments), (called, wanted))| {
            name == called && value(arguments).as_ref() == Some(wanted)
        })
}

/// Every syntax that has a text of its own, the text of some calls in it, and calls that it can't
/// write so left out.
fn written() -> impl Iterator<Item = (&'static Syntax, Format, String, Vec<Call>)> {
    SYNTAXES.iter().filter_map(|syntax| {
        let calls = calls();
        let given: Vec<_> = calls.iter().map(|(name, arguments)| (*name, arguments)).collect();
        let text = syntax.write(&given)?;
        let format = Format::new(Some(*syntax), Tags::of("<think>"), None, |_, _| Vec::new());
        Some((*syntax, format, text, calls))
    })
}

#[test]
fn every_syntax_reads_what_it_writes_however_it_is_cut() {
    let mut read_back = 0;
    for (syntax, format, text, calls) in written() {
        // Llama's calls are the answer; elsewhere there may be words before and after.
        let bare = text.starts_with('{');
        let text = if bare { text } else { format!("Let me see. <b>\n\n{text}\n Done ") };
        let whole = read(&format, [text.as_str()], false);
        let reply: Reply = whole.iter().collect();
        assert!(same_calls(&reply, &calls), "{}: {text}\n{reply:?}", syntax.name);
        assert_eq!(
            reply.content,
            if bare { "" } else { "Let me see. <b>Done " },
            "{}",
            syntax.name
        );
        let chars: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for at in &chars {
            let (a, b) = text.split_at(*at);
            assert_eq!(
                read(&format, [a, b], false),
                whole,
                "{} cut at {at} of {text}",
                syntax.name
            );
        }
        for step in [1, 2, 3, 7] {
            let cuts: Vec<usize> =
                chars.iter().copied().step_by(step).chain([text.len()]).collect();
            let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
            assert_eq!(read(&format, pieces, false), whole, "{} by {step}", syntax.name);
        }
        read_back += 1;
    }
    assert_eq!(read_back, SYNTAXES.len() - 2, "all but harmony's and Functionary's messages");
}

/// J16: a call that was cut off is never complete, and its text is not lost.
#[test]
fn j16_what_is_cut_off_is_no_call() {
    for (syntax, format, text, calls) in written() {
        let mut complete = 0;
        for (at, _) in text.char_indices() {
            let deltas = read(&format, [&text[..at]], true);
            let reply: Reply = deltas.iter().collect();
            assert!(
                same_calls(&reply, &calls[..reply.calls.len()]),
                "{} at {at}: {reply:?}",
                syntax.name
            );
            assert!(reply.calls.len() >= complete, "{} at {at}", syntax.name);
            complete = reply.calls.len();
            let opened = deltas.iter().filter(|d| matches!(d, Delta::Open { .. })).count();
            let over = |d: &&Delta| matches!(d, Delta::Close { .. } | Delta::Broken { .. });
            assert_eq!(deltas.iter().filter(over).count(), opened, "{} at {at}", syntax.name);
            if complete == 0 {
                assert_eq!(reply.content.trim(), text[..at].trim(), "{} at {at}", syntax.name);
            }
        }
    }
}

fn templates() -> Option<Vec<(String, Template)>> {
    let path = rinfer_testkit::shared::shared("goldens/chat_templates")?;
    let text = std::fs::read(path.join("chat_templates.json")).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    let one = |t: &Value| {
        let tokens = t["tokens"].as_object().unwrap().clone();
        let tokens = tokens.into_iter().filter_map(|(k, v)| Some((k, v.as_str()?.to_owned())));
        let template = Template::new(t["chat_template"].as_str().unwrap()).unwrap();
        (t["name"].as_str().unwrap().to_owned(), template.with_tokens(tokens))
    };
    Some(file["templates"].as_array().unwrap().iter().map(one).collect())
}

/// The prompt that asks for an answer of calls, and what the template prints for that answer.
/// Arguments are given as JSON text, as clients send them (C6).
fn printed(
    template: &Template,
    content: Option<&str>,
    calls: &[Call],
) -> Result<(String, String), String> {
    let render = |chat: &Chat| template.render(chat, NOW).map_err(|e| e.to_string());
    let mut chat = Chat {
        messages: vec![Message::new(Role::User, "What now?")],
        tools: tools(),
        add_generation_prompt: true,
        ..Chat::default()
    };
    let prompt = render(&chat)?.text;
    chat.add_generation_prompt = false;
    let call = |(i, (name, arguments)): (usize, &Call)| ToolCall {
        id: Some(format!("abcdefgh{i}")),
        function: Function {
            name: (*name).into(),
            arguments: Value::Object(arguments.clone()).to_string().into(),
        },
    };
    chat.messages.push(Message {
        content: content.map(|text| Content::Text(text.into())),
        tool_calls: calls.iter().enumerate().map(call).collect(),
        ..Message::new(Role::Assistant, "")
    });
    let whole = render(&chat)?.text;
    let same = prompt.chars().zip(whole.chars()).take_while(|(a, b)| a == b);
    let common: usize = same.map(|(c, _)| c.len_utf8()).sum();
    let tag = prompt[..common].rfind('<').filter(|at| !prompt[*at..common].contains('>'));
    let (before, after) = whole.split_at(tag.unwrap_or(common));
    Ok((before.to_owned(), after.to_owned()))
}

/// How many of `calls` are read back from what the template prints, or why none are.
fn reads_back(template: &Template, format: &Format, calls: &[Call]) -> Result<usize, String> {
    let mut why = String::new();
    for content in [Some(""), None] {
        let (prompt, text) = match printed(template, content, calls) {
            Ok(printed) => printed,
            Err(refusal) => {
                why = refusal;
                continue;
            }
        };
        let mut reader = reader(format, &prompt);
        let mut deltas = reader.push(&text);
        deltas.extend(reader.finish(false));
        let reply: Reply = deltas.iter().collect();
        let n = reply.calls.len();
        if n > 0 && same_calls(&reply, &calls[..n]) {
            return Ok(n);
        }
        why = if n > 0 { format!("{reply:?} of {text}") } else { "it prints no calls".into() };
    }
    Err(why)
}

/// The tables of `docs/tools.md`: the syntaxes as they are written, and each published template with
/// what was found for it and how many of one, two and three calls are read back from what it prints.
#[test]
fn docs_say_what_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
    let mut docs = std::fs::read_to_string(path).unwrap();
    replace(&mut docs, "syntaxes", &syntaxes_table());
    if let Some(templates) = templates() {
        replace(&mut docs, "templates", &templates_table(&templates));
    }
    rinfer_testkit::shared::up_to_date("docs/tools.md", &docs);
}

fn replace(docs: &mut String, name: &str, table: &str) {
    let [begin, end] = ["", "/"].map(|slash| format!("<!-- {slash}{name} -->\n"));
    let from = docs.find(&begin).unwrap() + begin.len();
    let to = docs.find(&end).unwrap();
    docs.replace_range(from..to, table);
}

fn syntaxes_table() -> String {
    let mut table = String::from(
        "| syntax | models | a call of `f` with `x` \"a\" and `n` 1 |\n|---|---|---|\n",
    );
    for syntax in SYNTAXES {
        let arguments = json!({"x": "a", "n": 1}).as_object().unwrap().clone();
        let text = match syntax.write(&[("f", &arguments)]) {
            Some(text) => format!("`{}`", text.replace('\n', "↵").replace('|', "\\|")),
            None => "a message to the tool".to_owned(),
        };
        table += &format!("| {} | {} | {text} |\n", syntax.name, syntax.models);
    }
    table
}

fn templates_table(templates: &[(String, Template)]) -> String {
    let mut table = String::from(
        "| template | syntax | thoughts | shows tools | shows calls | read back of 1, 2, 3 |\n\
         |---|---|---|---|---|---|\n",
    );
    for (name, template) in templates {
        let format = Format::of(template, |_, _| Vec::new());
        let syntax = format.syntax.map_or("none", |s| s.name);
        let messages = format.channels.map(|_| "messages");
        let thoughts = format.thinking.map(|t| format!("`{}`", t.open.trim().replace('|', "\\|")));
        let thoughts = thoughts.or(messages.map(str::to_owned)).unwrap_or("none".into());
        let mut calls = calls();
        if name.starts_with("LFM2.5") {
            // It writes text between quotes as it is: a backslash becomes another character.
            calls[0].1.insert("city".into(), "Paris é東😀 {[(".into());
            calls[1].1.insert("pattern".into(), "*.rs".into());
        }
        let mut counts = [1, 2, 3].map(|n| match reads_back(template, &format, &calls[..n]) {
            Ok(n) => n.to_string(),
            Err(why) => why,
        });
        counts.iter_mut().for_each(|why| {
            let refused = why.find("refuses this conversation: ").map(|at| at + 27);
            *why = refused.map_or(why.clone(), |at| format!("“{}”", &why[at..]));
        });
        let tools = if format.shows_tools { "yes" } else { "no" };
        let shown = ["none", "one", "all"][format.shows_calls];
        assert_eq!(format.shows_calls > 0, counts[0] == "1", "{name}: {}", counts[0]);
        let same = counts.iter().all(|why| *why == counts[0]);
        let counts = if same { counts[0].clone() } else { counts.join(", ") };
        table += &format!("| {name} | {syntax} | {thoughts} | {tools} | {shown} | {counts} |\n");
    }
    table
}

/// C6, C7: arguments as JSON text, as an object, or as nothing are the same to every template that
/// prints calls.
#[test]
fn c6_arguments_are_an_object_however_they_are_given() {
    let Some(templates) = templates() else { return };
    let mut compared = 0;
    for (name, template) in &templates {
        let printed = |arguments: Value| {
            let call =
                json!({"id": "abcdefgh1", "function": {"name": "now", "arguments": arguments}});
            let messages = json!([{"role": "user", "content": "x"},
                {"role": "assistant", "content": null, "tool_calls": [call]}]);
            let messages = serde_json::from_value(messages).unwrap();
            let chat = Chat { messages, tools: tools(), ..Chat::default() };
            template.render(&chat, NOW).map(|prompt| prompt.text)
        };
        let Ok(object) = printed(json!({"a": "b c", "n": [1]})) else { continue };
        let reader = |text: &str| {
            let format = Format::of(template, |_, _| Vec::new());
            let at = text.find("x").unwrap();
            let mut reader = reader(&format, "");
            let mut deltas = reader.push(&text[at..]);
            deltas.extend(reader.finish(false));
            deltas.iter().collect::<Reply>().calls
        };
        let text = printed(json!("{\"a\": \"b c\", \"n\": [1]}")).unwrap();
        assert_eq!(reader(&text), reader(&object), "{name}");
        for nothing in [json!(null), json!(""), json!("{}")] {
            assert_eq!(printed(nothing).unwrap(), printed(json!({})).unwrap(), "{name}");
        }
        compared += 1;
    }
    assert_eq!(compared, 65);
}

/// What a template leaves out of the prompt is written there or refused, not lost.
#[test]
fn calls_that_a_template_leaves_out_are_said() {
    let chat = |messages: Value| Chat {
        messages: serde_json::from_value(messages).unwrap(),
        tools: tools(),
        ..Chat::default()
    };
    let call = json!({"function": {"name": "now", "arguments": "{\"a\": 1}"}});
    let history = chat(json!([{"role": "assistant", "content": "So.", "tool_calls": [call]}]));
    let plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
    let teaches = format!("{{{{ tools|tojson }}}} List of tools: <|tool_list_start|>{plain}");
    let format = |source: &str| Format::of(&Template::new(source).unwrap(), |_, _| Vec::new());
    let admitted = format(&teaches).admit(history.clone()).unwrap();
    let text = "So.<|tool_call_start|>[now(a=1)]<|tool_call_end|>";
    assert_eq!(admitted.messages, [Message::new(Role::Assistant, text)]);
    assert_eq!(format(plain).admit(history.clone()).unwrap_err(), FormatError::Tools);
    let without = Chat { tools: Vec::new(), ..history };
    assert_eq!(format(plain).admit(without).unwrap_err(), FormatError::Calls);
    let wrong = json!({"function": {"name": "now", "arguments": "[1]"}});
    let wrong = chat(json!([{"role": "assistant", "content": "So.", "tool_calls": [wrong]}]));
    assert_eq!(format(&teaches).admit(wrong).unwrap_err(), FormatError::Arguments("now".into()));
}

/// Calls that a template would drop, because it takes one at a time, are messages one by one.
#[test]
fn several_calls_are_shown_one_by_one_where_one_is_taken() {
    let call = |id: &str, city: &str| {
        json!({"id": id, "type": "function", "function":
        {"name": "get_weather", "arguments": {"city": city}}})
    };
    let result =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let messages = |list: Value| serde_json::from_value::<Vec<Message>>(list).unwrap();
    let history = json!([{"role": "user", "content": "x"},
        {"role": "assistant", "content": "So.", "tool_calls": [call("a", "A"), call("b", "B")]},
        result("b", "rB"), result("a", "rA"), {"role": "user", "content": "y"}]);
    let chat = Chat { messages: messages(history), ..Chat::default() };
    let source = "{{ tools }}{% for m in messages %}{{ m.content }}{% if m.tool_calls %}<tool_call>\
        {{ m.tool_calls[0].function | tojson }}</tool_call>{% endif %}{% endfor %}";
    let format = Format::of(&Template::new(source).unwrap(), |_, _| Vec::new());
    assert_eq!((format.syntax.unwrap().name, format.shows_calls), ("hermes", 1));
    let want = json!([{"role": "user", "content": "x"},
        {"role": "assistant", "content": "So.", "tool_calls": [call("a", "A")]}, result("a", "rA"),
        {"role": "assistant", "content": null, "tool_calls": [call("b", "B")]}, result("b", "rB"),
        {"role": "user", "content": "y"}]);
    assert_eq!(format.admit(chat).unwrap().messages, messages(want));
}

/// L1, L6: indices count, a name comes once and first, arguments only ever grow, whatever they hold.
#[test]
fn l1_l6_calls_come_in_order_and_only_grow() {
    let format = Format::new(Syntax::named("hermes"), None, None, |_, _| Vec::new());
    let arguments = r#"{"code": "if a[\"x\"] == '</tool_call>' { \\n }\u00e9", "n": 1.50}"#;
    let text = format!(
        "<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>\n\
         <tool_call>{{\"arguments\": {{\"k\":[]}}, \"id\": 7, \"name\": \"g\"}}</tool_call>"
    );
    let deltas = read(&format, text.split_inclusive(|_| true), false);
    let open = |index, name: &str| Delta::Open { index, name: name.into() };
    let given = |index, json: &str| Delta::Arguments { index, json: json.into() };
    let close = |index| Delta::Close { index };
    let second = given(1, r#"{"k":[]}"#);
    let want = [open(0, "f"), given(0, arguments), close(0), open(1, "g"), second, close(1)];
    assert_eq!(deltas, want);
}

/// What is no call after all stays text, to the letter.
#[test]
fn what_is_no_call_is_text() {
    let check = |syntax: &str, text: &str| {
        let format = Format::new(Syntax::named(syntax), None, None, |_, _| Vec::new());
        for cut in [false, true] {
            let reply: Reply = read(&format, text.split_inclusive(|_| true), cut).iter().collect();
            assert_eq!((reply.content.as_str(), reply.calls.len()), (text, 0), "{syntax} {cut}");
        }
    };
    check("hermes", "The tag <tool_call> opens a call, </tool_call> closes it.");
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}</tool_call>");
    check("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call> x");
    check("hermes", "<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>");
    check("hermes", "<tool_call>{\"arguments\": {}}</tool_call>");
    check("llama3", "{\"name\": \"unknown\", \"parameters\": {}}");
    check("llama3", "{\"answer\": 42}");
    check("llama3", "So: {\"name\": \"now\", \"parameters\": {}}");
    check("llama3", "<|python_tag|>print(1)");
    check("mistral", "[TOOL_CALLS] none");
    check("mistral_v11", "[TOOL_CALLS]two words[ARGS]{}");
    check(
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=x>",
    );
    check("glm", "<tool_call>f g<arg_key>x</arg_key>");
    check("nemotron", "<TOOLCALL>[]</TOOLCALL>");
    check("lfm2", "<|tool_call_start|>[f(a)]<|tool_call_end|>");
    check("gemma4", "<|tool_call>call:f{a:b}<tool_call|>");
    check("minimax_m3", "]<]minimax[>[<tool_call>x]<]minimax[>[</tool_call>");
    check("kimi_k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>");
    check(
        "dsml",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" n=\"1\">",
    );
}

/// What a model leaves out at the end of its answer is no harm; what the limit cuts off is.
#[test]
fn a_call_may_lack_its_closing_tag_if_the_model_ended() {
    let check = |syntax: &str, text: &str| {
        let format = Format::new(Syntax::named(syntax), None, None, |_, _| Vec::new());
        let calls = |cut| read(&format, [text], cut).iter().collect::<Reply>().calls.len();
        assert_eq!((calls(false), calls(true)), (1, 0), "{syntax}");
    };
    check("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}");
    check("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}");
    check("functionary_v3_1", "<function=f>{}");
    check("llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}");
    check(
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>f:0<|tool_call_argument_begin|>{}",
    );
}

/// Other ways in which models are known to write.
#[test]
fn variants() {
    let check = |syntax: &str, text: &str, calls: &[(&str, &str)], content: &str| {
        let format = Format::new(Syntax::named(syntax), None, None, |_, _| Vec::new());
        let reply: Reply = read(&format, [text], false).iter().collect();
        let found: Vec<(&str, &str)> =
            reply.calls.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!((&found[..], reply.content.as_str()), (calls, content), "{text}");
    };
    let weather = ("get_weather", r#"{"city": "x"}"#);
    let python = r#"<|python_tag|>brave_search.call(query="a b")"#;
    check("llama3", python, &[("brave_search", r#"{"query":"a b"}"#)], "");
    let objects = r#"<|python_tag|>{"name": "now", "parameters": {"a": "x;y"}}; {"name": "now", "parameters": {}}"#;
    check("llama3", objects, &[("now", r#"{"a":"x;y"}"#), ("now", "{}")], "");
    let one = r#"{"type": "function", "name": "now", "parameters": {}}"#;
    check("llama3", &format!(" {one}; {one}"), &[("now", "{}"), ("now", "{}")], "");
    check("llama3", &format!("{one}\n{one}\nDone."), &[("now", "{}"), ("now", "{}")], "Done.");
    let string = r#"<tool_call>{"name": "now", "arguments": "{\"a\": 1}"}</tool_call>"#;
    check("hermes", string, &[("now", r#"{"a": 1}"#)], "");
    check("hermes", r#"<tool_call>{"name": "now"}</tool_call>"#, &[("now", "{}")], "");
    check(
        "hermes",
        r#"<tool_call>{"name": "now", "arguments": null}</tool_call>"#,
        &[("now", "{}")],
        "",
    );
    let id = r#"[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "x"}"#;
    check("mistral_v11", id, &[weather], "");
    check(
        "lfm2",
        "<|tool_call_start|>get_weather('x')<|tool_call_end|>",
        &[("get_weather", r#"{"city":"x"}"#)],
        "",
    );
    let kimi = "<|tool_calls_section_begin|><|tool_call_begin|>functions.a.b:12\n\
                <|tool_call_argument_begin|> {} <|tool_call_end|>\n<|tool_calls_section_end|>";
    check("kimi_k2", kimi, &[("a.b", "{}")], "");
    let seed = "<seed:tool_call><function=search_files><parameter=recursive>True</parameter>\
                <parameter=dirs>['src', 'a b']</parameter></function></seed:tool_call>";
    check("seed_oss", seed, &[("search_files", r#"{"recursive":true,"dirs":["src","a b"]}"#)], "");
}

/// Llama's built-in tools: the template's variable names them, and they are read and described as it
/// prints them; code is what is nothing else.
#[test]
fn llama_has_tools_of_its_own() {
    let syntax = Syntax::named("llama3").unwrap();
    let vars = json!({"builtin_tools": ["brave_search", "code_interpreter"]});
    let vars = vars.as_object().unwrap();
    let all = Tools::new(&tools()).with_built_in(syntax, vars);
    assert_eq!(all.all().len(), 5);
    assert!(Syntax::named("hermes").unwrap().built_in(vars).is_empty());
    let format = Format::new(Some(syntax), None, None, |_, _| Vec::new());
    let calls = |text: &str, tools: &Tools| {
        let mut reader = Reader::new(&format, Arc::new(tools.clone()), "");
        let mut deltas = reader.push(text);
        deltas.extend(reader.finish(false));
        deltas.iter().collect::<Reply>().calls
    };
    let code = "<|python_tag|>import math\nprint(math.pi)";
    let want =
        [("code_interpreter".to_owned(), r#"{"code":"import math\nprint(math.pi)"}"#.into())];
    assert_eq!(calls(code, &all), want);
    assert_eq!(calls(code, &Tools::new(&tools())), []);
    let shapes = syntax.shapes(&all.all()[3..4], true);
    let [only] = &shapes[..] else { panic!("{shapes:?}") };
    assert_eq!(only.open, "<|python_tag|>");
    let text = only.open.clone() + &texts(&only.rest)[0];
    assert_eq!(text, "<|python_tag|>brave_search.call(query=\"text\")");
    assert_eq!(calls(&text, &all), [("brave_search".to_owned(), r#"{"query":"text"}"#.into())]);
}

/// Texts of a shape: each way to go on once, parts that may be left out both in and out.
fn texts(shape: &Shape) -> Vec<String> {
    let joined = |parts: &[Shape]| {
        parts.iter().fold(vec![String::new()], |all, part| {
            let next = texts(part);
            let pairs = all.iter().flat_map(|a| next.iter().map(move |b| format!("{a}{b}")));
            // Enough of each part, not of all together.
            pairs.take(40).collect()
        })
    };
    match shape {
        Shape::Text(text) => vec![text.clone()],
        Shape::Rest => vec!["print(1)".into()],
        Shape::Until(end) => vec![format!("x <y>\n{end}"), end.clone()],
        Shape::Object(schema, notations) => vec![spelled(&value(schema), notations)],
        Shape::All(parts) => joined(parts),
        Shape::Any(parts) => parts.iter().flat_map(texts).collect(),
        Shape::Maybe(part) => texts(part).into_iter().chain([String::new()]).collect(),
        Shape::More(part) => {
            let one = texts(part);
            let all = one.concat();
            one.into_iter().chain([all]).collect()
        }
    }
}

/// A value as the first notation has it, and what is in it as the next.
fn spelled(value: &Value, notations: &[Notation]) -> String {
    let [notation, rest @ ..] = notations else { unreachable!() };
    let inner = if rest.is_empty() { notations } else { rest };
    let inside = |frame: &Frame, key: &str, value: &Value| {
        let bare = frame.bare.as_ref();
        let (text, before) = match (bare, value) {
            (Some(bare), Value::String(text)) => {
                (text.clone(), bare.before.as_ref().unwrap_or(&frame.before))
            }
            _ => (spelled(value, inner), &frame.before),
        };
        let end = bare.map_or(String::new(), |bare| [&*bare.pad, &*bare.end].concat());
        let again = frame.after.1.as_ref().map_or(String::new(), |after| key.to_owned() + after);
        let [open, begin] = before;
        format!("{open}{key}{begin}{text}{end}{}{again}", frame.after.0)
    };
    let whole = |frame: &Frame, all: Vec<String>| {
        format!("{}{}{}", frame.open, all.join(&frame.between), frame.close)
    };
    match (value, &notation.quotes) {
        (Value::Object(map), _) => {
            let key = |key: &str| match notation.keys {
                Keys::Quoted => Value::from(key).to_string(),
                Keys::Plain(_) => key.to_owned(),
            };
            let pairs = map.iter().map(|(k, v)| inside(&notation.object, &key(k), v));
            whole(&notation.object, pairs.collect())
        }
        (Value::Array(items), _) => {
            let items = items.iter().map(|item| inside(&notation.list, "", item));
            whole(&notation.list, items.collect())
        }
        (Value::String(text), Quotes::Marks(open, end)) => format!("{open}{text}{end}"),
        (Value::Bool(true), Quotes::Python) => "True".into(),
        (other, _) => other.to_string(),
    }
}

/// A value by a schema of `tools`.
fn value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            properties.into_iter().map(|(key, schema)| (key, value(&schema))).collect()
        }
        Some("integer") => json!(3),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        Some("array") => json!(["a"]),
        _ => schema["enum"][0].as_str().unwrap_or("text").into(),
    }
}

/// What calls are constrained to is what is read as calls, of declared tools with declared arguments.
#[test]
fn shapes_are_read_as_calls() {
    let declared = Tools::new(&tools());
    for syntax in SYNTAXES {
        let shapes = syntax.shapes(declared.all(), true);
        assert!(!shapes.is_empty(), "{}", syntax.name);
        let channels = syntax.by_message().then(|| channels(syntax));
        let format = Format::new(Some(*syntax), None, channels, |_, _| Vec::new());
        for calls in shapes {
            for text in texts(&calls.rest) {
                let before = match calls.place {
                    Place::Anywhere => "",
                    Place::First if calls.open.starts_with(';') => {
                        "{\"name\": \"now\", \"parameters\": {}}"
                    }
                    Place::First => "",
                    Place::Header => "<|start|>assistant<|channel|>commentary ",
                    Place::WholeHeader => ">>>",
                };
                let text = [before, &calls.open, &text].concat();
                // Where the answer's end ends a call, the model must have meant it.
                let cut = calls.open != "<|python_tag|>";
                let reply: Reply = read(&format, [text.as_str()], cut).iter().collect();
                check_calls(syntax, &text, &reply, &declared);
            }
        }
        let one = syntax.shapes(declared.all(), false);
        for text in one.first().map(|calls| texts(&calls.rest)).unwrap_or_default() {
            let text = one[0].open.clone() + &text;
            let reply: Reply = read(&format, [text.as_str()], false).iter().collect();
            assert!(syntax.by_message() || reply.calls.len() == 1, "{}: {text}", syntax.name);
        }
    }
    assert!(SYNTAXES[0].shapes(&[], true).is_empty());
}

/// How a syntax's messages are written.
fn channels(syntax: &Syntax) -> &'static Channels {
    let source = match syntax.name {
        "harmony" => "<|start|>assistant<|channel|>analysis",
        _ => ">>>${recipient}",
    };
    Channels::of(source).unwrap()
}

fn check_calls(syntax: &Syntax, text: &str, reply: &Reply, declared: &Tools) {
    assert!(
        !reply.calls.is_empty() && reply.content.is_empty(),
        "{}: {text}\n{reply:?}",
        syntax.name
    );
    for (name, arguments) in &reply.calls {
        let tool = declared.get(name).unwrap_or_else(|| panic!("{}: {name}", syntax.name));
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap();
        let properties = tool.parameters["properties"].as_object().unwrap();
        for (key, given) in &arguments {
            assert_eq!(*given, value(&properties[key]), "{text}");
        }
        let required = tool.parameters.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten() {
            assert!(arguments.contains_key(key.as_str().unwrap()), "{text}");
        }
    }
}

/// C8: a message of thoughts, text and calls is shown by every template that prints calls: one that
/// takes only one of thoughts and text has the text with the thoughts.
#[test]
fn c8_thoughts_text_and_calls_in_one_message() {
    let Some(templates) = templates() else { return };
    let mut joined = Vec::new();
    for (name, template) in &templates {
        let format = Format::of(template, |_, _| Vec::new());
        if format.shows_calls == 0 || !format.shows_tools {
            continue;
        }
        let call = json!({"id": "abcdefgh0", "function": {"name": "now", "arguments": "{}"}});
        let messages = json!([{"role": "user", "content": "x"},
            {"role": "assistant", "content": "Said.", "reasoning_content": "Thought.",
                "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "abcdefgh0", "name": "now", "content": "noon"}]);
        let messages = serde_json::from_value(messages).unwrap();
        let chat = Chat { messages, tools: tools(), ..Chat::default() };
        let text = template.render(&format.admit(chat).unwrap(), NOW).unwrap().text;
        assert!(text.contains("noon"), "{name}: {text}");
        if format.one_or_other {
            assert!(text.contains("Thought.\n\nSaid."), "{name}: {text}");
            joined.push(name.as_str());
        }
    }
    assert_eq!(joined, ["openai-gpt-oss-120b"]);
}
