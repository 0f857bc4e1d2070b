//! Calls in every syntax, held to their tools' schemas: whatever a scripted model likes to write, a call
//! that it finishes is read as one and has arguments that satisfy its tool's schema.
#![expect(clippy::unwrap_used, reason = "tests")]
mod scripted;
use rinfer_engine::generation::Generation;
use rinfer_engine::language::Language;
use rinfer_engine::model::Model;
use rinfer_engine::request::Finish;
use rinfer_engine::sample::Sampling;
use rinfer_engine::turn::{Ask, ToolChoice};
use rinfer_testkit::chat::{id_of, tokenizer_json};
use rinfer_text::chat::{Message, Role, Tool};
use rinfer_text::reply::Reply;
use rinfer_text::template::{DateTime, Template};
use rinfer_text::tokenizer::{Special, Tokenizer};
use rinfer_text::tools::{SYNTAXES, Syntax, Tools};
use scripted::{Scripted, limits};
use serde_json::{Value, json};

const CONTEXT: usize = 6000;
const END: u32 = 2;

/// A language whose template teaches a syntax. Tags are tokens of its own, or text.
fn language(syntax: &Syntax, tokens: bool) -> (Language, usize) {
    let mut file = tokenizer_json();
    let mut count = 256;
    for name in syntax.tokens.iter().filter(|_| tokens) {
        let added = json!({"id": count, "content": name, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true});
        file["added_tokens"].as_array_mut().unwrap().push(added);
        file["model"]["vocab"].as_object_mut().unwrap().insert((*name).into(), count.into());
        count += 1;
    }
    let begin = match syntax.name {
        "harmony" => "<|start|>assistant",
        "functionary_v3_2" => ">>>",
        _ => "",
    };
    let message = if syntax.name == "harmony" { "{# <|channel|>analysis #}" } else { "" };
    let source = format!(
        "{{{{ tools | tojson }}}}{{# {} #}}{message}{{% for m in messages %}}[{{{{ m.role }}}}]\
         {{{{ m.content }}}}{{% endfor %}}{begin}",
        syntax.marks.join(" #}{# ")
    );
    let tokenizer = Tokenizer::from_json(&serde_json::to_vec(&file).unwrap()).unwrap();
    let template = Template::new(&source).unwrap();
    let generation = Generation { end: vec![END], ..Generation::default() };
    (Language::new(tokenizer, Ok(template), generation), count as usize)
}

/// A model that writes this, then ends where it may, and before that writes at random, but for long
/// texts: those it ends.
fn random(syntax: &'static Syntax, tokens: bool, begun: &str, seed: u64) -> Model {
    let (language, vocab) = language(syntax, tokens);
    let begun = language.tokenizer.encode(begun, Special::Parse);
    assert_eq!(language.format().unwrap().syntax.map(|s| s.name), Some(syntax.name));
    let limits = limits(2, CONTEXT, 2 * CONTEXT, 64);
    let tags: Vec<Vec<u32>> =
        syntax.tags().iter().map(|tag| tag.bytes().map(id_of).collect()).collect();
    let prompt = std::sync::Mutex::new(None);
    let executor = Scripted::new(&limits, move |seen| {
        let start = *prompt.lock().unwrap().get_or_insert(seen.len());
        let said = &seen[start..];
        let mut state = seed ^ (said.len() as u64) << 20;
        let mut logits: Vec<f32> = (0..vocab)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 40) as f32 / (1 << 24) as f32 * 10.0
            })
            .collect();
        if said.len() % 64 > 24 {
            for byte in *b"\"'}]),<\n" {
                logits[id_of(byte) as usize] += 15.0;
            }
            (256..vocab).for_each(|id| logits[id] += 30.0);
            for tag in &tags {
                let begun = (1..tag.len()).rev().find(|n| said.ends_with(&tag[..*n]));
                logits[tag[begun.unwrap_or(0)] as usize] += 15.0 + 2.0 * begun.unwrap_or(0) as f32;
            }
        }
        logits[END as usize] = 1000.0;
        if let Some(id) = begun.get(said.len()) {
            logits[*id as usize] = 2000.0;
        }
        logits
    });
    let now = || DateTime::from_unix(0);
    Model::new(Box::new(executor), limits, vocab, language, now).unwrap()
}

/// Schemas that say much, and are said in many ways.
fn schemas() -> Vec<Value> {
    let object = |properties: Value, required: Value| {
        json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false})
    };
    vec![
        object(
            json!({"city": {"type": "string", "minLength": 2, "maxLength": 5},
                "unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer", "minimum": 1,
                "maximum": 14}, "exact": {"type": "boolean"}}),
            json!(["city", "unit", "days"]),
        ),
        object(
            json!({"at": {"type": "array", "minItems": 1, "maxItems": 2, "items": object(
                json!({"x": {"type": "number", "minimum": -1.5, "maximum": 90},
                    "name": {"type": "string", "maxLength": 4}, "no": {"type": "null"}}),
                json!(["x", "name"]))}, "tags": {"type": "array", "maxItems": 2,
                "items": {"enum": ["a", "b c", "it's"]}}}),
            json!(["at"]),
        ),
        json!({"type": "object", "$defs": {"word": {"type": "string", "pattern": "^[a-z]{1,3}$"}},
            "properties": {"word": {"$ref": "#/$defs/word"}, "other": {"anyOf": [{"$ref":
            "#/$defs/word"}, {"type": "null"}]}, "free": {"type": ["string", "null"]}, "mixed":
            {"anyOf": [{"type": "integer", "minimum": 5, "maximum": 9}, {"enum": ["7", "x"]}]},
            "deep": {"type": "object", "properties": {"of": {"const": "it"}, "n": {"const": 3}},
            "required": ["of", "n"], "additionalProperties": false}},
            "required": ["word", "other", "mixed", "deep"], "additionalProperties": false}),
        // Of nothing, and nothing said of it.
        object(json!({}), json!([])),
        json!({}),
    ]
}

