//! The document of all routes: it says what is read, and answers are as it says.
use crate::client::Response;
use crate::rig::{Rig, Running};
use serde_json::{Map, Value, json};

/// Bodies that each route answers.
fn bodies() -> Vec<(&'static str, Value)> {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    vec![
        ("/v1/chat/completions", json!({"messages": messages})),
        ("/v1/completions", json!({"prompt": "Hi"})),
        ("/v1/responses", json!({"input": "Hi"})),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 9})),
        ("/v1/messages/count_tokens", json!({"messages": messages})),
        ("/tokenize", json!({"content": "Hi"})),
        ("/detokenize", json!({"tokens": [5]})),
        ("/apply-template", json!({"messages": messages})),
    ]
}

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body["model"] = "scripted".into();
    body[name] = value;
    body
}

fn document(server: &Running) -> Value {
    let response = server.get("/openapi.json");
    assert_eq!(response.status, 200);
    response.json()
}

fn properties<'a>(document: &'a Value, path: &str) -> &'a Map<String, Value> {
    let schema =
        &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
    schema["properties"].as_object().unwrap_or_else(|| panic!("{path}"))
}

/// Holds a value to a schema of the document.
fn hold(document: &Value, schema: &Value, value: &Value) {
    if let Err(problem) = check(document, schema, value) {
        panic!("{problem}: {value}");
    }
}

/// As JSON Schema has it, of the keywords that the document uses; another is a fault of the document.
fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let wrong = |what: &str, expected: &Value| Err(format!("{value} has not {what} {expected}"));
    let number = |value: &Value| value.as_f64().unwrap();
    for (keyword, expected) in schema.as_object().unwrap() {
        let list = || expected.as_array().unwrap();
        match keyword.as_str() {
            "description" | "summary" | "properties" => {}
            "$ref" => {
                let path = expected.as_str().unwrap().strip_prefix('#').unwrap();
                check(document, document.pointer(path).unwrap(), value)?;
            }
            "const" if value != expected => return wrong("value", expected),
            "enum" if !list().contains(value) => return wrong("one of", expected),
            "type" => {
                let is = |kind: &Value| match kind.as_str().unwrap() {
                    "null" => value.is_null(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("{other}"),
                };
                let good =
                    expected.as_array().map_or_else(|| is(expected), |kinds| kinds.iter().any(is));
                if !good {
                    return wrong("type", expected);
                }
            }
            "oneOf" => {
                let good = list().iter().filter(|one| check(document, one, value).is_ok()).count();
                if good != 1 {
                    return wrong("exactly one of", expected);
                }
            }
            "required" => {
                let missing =
                    list().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                if let Some(name) = missing.filter(|_| value.is_object()) {
                    return wrong("field", name);
                }
            }
            "additionalProperties" => {}
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check(document, expected, item)?;
                }
            }
            "minItems"
                if value.as_array().is_some_and(|all| (all.len() as f64) < number(expected)) =>
            {
                return wrong("at least so many items:", expected);
            }
            "minLength"
                if value.as_str().is_some_and(|text| (text.len() as f64) < number(expected)) =>
            {
                return wrong("length", expected);
            }
            "minimum" if value.as_f64().is_some_and(|n| n < number(expected)) => {
                return wrong("minimum", expected);
            }
            "const" | "enum" | "minItems" | "minLength" | "minimum" => {}
            other => panic!("the keyword {other}"),
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(name);
        match known.or(schema.get("additionalProperties")) {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err(format!("there is a field {name}")),
            Some(schema) => check(document, schema, value).map_err(|e| format!("{name}: {e}"))?,
        }
    }
    Ok(())
}

/// The schema of what a route answers with.
fn answer<'a>(document: &'a Value, path: &str, method: &str, code: &str, kind: &str) -> &'a Value {
    let found = &document["paths"][path][method]["responses"][code]["content"][kind]["schema"];
    assert!(found.is_object(), "{path} {code} {kind}");
    found
}

