//! Chat templates against transformers' own renderings, and against the faults of the field.
#![allow(clippy::unwrap_used)]
use rinfer_text::chat::Chat;
use rinfer_text::template::{DateTime, Template, TemplateError};
use serde_json::{Map, Value};

const NOW: DateTime = DateTime { year: 2025, month: 7, day: 4, hour: 12, minute: 34, second: 56 };

/// Other people's templates: all renderings and all refusals are transformers'.
#[test]
fn templates_of_published_models() {
    let Some(path) = rinfer_testkit::shared::shared("goldens/chat_templates") else { return };
    let text = std::fs::read(path.join("chat_templates.json")).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    let (mut rendered, mut refused, mut wrong) = (0, 0, Vec::new());
    for t in file["templates"].as_array().unwrap() {
        let tokens = t["tokens"].as_object().unwrap();
        let tokens = tokens.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
        let template =
            Template::new(t["chat_template"].as_str().unwrap()).unwrap().with_tokens(tokens);
        for case in t["cases"].as_array().unwrap() {
            let index = case["context"].as_u64().unwrap() as usize;
            let context = file["contexts"][index].as_object().unwrap();
            let place = format!("{} {}", t["name"], case["name"]);
            let got = template.render_context(context, NOW);
            match check(case, &got) {
                Ok(true) => rendered += 1,
                Ok(false) => refused += 1,
                Err(difference) => wrong.push(format!("{place}: {difference}")),
            }
            if case["expected"].as_str().is_some_and(|want| !differs_by_design(case, want)) {
                let got = template.render(&chat(context), NOW).map(|prompt| prompt.text);
                if let Err(difference) = check(case, &got) {
                    wrong.push(format!("{place} (typed): {difference}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((rendered, refused), (1019, 151));
}

/// Through the types, arguments as JSON text are an object, and what transformers prints of Python's
/// own lists and `None` is text.
fn differs_by_design(case: &Value, want: &str) -> bool {
    match case["name"].as_str() {
        Some("tool_call_string_args") => true,
        Some("content_parts") => want.contains("[{'type': 'text', 'text': 'Part one. '}"),
        Some("tool_call_none_content") => ["None", "null"].iter().any(|none| want.contains(none)),
        _ => false,
    }
}

/// Whether it was rendered or refused, as expected; or what differs.
fn check(case: &Value, got: &Result<String, TemplateError>) -> Result<bool, String> {
    match (case["expected"].as_str(), case["error"].as_str(), got) {
        (Some(want), _, Ok(got)) if want == got => Ok(true),
        (Some(want), _, Ok(got)) => {
            let at = want.bytes().zip(got.bytes()).take_while(|(a, b)| a == b).count();
            let from = at.saturating_sub(30);
            let part = |s: &str| {
                String::from_utf8_lossy(&s.as_bytes()[from..(at + 60).min(s.len())]).into_owned()
            };
            Err(format!("expected {:?}, got {:?}", part(want), part(got)))
        }
        (_, Some(want), Err(TemplateError::Refused(got))) if want == got => Ok(false),
        (_, Some(want), Err(TemplateError::Failed { .. })) if want.contains("Error: ") => Ok(false),
        (_, _, got) => Err(format!("{case}, got {got:?}")),
    }
}

fn chat(context: &Map<String, Value>) -> Chat {
    let fixed = ["messages", "tools", "add_generation_prompt"];
    let mut vars = context.clone();
    vars.retain(|k, _| !fixed.contains(&k.as_str()));
    let tools = context["tools"].clone();
    Chat {
        messages: context["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| {
                let mut m = m.clone();
                // transformers' aliases of reasoning_content are one field here
                m.as_object_mut().unwrap().remove("thinking");
                serde_json::from_value(m).unwrap()
            })
            .collect(),
        tools: if tools.is_null() { Vec::new() } else { serde_json::from_value(tools).unwrap() },
        add_generation_prompt: context["add_generation_prompt"].as_bool().unwrap(),
        vars,
    }
}
