//! Fields of requests: none is overlooked.
use crate::client::{post_with, send};
use crate::rig::{CONTEXT, Rig, asking};
use rinfer_server::Config;
use serde_json::{Value, json};

/// M1, M9: what is out of its range is refused by name.
#[test]
fn m1_m9_ranges() {
    let server = Rig::default().start();
    let refused = [
        ("temperature", json!(-1)),
        ("temperature", json!("warm")),
        ("top_p", json!(1.1)),
        ("top_p", json!(-1)),
        ("min_p", json!(2)),
        ("repeat_penalty", json!(0)),
        ("max_tokens", json!(0)),
        ("max_completion_tokens", json!(0)),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(1.5)),
        ("n", json!(0)),
        ("n", json!(1000)),
        ("seed", json!("x")),
        ("stop", json!(7)),
        ("stop", json!([""])),
        ("stop", json!(["a", 1])),
        ("logit_bias", json!({"x": 1})),
        ("logit_bias", json!({"99999": 1})),
        ("stream", json!("yes")),
        ("stream_options", json!(7)),
        ("tools", json!({})),
        ("tool_choice", json!("maybe")),
        ("response_format", json!({"type": "xml"})),
        ("reasoning_effort", json!("very")),
        ("modalities", json!(["audio"])),
    ];
    for (name, value) in refused {
        let mut more = json!({});
        more[name] = value.clone();
        let response = server.chat(more);
        assert_eq!(response.status, 400, "{name}: {value}");
        let error = response.json()["error"].clone();
        let param = error["param"].as_str().unwrap_or_default();
        assert!(param.starts_with(name), "{name}: {error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    for (name, value) in [
        ("temperature", json!(0)),
        ("temperature", json!(1e-38)),
        ("top_p", json!(0)),
        ("top_p", json!(1)),
        ("top_k", json!(0)),
        ("min_p", json!(1)),
        ("temperature", Value::Null),
    ] {
        let mut more = json!({});
        more[name] = value;
        assert_eq!(server.chat(more).status, 200, "{name}");
    }
}

/// M9: of two limits the smaller holds, and the server's holds in any case.
#[test]
fn m9_limits() {
    let rig = Rig::saying("0123456789");
    let config = Config { max_tokens: Some(6), ..rig.config.clone() };
    let server = Rig { config, ..rig }.start();
    for (more, expected) in [
        (json!({"max_tokens": 2, "max_completion_tokens": 4}), 2),
        (json!({"max_tokens": 4, "max_completion_tokens": 2}), 2),
        (json!({"max_completion_tokens": 3}), 3),
        (json!({"max_tokens": 50}), 6),
        (json!({}), 6),
    ] {
        let body = server.chat(more).json();
        assert_eq!(body["usage"]["completion_tokens"], expected);
        assert_eq!(body["choices"][0]["finish_reason"], "length");
    }
}

/// M4, M5: seeds are heard, and change nothing else.
#[test]
fn m4_m5_unknown_fields_are_named() {
    let server = Rig::default().start();
    let response = server
        .chat(json!({"options": {"seed": 1}, "num_ctx": 5, "seed": 3, "x": null, "user": "me"}));
    assert_eq!(
        (response.status, response.header("x-rinfer-ignored")),
        (200, Some("options, num_ctx, x"))
    );
    assert_eq!(server.chat(json!({"user": "me", "store": true})).header("x-rinfer-ignored"), None);
    let rig = Rig::default();
    let strict = Rig { config: Config { strict: true, ..rig.config.clone() }, ..rig }.start();
    let refused = strict.chat(json!({"num_ctx": 5}));
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["param"], "num_ctx");
}

/// What an API documents and is not offered is refused, unless it asks for nothing.
#[test]
fn documented_fields_are_refused_by_name() {
    let server = Rig::default().start();
    for (name, value) in [
        ("functions", json!([{"name": "x"}])),
        ("audio", json!({"voice": "x"})),
        ("prediction", json!({"type": "content"})),
        ("web_search_options", json!({"x": 1})),
    ] {
        let mut more = json!({});
        more[name] = value;
        let error = server.chat(more).json()["error"].clone();
        assert_eq!(
            (&error["param"], &error["code"]),
            (&json!(name), &json!("unsupported_parameter"))
        );
    }
    assert_eq!(server.chat(json!({"functions": [], "audio": null, "logprobs": false})).status, 200);
}