/// Every field that a table names is read: what it can't be is refused by its name. That no other is read,
/// each request of all these tests shows: see `Fields::close`.
#[test]
fn fields_are_of_the_types_that_it_says() {
    let server = Rig::default().start();
    let document = document(&server);
    for (path, body) in bodies() {
        for (name, schema) in properties(&document, path) {
            let kinds: Vec<&str> = match &schema["type"] {
                Value::String(kind) => vec![kind],
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                _ => continue,
            };
            let wrong =
                [json!("\u{1}?"), json!(1.5), json!({"?": [[]]}), json!([{"?": 7}]), json!(true)];
            let of = |value: &Value| match value {
                Value::String(_) => "string",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::Array(_) => "array",
                _ => "object",
            };
            for value in wrong.into_iter().filter(|value| !kinds.contains(&of(value))) {
                let refused = server.post(path, &with(&body, name, value.clone()));
                assert_eq!(refused.status, 400, "{path} {name}: {value}");
                let text = refused.text();
                assert!(text.contains(name.as_str()), "{path} {name}: {value}: {text}");
            }
            let null = kinds.contains(&"null");
            let response = server.post(path, &with(&body, name, Value::Null));
            // Of two models one must be named.
            assert_eq!(response.status == 200, null && name != "model", "{path} {name}");
        }
        let required = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            ["schema"]["required"];
        for name in required.as_array().unwrap() {
            assert!(body.get(name.as_str().unwrap()).is_some(), "{path} {name}");
        }
    }
}

/// What it says of fields that are not read is so.
#[test]
fn what_is_refused_and_what_has_no_effect() {
    let server = Rig::default().start();
    let document = document(&server);
    for (path, body) in bodies() {
        for (name, schema) in properties(&document, path) {
            let about = schema["description"].as_str().unwrap_or_else(|| panic!("{path} {name}"));
            let response = |value: Value| server.post(path, &with(&body, name, value));
            if about.starts_with("refused: ") {
                assert_eq!(response(json!("x")).status, 400, "{path} {name}");
            } else if about.starts_with("no effect: ") {
                let response = response(json!("x"));
                assert_eq!(
                    (response.status, response.header("x-rinfer-ignored")),
                    (200, None),
                    "{path} {name}"
                );
            }
        }
    }
}

fn good(response: Response) -> Value {
    assert_eq!(response.status, 200);
    response.json()
}

/// Answers, events of streams and errors are of its schemas.
#[test]
fn answers_are_of_its_schemas() {
    let server = Rig { says: None, ..Rig::default() }.start();
    let document = document(&server);
    hold(
        &document,
        &json!({"type": "object", "required": ["openapi", "info", "paths"]}),
        &document,
    );
    for path in ["/health", "/v1/models"] {
        let schema = answer(&document, path, "get", "200", "application/json");
        hold(&document, schema, &good(server.get(path)));
    }
    let one = answer(&document, "/v1/models/{id}", "get", "200", "application/json");
    hold(&document, one, &good(server.get("/v1/models/scripted")));
    let call = "Say: Let me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    let said = json!([{"role": "user", "content": call}]);
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let function = json!({"name": "weather", "parameters": parameters});
    let tools = json!([{"type": "function", "function": function}]);
    let flat = json!([{"type": "function", "name": "weather", "parameters": parameters}]);
    let named = json!([{"name": "weather", "input_schema": parameters}]);
    let more = [
        (
            "/v1/chat/completions",
            json!({"messages": said, "tools": tools, "n": 2, "logprobs": true, "top_logprobs": 1}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": said, "stream_options": {"include_usage": true}}),
        ),
        ("/v1/completions", json!({"prompt": "Say: Hi.Go on:", "logprobs": 1, "n": 2})),
        ("/v1/responses", json!({"input": said, "tools": flat})),
        ("/v1/responses", json!({"input": "Say: Hello", "max_output_tokens": 2})),
        ("/v1/messages", json!({"messages": said, "tools": named, "max_tokens": 200})),
        ("/v1/messages", json!({"messages": said, "max_tokens": 2})),
    ];
    for (path, body) in bodies().into_iter().chain(more) {
        let whole = answer(&document, path, "post", "200", "application/json");
        hold(&document, whole, &good(server.post(path, &with(&body, "seed", json!(1)))));
        if document["paths"][path]["post"]["responses"]["200"]["content"]
            .get("text/event-stream")
            .is_some()
        {
            let event = answer(&document, path, "post", "200", "text/event-stream");
            let events = server.post(path, &with(&body, "stream", json!(true))).events();
            assert!(events.len() > 2, "{path}");
            for (_, data) in events.iter().filter(|(_, data)| data != "[DONE]") {
                hold(&document, event, &serde_json::from_str(data).unwrap());
            }
        }
        let error = answer(&document, path, "post", "default", "application/json");
        for wrong in [json!({"model": "x"}), json!({"model": "scripted"}), json!({"model": 7})] {
            let refused = server.post(path, &wrong);
            assert!(refused.status >= 400, "{path} {wrong}");
            hold(&document, error, &refused.json());
        }
    }
}
