//! Responses: their items and events.
use crate::client::Response;
use crate::rig::{Rig, Running};
use serde_json::{Value, json};

const CALL: &str = r#"Let me see.<tool_call>
{"name": "weather", "arguments": {"city": "Oslo"}}
</tool_call>"#;

fn ask(server: &Running, more: Value) -> Response {
    let mut body = json!({"model": "scripted", "input": "Hi"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post("/v1/responses", &body)
}

fn tools() -> Value {
    json!([{"type": "function", "name": "weather", "strict": true, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": false}}])
}

/// A9: every event has its number and names its item, in the order that clients wait for; the last has
/// the whole response, which is the one that is not streamed.
fn both(server: &Running, more: Value) -> Value {
    let whole = ask(server, more.clone()).json();
    let mut more = more;
    more["stream"] = true.into();
    let events = ask(server, more).events();
    let mut output: Vec<Value> = Vec::new();
    let mut response = Value::Null;
    let mut open: Vec<String> = Vec::new();
    for (i, (name, data)) in events.iter().enumerate() {
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(i)));
        match name.as_str() {
            "response.created" | "response.in_progress" => {
                assert_eq!(event["response"]["status"], "in_progress");
                assert!(i < 2);
            }
            "response.output_item.added" => {
                assert_eq!(event["output_index"], output.len());
                assert!(open.is_empty());
                output.push(event["item"].clone());
                open.push("item".into());
            }
            "response.content_part.added" => open.push(String::new()),
            "response.output_text.delta" | "response.reasoning_text.delta" => {
                assert_eq!(event["item_id"], output.last().unwrap()["id"]);
                *open.last_mut().unwrap() += event["delta"].as_str().unwrap();
            }
            "response.output_text.done" | "response.reasoning_text.done" => {
                assert_eq!(event["text"], open.last().unwrap().as_str());
            }
            "response.content_part.done" => assert_eq!(event["part"]["text"], open.pop().unwrap()),
            "response.function_call_arguments.delta" => {
                let call = output.last_mut().unwrap();
                let text = format!(
                    "{}{}",
                    call["arguments"].as_str().unwrap(),
                    event["delta"].as_str().unwrap()
                );
                call["arguments"] = text.into();
            }
            "response.function_call_arguments.done" => {
                assert_eq!(event["arguments"], output.last().unwrap()["arguments"]);
            }
            "response.output_item.done" => {
                assert_eq!(open.pop().unwrap(), "item");
                *output.last_mut().unwrap() = event["item"].clone();
            }
            "response.completed" | "response.incomplete" => {
                assert_eq!(i, events.len() - 1);
                response = event["response"].clone();
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(response["output"], json!(output));
    let plain = |response: &Value| {
        let mut response = response.clone();
        for name in ["id", "usage"] {
            response[name] = Value::Null;
        }
        for item in response["output"].as_array_mut().unwrap() {
            item["id"] = Value::Null;
            item.as_object_mut().unwrap().remove("call_id");
        }
        response
    };
    assert_eq!(plain(&whole), plain(&response));
    whole
}

#[test]
fn a9_responses() {
    let server = Rig::default().start();
    let body = both(&server, json!({"metadata": {"a": "b"}, "instructions": "Be brief."}));
    assert_eq!((&body["object"], &body["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(
        (&body["metadata"], &body["instructions"]),
        (&json!({"a": "b"}), &json!("Be brief."))
    );
    assert_eq!(body["output"][0]["content"][0]["text"], "Hello!");
    assert_eq!(body["usage"]["output_tokens"], 6);
    let cut = both(&server, json!({"max_output_tokens": 3}));
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    assert_eq!(cut["output"][0]["status"], "incomplete");
    let format = json!({"format": {"type": "json_schema", "name": "x", "schema": {"const": 7}}});
    let seven = both(&Rig::saying("7").start(), json!({"text": format}));
    assert_eq!(seven["output"][0]["content"][0]["text"], "7");
}

#[test]
fn a9_calls_and_thoughts() {
    let server = Rig::saying(CALL).start();
    let body = both(&server, json!({"tools": tools()}));
    let call = &body["output"][1];
    assert_eq!(
        (&call["type"], &call["name"], &call["arguments"]),
        (&json!("function_call"), &json!("weather"), &json!(r#"{"city": "Oslo"}"#))
    );
    let thinking =
        both(&Rig::saying("Well.</think>Yes.").start(), json!({"reasoning": {"effort": "low"}}));
    assert_eq!(
        thinking["output"][0]["content"][0],
        json!({"type": "reasoning_text", "text": "Well."})
    );
    assert_eq!(thinking["output"][1]["content"][0]["text"], "Yes.");
    assert_eq!(
        thinking["usage"]["output_tokens_details"]["reasoning_tokens"],
        "Well.</think>".len()
    );
}

/// A9: a conversation goes on by its last response, streamed or not, or by its items.
#[test]
fn a9_conversations_go_on() {
    let server = Rig::saying(CALL).start();
    for stream in [false, true] {
        let first = ask(&server, json!({"tools": tools(), "stream": stream}));
        let first = if stream {
            let (_, data) = first.events().pop().unwrap();
            serde_json::from_str::<Value>(&data).unwrap()["response"].clone()
        } else {
            first.json()
        };
        let call = &first["output"][1];
        let result = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."}]);
        let next = ask(
            &server,
            json!({"previous_response_id": first["id"], "input": result, "tools": tools()}),
        );
        assert_eq!(next.status, 200);
        let mut items =
            vec![json!({"role": "user", "content": [{"type": "input_text", "text": "Hi"}]})];
        items.extend(first["output"].as_array().unwrap().clone());
        items.push(result[0].clone());
        let same = ask(&server, json!({"input": items, "tools": tools()})).json();
        assert_eq!(next.json()["usage"]["input_tokens"], same["usage"]["input_tokens"]);
        // All of it was computed before.
        let usage = &same["usage"];
        assert_eq!(
            usage["input_tokens_details"]["cached_tokens"].as_u64().unwrap() + 1,
            usage["input_tokens"].as_u64().unwrap()
        );
    }
    let gone = ask(&server, json!({"previous_response_id": "resp_x"}));
    assert_eq!(gone.status, 404);
    let kept = ask(&server, json!({"store": false})).json();
    assert_eq!(ask(&server, json!({"previous_response_id": kept["id"]})).status, 404);
}

/// A9: what agents send: several instructions, tools of other kinds, thoughts of earlier turns.
#[test]
fn a9_what_agents_send() {
    let server = Rig::default().start();
    let input = json!([
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": null, "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "function_call", "name": "weather", "arguments": "{\"city\": \"Oslo\"}", "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "Rain."}]},
    ]);
    let mut offered = tools().as_array().unwrap().clone();
    offered.push(json!({"type": "web_search"}));
    offered.push(json!({"type": "local_shell"}));
    let more = json!({
        "instructions": "You are an agent.", "input": input, "tools": offered, "tool_choice": "auto",
        "parallel_tool_calls": false, "store": false, "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "x", "reasoning": {"effort": "medium", "summary": "auto"}, "stream": true,
    });
    let response = ask(&server, more);
    assert_eq!(
        response.header("x-rinfer-ignored"),
        Some("tools[1] (web_search), tools[2] (local_shell)")
    );
    assert_eq!(response.events().last().unwrap().0, "response.completed");
    for (more, param) in [
        (json!({"input": []}), "input"),
        (json!({"input": [{"type": "item_reference", "id": "x"}]}), "input[0].type"),
        (json!({"truncation": "some"}), "truncation"),
        (json!({"max_output_tokens": 0}), "max_output_tokens"),
        (json!({"background": true}), "background"),
        (json!({"input": null}), "input"),
        (json!({"text": {"format": {"type": "xml"}}}), "text.format.type"),
    ] {
        let refused = ask(&server, more);
        assert_eq!(refused.status, 400);
        assert_eq!(refused.json()["error"]["param"], param);
    }
}