/// X1, X2: prompts are never cut; what is too long is told with both numbers.
#[test]
fn x1_x2_long_prompts() {
    let server = Rig::default().start();
    // The begin token, and what the template adds.
    let frame = 1 + "[user][assistant]".len();
    let ask = |length: usize| {
        server.post("/v1/chat/completions", &json!({
            "model": "scripted", "messages": [{"role": "user", "content": "x".repeat(length - frame)}]}))
    };
    let body = ask(CONTEXT - 1).json();
    assert_eq!(
        (&body["usage"]["completion_tokens"], &body["choices"][0]["finish_reason"]),
        (&json!(1), &json!("length"))
    );
    for length in [CONTEXT, CONTEXT + 1, 3 * CONTEXT] {
        let response = ask(length);
        assert_eq!(response.status, 400);
        let error = response.json()["error"].clone();
        assert_eq!(error["code"], "context_length_exceeded");
        let says = error["message"].as_str().unwrap();
        assert!(
            says.contains(&length.to_string()) && says.contains(&CONTEXT.to_string()),
            "{says}"
        );
    }
}

/// A10: a model that is not there is not another.
#[test]
fn a10_models_by_name() {
    let server = Rig::default().start();
    for name in [
        "Scripted",
        "",
        "scripted ",
        "../scripted",
        "..\\scripted",
        "%2e%2e/x",
        "/etc/passwd",
        "CON",
    ] {
        let response = server.post("/v1/chat/completions", &asking(json!({"model": name})));
        assert_eq!(response.status, 404, "{name}");
        let error = response.json()["error"].clone();
        assert_eq!(error["code"], "model_not_found");
        assert!(
            error["message"].as_str().unwrap().contains("'scripted', 'other/model'"),
            "{error}"
        );
    }
    assert_eq!(server.post("/v1/chat/completions", &asking(json!({"model": null}))).status, 400);
    let other = server.chat(json!({"model": "other/model"})).json();
    assert_eq!(
        (&other["model"], &other["choices"][0]["message"]["content"]),
        (&json!("other/model"), &json!("Other."))
    );
    let list = server.get("/v1/models").json();
    let names: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(names, ["scripted", "other/model"]);
    assert_eq!(server.get("/v1/models/other/model").json(), list["data"][1]);
    assert_eq!(server.get("/v1/models/x").status, 404);
}

/// R4: deep nesting, wherever it is.
#[test]
fn r4_depth() {
    let server = Rig::default().start();
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for depth in [200, 1000, 100_000] {
        for field in
            ["messages", "metadata", "unknown", "tools", "response_format", "chat_template_kwargs"]
        {
            let body = format!("{{\"model\": \"scripted\", \"{field}\": {}}}", deep(depth));
            let response = post_with(server.addr, "/v1/chat/completions", "", &body);
            assert_eq!(response.status, 400, "{field}");
        }
        assert_eq!(post_with(server.addr, "/v1/chat/completions", "", &deep(depth)).status, 400);
        let open = "[".repeat(depth);
        assert_eq!(post_with(server.addr, "/v1/chat/completions", "", &open).status, 400);
    }
    // What the parser lets through is refused by the schema's reader, or harmless.
    let body = format!(
        "{{\"model\": \"scripted\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hi\"}}], \"metadata\": {}}}",
        deep(100)
    );
    assert_eq!(post_with(server.addr, "/v1/chat/completions", "", &body).status, 200);
    assert_eq!(server.chat(json!({})).status, 200);
}

#[test]
fn bodies_that_are_none() {
    let server = Rig::default().start();
    for body in ["", "{", "7", "\u{0}", "{\"model\": \"scripted\"} x"] {
        let response = post_with(server.addr, "/v1/chat/completions", "", body);
        assert_eq!(response.status, 400, "{body:?}");
    }
    let head = |kind: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: 2\r\nConnection: close\r\n\r\n"
        )
    };
    for kind in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/jsonx\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
    ] {
        assert_eq!(send(server.addr, &head(kind), b"{}").status, 415, "{kind}");
    }
    let good = head("Content-Type: Application/JSON; charset=utf-8\r\n");
    assert_eq!(send(server.addr, &good, b"{}").status, 400);
    let unknown = server.get("/v1/chats");
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["error"]["message"].as_str().unwrap().contains("/v1/chats"));
    assert_eq!(server.get("/v1/chat/completions").status, 405);
}

