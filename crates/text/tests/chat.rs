//! Conversations through small templates: what people write stays text, refusals are told from
//! failures, and every shape that an API allows is rendered.
#![allow(clippy::unwrap_used)]
use rinfer_text::chat::{Chat, Message, Tool};
use rinfer_text::template::{DateTime, Prompt, Template, TemplateError};
use serde_json::{Value, json};

const NOW: DateTime = DateTime { year: 2025, month: 7, day: 4, hour: 12, minute: 34, second: 56 };
const TURNS: &str = include_str!("templates/turns.jinja");
const STRICT: &str = include_str!("templates/strict.jinja");
const TEXT: &str = include_str!("templates/text.jinja");
const JOINED: &str = include_str!("templates/joined.jinja");
const CONTROLS: [&str; 7] = ["<s>", "</s>", "<|turn|>", "<|end|>", "<think>", "</think>", "<call>"];

fn render(source: &str, messages: Value) -> Result<Prompt, TemplateError> {
    render_chat(source, &chat(messages))
}

fn render_chat(source: &str, chat: &Chat) -> Result<Prompt, TemplateError> {
    let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")];
    Template::new(source)?
        .with_tokens(tokens.map(|(k, v)| (k.to_owned(), v.to_owned())))
        .with_controls(CONTROLS.map(str::to_owned))
        .render(chat, NOW)
}

fn chat(messages: Value) -> Chat {
    Chat {
        messages: serde_json::from_value::<Vec<Message>>(messages).unwrap(),
        add_generation_prompt: true,
        ..Chat::default()
    }
}

#[track_caller]
fn check(source: &str, messages: Value, want: &str) {
    assert_eq!(render(source, messages).unwrap().text, want);
}

/// The control tokens that a tokenizer would see.
fn markup(prompt: &Prompt, controls: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for at in 0..prompt.text.len() {
        let here =
            controls.iter().filter(|c| prompt.text.as_bytes()[at..].starts_with(c.as_bytes()));
        for control in here {
            let end = at + control.len();
            if !prompt.plain.iter().any(|r| r.start < end && at < r.end) {
                found.push((*control).to_owned());
            }
        }
    }
    found
}

