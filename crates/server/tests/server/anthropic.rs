//! Messages: their shapes, whole and streamed.
use crate::rig::{Rig, Running};
use serde_json::{Value, json};

const CALL: &str = r#"Let me see.<tool_call>
{"name": "weather", "arguments": {"city": "Oslo"}}
</tool_call>"#;

fn ask(server: &Running, more: Value) -> crate::client::Response {
    let mut body = json!({
        "model": "scripted", "max_tokens": 200, "messages": [{"role": "user", "content": "Hi"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post("/v1/messages", &body)
}

fn tools() -> Value {
    json!([{"name": "weather", "description": "The weather.", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    }, "cache_control": {"type": "ephemeral"}}])
}

/// N4, L5: a message from its events, whose order is checked.
fn assemble(server: &Running, more: Value) -> Value {
    let mut more = more;
    more["stream"] = true.into();
    let events = ask(server, more).events();
    let (mut message, mut open, mut over) = (Value::Null, None, false);
    let mut input = String::new();
    for (name, data) in &events {
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(&data["type"], name.as_str());
        assert!(!over);
        match name.as_str() {
            "message_start" => {
                assert!(message.is_null());
                message = data["message"].clone();
                assert_eq!(message["content"], json!([]));
            }
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                assert!(open.is_none());
                assert_eq!(data["index"], content.len());
                open = Some(content.len());
                content.push(data["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                assert_eq!(data["index"], open.unwrap());
                let block = &mut message["content"][open.unwrap()];
                let delta = &data["delta"];
                let grow = |name: &str, block: &mut Value| {
                    let text = format!(
                        "{}{}",
                        block[name].as_str().unwrap(),
                        delta[name].as_str().unwrap()
                    );
                    block[name] = text.into();
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => grow("text", block),
                    "thinking_delta" => grow("thinking", block),
                    "input_json_delta" => input += delta["partial_json"].as_str().unwrap(),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let block = &mut message["content"][open.take().unwrap()];
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&input).unwrap();
                }
            }
            "message_delta" => {
                assert!(open.is_none());
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["stop_sequence"] = data["delta"]["stop_sequence"].clone();
                message["usage"] = data["usage"].clone();
            }
            "message_stop" => over = true,
            other => panic!("{other}"),
        }
    }
    assert!(over);
    message
}

/// Whole and streamed alike, but for names and what was cached.
fn both(server: &Running, more: Value) -> Value {
    let (mut whole, mut streamed) = (ask(server, more.clone()).json(), assemble(server, more));
    for message in [&mut whole, &mut streamed] {
        message["id"] = "".into();
        message["usage"] = Value::Null;
        message["content"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .filter(|b| b["type"] == "tool_use")
            .for_each(|b| b["id"] = "".into());
    }
    assert_eq!(whole, streamed);
    whole
}

#[test]
fn n4_messages() {
    let server = Rig::default().start();
    let message = both(&server, json!({}));
    assert_eq!(message["content"], json!([{"type": "text", "text": "Hello!"}]));
    assert_eq!(
        (&message["stop_reason"], &message["stop_sequence"]),
        (&json!("end_turn"), &Value::Null)
    );
    assert_eq!(both(&server, json!({"max_tokens": 3}))["stop_reason"], "max_tokens");
    let stopped = both(&server, json!({"stop_sequences": ["x", "lo"]}));
    assert_eq!(stopped["content"][0]["text"], "Hel");
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!("lo"))
    );
    let usage = ask(&server, json!({})).json()["usage"].clone();
    let counted = server
        .post(
            "/v1/messages/count_tokens",
            &json!({
        "model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}),
        )
        .json();
    let sum = usage["input_tokens"].as_u64().unwrap()
        + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(counted, json!({"input_tokens": sum}));
}

#[test]
fn l5_calls_and_thoughts() {
    let server = Rig::saying(CALL).start();
    let message = both(&server, json!({"tools": tools()}));
    assert_eq!(message["stop_reason"], "tool_use");
    let call = json!({"type": "tool_use", "id": "", "name": "weather", "input": {"city": "Oslo"}});
    assert_eq!(message["content"], json!([{"type": "text", "text": "Let me see."}, call]));
    let server = Rig::saying("Well.</think>Yes.").start();
    let message = both(&server, json!({"thinking": {"type": "enabled", "budget_tokens": 100}}));
    assert_eq!(
        message["content"][0],
        json!({"type": "thinking", "thinking": "Well.", "signature": ""})
    );
    assert_eq!(message["content"][1], json!({"type": "text", "text": "Yes."}));
}

#[test]
fn n4_conversations() {
    let server = Rig::default().start();
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Rain."}]},
            {"type": "text", "text": "And?"}]},
    ]);
    for system in [
        json!("Be brief."),
        json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]),
    ] {
        let more = json!({"messages": messages, "system": system, "tools": tools(), "metadata": {"user_id": "x"}});
        let response = ask(&server, more);
        assert_eq!((response.status, response.header("x-rinfer-ignored")), (200, None));
        assert_eq!(response.json()["content"][0]["text"], "Hello!");
    }
    let call = CALL.strip_prefix("Let me see.").unwrap();
    let forced = Rig::saying(call).start();
    let forced = ask(&forced, json!({"tools": tools(), "tool_choice": {"type": "any"}})).json();
    assert_eq!(forced["stop_reason"], "tool_use");
}

/// N2: errors of this API's own shape.
#[test]
fn n2_errors() {
    let server = Rig::default().start();
    let cases = [
        (json!({"model": "x"}), 404, "not_found_error", "scripted"),
        (json!({"max_tokens": null}), 400, "invalid_request_error", "max_tokens"),
        (json!({"messages": [{"role": "x", "content": ""}]}), 400, "invalid_request_error", "role"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}),
            400,
            "invalid_request_error",
            "can't see",
        ),
        (json!({"max_tokens": 0}), 400, "invalid_request_error", "max_tokens"),
        (json!({"stop_sequences": ["a", ""]}), 400, "invalid_request_error", "stop_sequences"),
        (json!({"stop_sequences": "a"}), 400, "invalid_request_error", "stop_sequences"),
    ];
    for (more, status, kind, says) in cases {
        let response = ask(&server, more);
        assert_eq!(response.status, status);
        let body = response.json();
        assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!(kind)));
        assert!(body["error"]["message"].as_str().unwrap().contains(says), "{body}");
    }
}

/// Tools that a server would run, or that only Anthropic's models know, are named as ignored, as the
/// responses route does; a request that is about one of them is refused.
#[test]
fn tools_of_other_kinds_are_named() {
    let server = Rig::default().start();
    let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8});
    let mut offered = tools().as_array().unwrap().clone();
    offered.insert(0, search.clone());
    offered.push(json!({"type": "bash_20250124", "name": "bash"}));
    let response = ask(&server, json!({"tools": offered}));
    let named = "tools[0] (web_search_20250305), tools[2] (bash_20250124)";
    assert_eq!((response.status, response.header("x-rinfer-ignored")), (200, Some(named)));
    let choice = json!({"type": "tool", "name": "web_search"});
    let refused = ask(&server, json!({"tools": [search], "tool_choice": choice}));
    assert_eq!(refused.status, 400);
    let text = refused.text();
    assert!(text.contains("tool_choice") && text.contains("web_search"), "{text}");
}