/// As llama-server has them.
#[test]
fn tokens() {
    let server = Rig::default().start();
    let tokenize = |more: Value| {
        let mut body = json!({"model": "scripted", "content": "Hi<s>"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/tokenize", &body).json()["tokens"].clone()
    };
    let plain = crate::rig::ids("Hi");
    assert_eq!(tokenize(json!({})), json!([plain[0], plain[1], 1]));
    assert_eq!(tokenize(json!({"add_special": true}))[0], 1);
    assert_eq!(tokenize(json!({"parse_special": false})), json!(crate::rig::ids("Hi<s>")));
    assert_eq!(tokenize(json!({"with_pieces": true}))[0], json!({"id": plain[0], "piece": "H"}));
    let text = server.post("/detokenize", &json!({"model": "scripted", "tokens": plain})).json();
    assert_eq!(text, json!({"content": "Hi"}));
    let bad = server.post("/detokenize", &json!({"model": "scripted", "tokens": [256]}));
    assert_eq!(bad.status, 400);
    let prompt = server.post("/apply-template", &asking(json!({}))).json();
    assert_eq!(prompt, json!({"prompt": "[user]Hi[assistant]"}));
}

/// An answer is held to one form: two are refused by their names, on every route.
#[test]
fn two_forms_at_once() {
    let server = Rig::default().start();
    let schema = json!({"type": "object"});
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let chat = json!({"messages": messages, "response_format": {"type": "json_object"}});
    let completion = json!({"prompt": "Hi", "response_format": {"type": "json_object"}});
    let response = json!({"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}});
    let format = json!({"type": "json_schema", "schema": schema});
    let message =
        json!({"messages": messages, "max_tokens": 9, "output_config": {"format": format}});
    let older = json!({"messages": messages, "max_tokens": 9, "output_format": format});
    for (path, first, body) in [
        ("/v1/chat/completions", "response_format", chat),
        ("/v1/completions", "response_format", completion),
        ("/v1/responses", "text.format", response),
        ("/v1/messages", "output_config.format", message.clone()),
        ("/v1/messages", "output_format", older),
    ] {
        for (second, value) in
            [("regex", json!("a+")), ("grammar", json!("start: \"a\"")), ("choice", json!(["a"]))]
        {
            let mut body = body.clone();
            body[second] = value;
            body["model"] = "scripted".into();
            let refused = server.post(path, &body);
            assert_eq!(refused.status, 400, "{path}");
            let text = refused.text();
            assert!(
                text.contains(first) && text.contains(&format!("{second}: ")),
                "{path}: {text}"
            );
        }
    }
    let mut both = message;
    both["output_format"] = format;
    both["model"] = "scripted".into();
    assert!(server.post("/v1/messages", &both).text().contains("output_format: holds"));
    let text = server.chat(json!({"regex": "a", "choice": ["a"]})).text();
    assert!(text.contains("choice: holds the answer to a form, and so does regex"), "{text}");
}

/// Fields that only chat completions have are named where other APIs are asked, and change nothing.
#[test]
fn fields_of_another_api() {
    let server = Rig::default().start();
    let more = json!({
        "model": "scripted", "stop": ["l"], "response_format": {"type": "json_object"}, "logit_bias": {},
        "presence_penalty": 1, "frequency_penalty": 1,
    });
    let named = "stop, response_format, logit_bias, presence_penalty, frequency_penalty";
    let messages = json!([{"role": "user", "content": "Hi"}]);
    for (path, own) in [
        ("/v1/messages", json!({"messages": messages, "max_tokens": 9})),
        ("/v1/responses", json!({"input": "Hi"})),
    ] {
        let mut body = more.clone();
        body.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let response = server.post(path, &body);
        assert_eq!((response.status, response.header("x-rinfer-ignored")), (200, Some(named)));
        assert!(response.text().contains("Hello!"));
    }
}

/// X1, X7: if a request asks for that, the oldest turns are left out, as few as can be, and it is told;
/// what the model is told first and the last turn stay. The same on each API.
#[test]
fn x1_x7_turns_are_left_out_if_that_is_asked_for() {
    let server = Rig::default().start();
    let mut turns = Vec::new();
    for i in 0..20 {
        let text = format!("{i:0>40}");
        turns.push(json!({"role": "user", "content": text}));
        turns.push(json!({"role": "assistant", "content": text}));
    }
    turns.push(json!({"role": "user", "content": "Hi"}));
    let told = [vec![json!({"role": "system", "content": "S"})], turns.clone()].concat();
    let bodies = |word: &str, last: &str| {
        let (mut turns, mut told) = (turns.clone(), told.clone());
        turns[40]["content"] = last.into();
        told[41]["content"] = last.into();
        [
            (
                "/v1/chat/completions",
                json!({"messages": told, "max_tokens": 100, "truncation": word}),
            ),
            (
                "/v1/responses",
                json!({
                    "instructions": "S", "input": turns, "max_output_tokens": 100, "truncation": word,
                }),
            ),
            (
                "/v1/messages",
                json!({
                    "system": "S", "messages": turns, "max_tokens": 100, "truncation": word,
                }),
            ),
        ]
    };
    let ask = |path: &str, mut body: Value, stream: bool| {
        body["model"] = "scripted".into();
        body["stream"] = stream.into();
        server.post(path, &body)
    };
    // Eight turns of 97 tokens and the 29 of all else leave room for 100.
    for (path, body) in bodies("auto", "Hi") {
        let response = ask(path, body.clone(), false);
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("x-rinfer-truncated"), Some("24"), "{path}");
        let usage = response.json()["usage"].clone();
        assert_eq!(usage["truncated_messages"], 24);
        let cached = usage["cache_read_input_tokens"].as_u64().unwrap_or(0);
        let prompt = usage["prompt_tokens"].as_u64().or(usage["input_tokens"].as_u64()).unwrap();
        assert_eq!(prompt + cached, 8 * 97 + 29, "{path}");
        let streamed = ask(path, body, true);
        assert_eq!(streamed.header("x-rinfer-truncated"), Some("24"), "{path}");
    }
    for (path, body) in bodies("disabled", "Hi") {
        let refused = ask(path, body, false);
        assert_eq!((refused.status, refused.header("x-rinfer-truncated")), (400, None), "{path}");
        assert!(refused.text().contains("1969 tokens"), "{path}");
    }
    // The last turn is never cut.
    for (path, body) in bodies("auto", &"x".repeat(CONTEXT)) {
        let refused = ask(path, body, false);
        assert_eq!(refused.status, 400, "{path}");
        let text = refused.text();
        assert!(
            text.contains(&format!("{} tokens", CONTEXT + 27)) && text.contains("1000"),
            "{text}"
        );
    }
    for (path, body) in bodies("middle", "Hi") {
        let refused = ask(path, body, false);
        assert_eq!(refused.status, 400, "{path}");
        assert!(refused.text().contains("truncation: 'middle'"), "{path}");
    }
    let short = server.chat(json!({"truncation": "auto"}));
    assert_eq!((short.status, short.header("x-rinfer-truncated")), (200, None));
    assert_eq!(short.json()["usage"].get("truncated_messages"), None);
}

/// Names that a header can't have as they are, or not all of them, take no other with them.
#[test]
fn names_of_unknown_fields_fit_a_header() {
    let server = Rig::default().start();
    let response = server.chat(json!({"zzz": 1, "gr\u{f6}\u{df}e": 2, "new\nline": 3}));
    assert_eq!(response.header("x-rinfer-ignored"), Some("zzz, gr\\u00f6\\u00dfe, new\\u000aline"));
    let many: serde_json::Map<String, Value> =
        (0..20_000).map(|i| (format!("field{i}"), json!(1))).collect();
    let response = server.chat(many.into());
    let named = response.header("x-rinfer-ignored").unwrap();
    assert!(named.starts_with("field0, field1, ") && named.ends_with(" more"), "{named}");
    assert!(named.len() < 3000);
}

/// Whoever sends a long text is told what is wrong with it, and not the text.
#[test]
fn refusals_are_short() {
    let server = Rig::default().start();
    let long = "\u{e9}".repeat(100_000);
    for more in [
        json!({"model": long}),
        json!({"reasoning_effort": long}),
        json!({"logit_bias": {long.clone(): 1}}),
        json!({"messages": [{"role": long, "content": ""}]}),
    ] {
        let refused = server.chat(more);
        assert!((400..=404).contains(&refused.status));
        let text = refused.text();
        assert!(text.len() < 7000, "{}", text.len());
    }
    let refused = server.chat(json!({"model": long})).json();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("there is no model") && message.ends_with("'other/model'"),
        "{message}"
    );
}

/// Tools that can't be told apart, or held to, are refused; the same one twice is one.
#[test]
fn tools_must_be_told_apart() {
    let server = Rig { context: 200_000, ..Rig::default() }.start();
    let tool = |name: &str, kind: &str| {
        let parameters = json!({"type": "object", "properties": {"x": {"type": kind}}});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    assert_eq!(
        server.chat(json!({"tools": [tool("a", "string"), tool("a", "string")]})).status,
        200
    );
    let many: Vec<Value> = (0..1000).map(|i| tool(&format!("t{i}"), "integer")).collect();
    for (tools, says) in [
        (json!([tool("a", "string"), tool("a", "integer")]), "two tools have this name"),
        (json!([tool("", "string")]), "must have a name"),
        (json!(many), "offer fewer tools"),
    ] {
        let refused = server.chat(json!({"tools": tools}));
        assert_eq!(refused.status, 400);
        let error = refused.json()["error"].clone();
        assert_eq!(error["param"], "tools", "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
}