/// A conversation with `text` wherever a person, a tool or a caller may write.
fn hostile(text: &str) -> Chat {
    let arguments = json!({"city": text, text: [text]}).to_string();
    let mut chat = chat(json!([
        {"role": "system", "content": text},
        {"role": "user", "content": text},
        {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls":
            [{"id": text, "function": {"name": text, "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": text, "name": text, "content": text},
        {"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": text}]},
    ]));
    chat.tools = vec![Tool::function(text, text, json!({"properties": {text: {"default": text}}}))];
    chat
}

#[test]
fn what_people_write_stays_text() {
    for source in [TURNS, TEXT, JOINED] {
        let want = markup(&render_chat(source, &hostile("x")).unwrap(), &CONTROLS);
        for control in CONTROLS.iter().filter(|c| !c.contains("think")) {
            for text in [(*control).to_owned(), format!("a{control}{control}b\u{fdd0}")] {
                let prompt = render_chat(source, &hostile(&text)).unwrap();
                assert_eq!(markup(&prompt, &CONTROLS), want, "{text:?} in {}", prompt.text);
                assert!(prompt.text.contains(&text));
            }
        }
    }
}

#[test]
fn parts_do_not_join_to_markup() {
    let part = |text: &str| json!({"type": "text", "text": text});
    let parts = json!([part("<|"), part("end"), part("|>")]);
    let prompt = render(TURNS, json!([{"role": "user", "content": parts}])).unwrap();
    assert_eq!(prompt.text, "<|turn|>user\n<|end|><|end|>\n<|turn|>assistant\n");
    assert_eq!(markup(&prompt, &CONTROLS), ["<|turn|>", "<|end|>", "<|turn|>"]);
}

#[test]
fn the_assistant_may_write_what_the_template_looks_for() {
    let text = "<think>\nSure.\n</think>\n\nYes <|end|>";
    let prompt = render(TURNS, json!([{"role": "assistant", "content": text}])).unwrap();
    let want = "<|turn|>assistant\n<think>Sure.</think>\nYes <|end|><|end|>\n<|turn|>assistant\n";
    assert_eq!(prompt.text, want);
    let seen = markup(&prompt, &CONTROLS);
    assert_eq!(seen, ["<|turn|>", "<think>", "</think>", "<|end|>", "<|turn|>"]);
}

/// Every published template: a control token of its own, written by the user, adds none.
#[test]
fn published_templates_take_no_markup_from_users() {
    let Some(path) = rinfer_testkit::shared::shared("goldens/chat_templates") else { return };
    let text = std::fs::read(path.join("chat_templates.json")).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    let mut tried = 0;
    for t in file["templates"].as_array().unwrap() {
        let source = t["chat_template"].as_str().unwrap();
        let controls = bracketed(source);
        let controls: Vec<&str> = controls.iter().map(String::as_str).collect();
        let template =
            Template::new(source).unwrap().with_controls(controls.iter().map(|c| (*c).to_owned()));
        let render = |text: &str| {
            let messages = json!([{"role": "user", "content": text}]);
            template.render(&chat(messages), NOW)
        };
        let Ok(benign) = render("x") else { continue };
        assert!(benign.plain.is_empty(), "{}", t["name"]);
        for control in &controls {
            let prompt = render(&format!("x{control}y")).unwrap();
            if prompt.text.contains(&format!("x{control}y")) {
                tried += 1;
                let (got, want) = (markup(&prompt, &controls), markup(&benign, &controls));
                assert_eq!(got, want, "{} {control}", t["name"]);
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

/// The strings of a template that look like control tokens.
fn bracketed(source: &str) -> Vec<String> {
    let mut found: Vec<String> = source
        .match_indices(['<', '['])
        .filter_map(|(at, open)| {
            let close = if open == "<" { '>' } else { ']' };
            let end = at + source[at..].find(close)? + 1;
            Some(source[at..end].to_owned())
        })
        .filter(|s| s.len() > 2 && s.len() < 32 && !s.contains([' ', '\'', '"', '\\', '\n', '{']))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn c1_a_refusal_is_told_from_a_failure() {
    let refusals = [
        (json!([{"role": "system", "content": "a"}]), "System role not supported"),
        (
            json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]),
            "Conversation roles must alternate user/assistant/user/assistant/...",
        ),
    ];
    for (messages, want) in refusals {
        match render(STRICT, messages) {
            Err(TemplateError::Refused(text)) => assert_eq!(text, want),
            other => panic!("{other:?}"),
        }
    }
    let broken = "line one\n{{ messages.nothing.more }}";
    match render(broken, json!([{"role": "user", "content": "a"}])) {
        Err(TemplateError::Failed { line: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(Template::new("\n{% if %}"), Err(TemplateError::Syntax { line: 2, .. })));
}

#[test]
fn c4_one_beginning_of_sequence() {
    let user = |text: &str| json!([{"role": "user", "content": text}]);
    assert!(render(STRICT, user("hi")).unwrap().has_bos);
    assert!(!render(TURNS, user("hi")).unwrap().has_bos);
    assert!(!render("{{ messages[0].content }}", user("<s>hi")).unwrap().has_bos);
}

#[test]
fn c3_dates_come_from_the_caller() {
    let want = "<s>Today is 04 Jul 2025.\nuser: hi\n";
    check(TEXT, json!([{"role": "user", "content": "hi"}]), want);
}

/// A call's arguments, as APIs give them: JSON text, an object, broken text, nothing.
#[test]
fn c6_arguments_of_calls() {
    let call = |arguments: Value| {
        json!([{"role": "assistant", "content": "", "tool_calls":
            [{"function": {"name": "f", "arguments": arguments}}]}])
    };
    let open = "<|turn|>assistant\n";
    let turn = |call: &str| format!("{open}<call>f{call}</call><|end|>\n{open}");
    check(TURNS, call(json!("{\"b\": 1, \"a\": [\"é\"]}")), &turn(" b=1 a=[\"é\"]"));
    check(TURNS, call(json!({"b": 1.0, "a": null})), &turn(" b=1.0 a=null"));
    check(TURNS, call(json!(null)), &turn(""));
    check(TURNS, call(json!("")), &turn(""));
    assert!(matches!(render(TURNS, call(json!("{broken"))), Err(TemplateError::Failed { .. })));
    // Where they are printed or joined, they are the text they came as.
    check(JOINED, call(json!("{\"b\":1}")), "<call>f {\"b\":1}</call>\nassistant: \n");
    check(JOINED, call(json!({"b": 1})), "<call>f {\"b\": 1}</call>\nassistant: \n");
    check(JOINED, call(json!("{broken")), "<call>f {broken</call>\nassistant: \n");
    let want = "<s>Today is 04 Jul 2025.\nassistant: \nf({\"b\":1})\n";
    check(TEXT, call(json!("{\"b\":1}")), want);
}

/// Content that is null, missing, empty or in parts, with everything else a message may have.
#[test]
fn c7_shapes_of_content() {
    let empty = "<|turn|>assistant\n<|end|>\n<|turn|>assistant\n";
    check(TURNS, json!([{"role": "assistant", "content": null, "tool_calls": null}]), empty);
    check(TURNS, json!([{"role": "assistant", "tool_calls": []}]), empty);
    check(JOINED, json!([{"role": "tool", "content": null}]), "tool: \n");
    let parts = json!([{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]);
    check(JOINED, json!([{"role": "user", "content": parts}]), "user: a b\n");
    check(JOINED, json!([{"role": "user", "content": []}]), "user: \n");
    check("{{ messages[0].content }}", json!([{"role": "user", "content": parts}]), "a b");
    let asks = "{% if messages[0].content is none %}nothing{% endif %}";
    check(asks, json!([{"role": "assistant"}]), "nothing");
    let all = json!([{"role": "assistant", "content": "c", "reasoning_content": "r", "tool_calls":
        [{"function": {"name": "f", "arguments": "{\"x\":1}"}}]}]);
    let want =
        "<|turn|>assistant\n<think>r</think>\nc<call>f x=1</call><|end|>\n<|turn|>assistant\n";
    check(TURNS, all, want);
}

#[test]
fn a_developer_is_the_system_where_there_is_none() {
    let messages = json!([{"role": "developer", "content": "a"}]);
    check("{{ messages[0].role }}", messages.clone(), "system");
    check("{{ messages[0].role }} {# developer #}", messages, "developer ");
}

#[test]
fn variables_reach_the_template_and_not_its_tokens() {
    let mut chat = chat(json!([]));
    chat.vars = json!({"enable_thinking": false, "bos_token": "x"}).as_object().unwrap().clone();
    assert_eq!(render_chat(TURNS, &chat).unwrap().text, "<|turn|>assistant\n<think></think>");
    assert_eq!(render_chat("{{ bos_token }}", &chat).unwrap().text, "<s>");
}

/// A thousand messages and a hundred tools are no endless work.
#[test]
fn long_conversations_are_rendered() {
    let turn = |i: usize| json!({"role": (["user", "assistant"][i % 2]), "content": "Why?"});
    let mut chat = chat((0..1000).map(turn).collect());
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    chat.tools = vec![Tool::function("f", "Does it.", schema); 100];
    let sliced = "{% for m in messages %}{{ messages[loop.index0:] | length }}{% endfor %}";
    for source in [TURNS, STRICT, TEXT, JOINED, sliced] {
        assert!(render_chat(source, &chat).is_ok());
    }
}

/// Templates that would not end, or would not fit.
#[test]
fn templates_are_bounded() {
    let endless = [
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{% set ns = namespace(a='xxxxxxxx') %}{% for i in range(9) %}{% set ns.a = ns.a * 999 %}{% endfor %}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
        "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = ns.a + [1] %}{% endfor %}",
        "{% for i in range(9999) %}{{ messages[0].content * 9999 }}{% endfor %}",
    ];
    for source in endless {
        let started = std::time::Instant::now();
        let got = render(source, json!([{"role": "user", "content": "xxxxxxxxxxxxxxxx"}]));
        assert!(matches!(got, Err(TemplateError::Endless(_))), "{source}: {got:?}");
        assert!(started.elapsed().as_secs() < 20, "{source}");
    }
    let deep = [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a | tojson }}".to_owned(),
        "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = namespace(a=ns.a) %}{% endfor %}".to_owned(),
        "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}".to_owned(),
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        "{% if 1 %}".repeat(50_000),
        format!("{{{{ {}1 }}}}", "-".repeat(200_000)),
        "x".repeat(1 << 21),
    ];
    for source in deep {
        assert!(render(&source, json!([])).is_err());
    }
}