/// Whether a value satisfies a schema, as far as those above go.
fn holds(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(map) = schema.as_object() else { return schema != &json!(false) };
    map.iter().all(|(key, says)| match (key.as_str(), value) {
        ("type", _) => {
            let is = |name: &Value| match name.as_str().unwrap() {
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "null" => value.is_null(),
                "array" => value.is_array(),
                _ => value.is_object(),
            };
            says.as_array().map_or_else(|| is(says), |names| names.iter().any(is))
        }
        ("enum", _) => says.as_array().unwrap().contains(value),
        ("const", _) => says == value,
        ("$ref", _) => holds(root, root.pointer(&says.as_str().unwrap()[1..]).unwrap(), value),
        ("anyOf", _) => says.as_array().unwrap().iter().any(|one| holds(root, one, value)),
        ("minimum", Value::Number(n)) => n.as_f64() >= says.as_f64(),
        ("maximum", Value::Number(n)) => n.as_f64() <= says.as_f64(),
        ("minLength", Value::String(s)) => s.chars().count() as u64 >= says.as_u64().unwrap(),
        ("maxLength", Value::String(s)) => s.chars().count() as u64 <= says.as_u64().unwrap(),
        ("pattern", Value::String(s)) => {
            (1..=3).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase())
        }
        ("minItems", Value::Array(a)) => a.len() as u64 >= says.as_u64().unwrap(),
        ("maxItems", Value::Array(a)) => a.len() as u64 <= says.as_u64().unwrap(),
        ("items", Value::Array(a)) => a.iter().all(|item| holds(root, says, item)),
        ("properties", Value::Object(o)) => {
            o.iter().all(|(k, v)| says.get(k).is_none_or(|inner| holds(root, inner, v)))
        }
        ("required", Value::Object(o)) => {
            says.as_array().unwrap().iter().all(|k| o.contains_key(k.as_str().unwrap()))
        }
        ("additionalProperties", Value::Object(o)) => {
            o.keys().all(|key| schema["properties"].get(key).is_some())
        }
        _ => true,
    })
}

/// How many answers of ten end, and what is wrong with them.
fn held(syntax: &'static Syntax, tokens: bool, auto: bool) -> (usize, Vec<String>) {
    let all = schemas();
    let tools: Vec<Tool> =
        (0..).zip(&all).map(|(i, s)| Tool::function(&format!("f{i}"), "F.", s.clone())).collect();
    let declared = Tools::new(&tools);
    let (mut finished, mut wrong) = (0, Vec::new());
    for i in 0..all.len() {
        for seed in 0..2 {
            let shapes = syntax.shapes(&declared.all()[i..], true);
            let begun = match syntax.name {
                _ if !auto => String::new(),
                "harmony" => format!("<|channel|>commentary {}", shapes[0].open),
                _ => shapes[0].open.clone(),
            };
            let choice = if auto { ToolChoice::Auto } else { ToolChoice::Named(format!("f{i}")) };
            let model = random(syntax, tokens, &begun, 7 * i as u64 + seed);
            let messages = vec![Message::new(Role::User, "Hi")];
            let ask = Ask { messages, tools: tools.clone(), choice, ..Ask::default() };
            let sampling = Sampling { max_tokens: Some(1200), ..Sampling::greedy() };
            let mut turn = model.turn(&ask, &sampling).unwrap();
            let deltas: Result<Vec<_>, _> = turn.by_ref().collect();
            let reply: Reply = match &deltas {
                Ok(deltas) => deltas.iter().collect(),
                Err(error) => {
                    wrong
                        .push(format!("{} {tokens} {:?} {seed}: {error}", syntax.name, ask.choice));
                    continue;
                }
            };
            let ended = turn.finish() == Some(Finish::Stop);
            finished += usize::from(ended);
            let called = !reply.calls.is_empty() && reply.content.is_empty();
            let right = reply.calls.iter().all(|(name, arguments)| {
                let schema = &all[name[1..].parse::<usize>().unwrap()];
                let value: Value = serde_json::from_str(arguments).unwrap();
                let named = ask.choice == ToolChoice::Named(name.clone()) || auto;
                value.is_object() && holds(schema, schema, &value) && named
            });
            if !right || ended && !called {
                wrong.push(format!("{} {tokens} {:?} {seed}: {reply:?}", syntax.name, ask.choice));
            }
        }
    }
    (finished, wrong)
}

fn check(auto: bool) {
    let mut all = Vec::new();
    for syntax in SYNTAXES {
        for tokens in [false, true] {
            let (finished, wrong) = held(syntax, tokens, auto);
            println!("{} {tokens}: {finished} of 10 ended", syntax.name);
            all.extend(wrong);
            if finished < 3 {
                all.push(format!("{} {tokens}: only {finished} of 10 ended", syntax.name));
            }
        }
    }
    assert!(all.is_empty(), "{} wrong:\n{}", all.len(), all.join("\n"));
}

#[test]
fn calls_that_must_be_made_satisfy_their_schemas() {
    check(false);
}

#[test]
fn calls_that_are_begun_satisfy_their_schemas() {
    check(true);
}
