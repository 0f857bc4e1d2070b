//! Chat completions: their shapes, whole and streamed.
use crate::rig::{CREATED, Rig, Running, asking};
use serde_json::{Value, json};

const WEATHER: &str = r#"Let me see.<tool_call>
{"name": "weather", "arguments": {"city": "Oslo"}}
</tool_call>
<tool_call>
{"name": "weather", "arguments": {"city": "Bergen"}}
</tool_call>"#;

fn tools() -> Value {
    let parameters = json!({
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    });
    json!([{"type": "function", "function": {"name": "weather", "parameters": parameters, "strict": true}}])
}

/// A message from a stream's deltas, as clients put it together.
fn assemble(chunks: &[Value], i: usize) -> (Value, Value) {
    let (mut message, mut reason) = (json!({"content": ""}), Value::Null);
    for chunk in chunks {
        for choice in chunk["choices"].as_array().unwrap().iter().filter(|c| c["index"] == i) {
            for (name, value) in choice["delta"].as_object().unwrap() {
                match (name.as_str(), value) {
                    ("tool_calls", Value::Array(calls)) => {
                        calls.iter().for_each(|call| add(&mut message, call))
                    }
                    (_, Value::String(text)) => {
                        let old = message[name].as_str().unwrap_or_default();
                        message[name] = format!("{old}{text}").into();
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !choice["finish_reason"].is_null() {
                assert!(reason.is_null(), "two ends");
                reason = choice["finish_reason"].clone();
            }
        }
    }
    (message, reason)
}

/// L1, L3: an index in each part; id, type and name in the first only.
fn add(message: &mut Value, call: &Value) {
    if message["tool_calls"].is_null() {
        message["tool_calls"] = json!([]);
    }
    let calls = message["tool_calls"].as_array_mut().unwrap();
    let index = call["index"].as_u64().unwrap() as usize;
    let text = call["function"]["arguments"].as_str().unwrap();
    if index == calls.len() {
        assert!(call["id"].is_string() && call["type"] == "function", "{call}");
        let mut call = call.clone();
        call.as_object_mut().unwrap().remove("index");
        calls.push(call);
    } else {
        assert!(call.get("id").is_none() && call["function"].get("name").is_none(), "{call}");
        let old = calls[index]["function"]["arguments"].as_str().unwrap();
        calls[index]["function"]["arguments"] = format!("{old}{text}").into();
    }
}

/// What an answer and its stream have in common: names differ.
fn same(mut whole: Value, mut streamed: Value) {
    for message in [&mut whole, &mut streamed] {
        message.as_object_mut().unwrap().remove("refusal");
        if message["content"].is_null() {
            message["content"] = "".into();
        }
        let calls = message["tool_calls"].as_array_mut();
        calls.into_iter().flatten().for_each(|call| call["id"] = "".into());
    }
    assert_eq!(whole, streamed);
}

#[test]
fn an_answer() {
    let server = Rig::default().start();
    let body = server.chat(json!({})).json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!((&body["created"], &body["model"]), (&json!(CREATED), &json!("scripted")));
    let message = json!({"role": "assistant", "content": "Hello!", "refusal": null});
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"});
    assert_eq!(body["choices"], json!([choice]));
    let prompt = "<s>[user]Hi[assistant]".len() - 2;
    assert_eq!(body["usage"]["prompt_tokens"], prompt);
    assert_eq!(body["usage"]["completion_tokens"], 6);
    assert_eq!(body["usage"]["total_tokens"], prompt + 6);
}

/// A1: what was counted comes in a chunk of its own if it is asked for, and else not at all.
#[test]
fn a1_usage_in_streams() {
    let server = Rig::default().start();
    for (options, expected) in
        [(json!({}), false), (json!({"include_usage": true}), true), (Value::Null, false)]
    {
        let chunks = server.chat(json!({"stream": true, "stream_options": options})).chunks();
        let (last, others) = chunks.split_last().unwrap();
        assert_eq!(last["choices"] == json!([]), expected);
        assert_eq!(last["usage"]["completion_tokens"] == 6, expected);
        assert!(
            others.iter().all(|chunk| chunk["usage"].is_null() && chunk["choices"] != json!([]))
        );
        assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    }
}

/// U1, U2: characters of several tokens, whole and streamed alike, also where the limit cuts one.
#[test]
fn u1_u2_characters_are_whole() {
    let text = "日本 🦙 é!";
    let server = Rig::saying(text).start();
    for most in 1..=text.len() {
        let more = json!({"max_tokens": most});
        let body = server.chat(more.clone()).json();
        let whole = body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        assert!(text.starts_with(&whole), "{whole}");
        let mut more = more;
        more["stream"] = true.into();
        let (streamed, reason) = assemble(&server.chat(more).chunks(), 0);
        assert_eq!(streamed["content"], whole.as_str());
        assert_eq!(reason, body["choices"][0]["finish_reason"]);
        assert_eq!(reason, "length");
    }
    assert_eq!(server.chat(json!({})).json()["choices"][0]["message"]["content"], text);
}

/// L1, L2, L3: calls, whole and streamed alike, and the same reason for the end.
#[test]
fn l1_l2_l3_calls() {
    let server = Rig::saying(WEATHER).start();
    let more = json!({"tools": tools()});
    let body = server.chat(more.clone()).json();
    let choice = &body["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let arguments: Vec<&str> =
        calls.iter().map(|c| c["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(arguments, [r#"{"city": "Oslo"}"#, r#"{"city": "Bergen"}"#]);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    let mut more = more;
    more["stream"] = true.into();
    let (streamed, reason) = assemble(&server.chat(more).chunks(), 0);
    assert_eq!(reason, "tool_calls");
    same(choice["message"].clone(), streamed);
}

/// J16: a call that the limit cuts off is none that is complete.
#[test]
fn j16_cut_calls_say_so() {
    let server = Rig::saying(WEATHER).start();
    for most in [20, 45, 60] {
        let more = json!({"tools": tools(), "max_tokens": most});
        let body = server.chat(more.clone()).json();
        assert_eq!(body["choices"][0]["finish_reason"], "length");
        let mut more = more;
        more["stream"] = true.into();
        let (streamed, reason) = assemble(&server.chat(more).chunks(), 0);
        assert_eq!(reason, "length");
        same(body["choices"][0]["message"].clone(), streamed);
    }
}

/// What a stop text cuts off is told as what the limit cuts off: a call that is not complete, and no text.
#[test]
fn calls_that_a_stop_text_cuts_are_no_text() {
    let server = Rig::saying(WEATHER).start();
    for stop in ["Oslo", "Bergen"] {
        let more = json!({"tools": tools(), "stop": [stop]});
        let choice = server.chat(more.clone()).json()["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "stop");
        let said = choice["message"]["content"].as_str().unwrap_or_default();
        assert!(!said.contains("tool_call"), "{said}");
        let mut more = more;
        more["stream"] = true.into();
        let (streamed, _) = assemble(&server.chat(more).chunks(), 0);
        same(choice["message"].clone(), streamed);
    }
}

#[test]
fn one_call_if_one_is_asked_for() {
    let server = Rig::saying(WEATHER).start();
    let body = server.chat(json!({"tools": tools(), "parallel_tool_calls": false})).json();
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(choice["finish_reason"], "tool_calls");
    let none = server.chat(json!({"tools": tools(), "tool_choice": "none"})).json();
    assert_eq!(none["choices"][0]["message"]["tool_calls"], Value::Null);
}

/// C6, C7: past calls with arguments as a string and without content, and their results.
#[test]
fn c6_c7_past_calls() {
    let server = Rig::default().start();
    let messages = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"},
        }]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
    ]);
    let body = json!({"model": "scripted", "messages": messages, "tools": tools()});
    let answer = server.post("/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello!");
}

/// C9: thoughts are apart, whole and streamed alike.
#[test]
fn c9_thoughts() {
    let server = Rig::saying("Well.</think>\n\nYes.").start();
    let more = json!({"reasoning_effort": "high"});
    let body = server.chat(more.clone()).json();
    let message = &body["choices"][0]["message"];
    assert_eq!(
        (&message["reasoning_content"], &message["content"]),
        (&json!("Well."), &json!("Yes."))
    );
    let mut more = more;
    more["stream"] = true.into();
    same(message.clone(), assemble(&server.chat(more).chunks(), 0).0);
}

/// L8: log-probabilities, of what is said alone, whole and streamed alike, with tools too.
#[test]
fn l8_logprobs() {
    let server = Rig::saying("Hm.</think>é!").start();
    let more =
        json!({"logprobs": true, "top_logprobs": 2, "reasoning_effort": "low", "tools": tools()});
    let whole = server.chat(more.clone()).json()["choices"][0]["logprobs"]["content"].clone();
    let bytes = |entry: &Value| entry["bytes"].clone();
    let all: Vec<Value> = whole.as_array().unwrap().iter().map(bytes).collect();
    assert_eq!(all, [json!([0xc3]), json!([0xa9]), json!([b'!'])]);
    for entry in whole.as_array().unwrap() {
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!((top.len(), bytes(&top[0])), (2, bytes(entry)));
        assert!(
            entry["logprob"].as_f64().unwrap() <= 0.0 && top[1]["logprob"].as_f64().unwrap() < -5.0
        );
    }
    let mut more = more;
    more["stream"] = true.into();
    let chunks = server.chat(more).chunks();
    let streamed: Vec<Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(json!(streamed), whole);
    assert_eq!(server.chat(json!({})).json()["choices"][0]["logprobs"], Value::Null);
    for bad in [json!({"top_logprobs": 2}), json!({"logprobs": true, "top_logprobs": 21})] {
        assert_eq!(server.chat(bad).json()["error"]["param"], "top_logprobs");
    }
}

#[test]
fn several_answers() {
    let server = Rig::saying("Yes.").start();
    let body = server.chat(json!({"n": 2})).json();
    let contents: Vec<&Value> =
        body["choices"].as_array().unwrap().iter().map(|c| &c["message"]["content"]).collect();
    assert_eq!(contents, ["Yes.", "Yes."]);
    assert_eq!(body["usage"]["completion_tokens"], 8);
    let prompt = body["usage"]["prompt_tokens"].clone();
    assert_eq!(prompt, server.chat(json!({})).json()["usage"]["prompt_tokens"]);
    let chunks = server.chat(json!({"n": 2, "stream": true})).chunks();
    assert!((0..2).all(|i| assemble(&chunks, i).0["content"] == "Yes."));
}

#[test]
fn answers_of_a_form() {
    let server = Rig::saying("no JSON").start();
    let schema = json!({
        "type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"], "additionalProperties": false,
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": true}});
    let content = |says: &str, more: Value| {
        let body = Rig::saying(says).start().chat(more).json();
        body["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(content("{no object", json!({"response_format": format})), r#"{"n": 7}"#);
    assert_eq!(content("yesterday", json!({"choice": ["maybe", "yes"]})), "yes");
    assert_eq!(content("cabs", json!({"regex": "[a-c]{3}"})), "cab");
    assert_eq!(content("no JSON", json!({"response_format": {"type": "text"}})), "no JSON");
    let two = server.chat(json!({"regex": "a", "choice": ["b"]}));
    assert_eq!(two.status, 400);
    let bad = server.chat(json!({"response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "strin"}}}}));
    assert_eq!(bad.status, 400);
}

/// C1: what the template refuses is the request's fault, and says what the template says.
#[test]
fn c1_the_template_refuses() {
    let server = Rig::default().start();
    let messages = json!([{"role": "user", "content": "raise"}]);
    let response =
        server.post("/v1/chat/completions", &json!({"model": "scripted", "messages": messages}));
    assert_eq!(response.status, 400);
    let error = response.json()["error"].clone();
    assert_eq!(error["type"], "invalid_request_error");
    assert!(error["message"].as_str().unwrap().contains("Roles must alternate"), "{error}");
}

/// A2, A3: roles and contents as clients send them.
#[test]
fn a2_a3_roles_and_parts() {
    let server = Rig::default().start();
    let part = |text: &str| json!({"type": "text", "text": text});
    let conversations = [
        json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]),
        json!([{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, {"role": "user", "content": "Hi"}]),
        json!([{"role": "user", "content": [part("Hi"), part("")]}]),
        json!([{"role": "user", "content": ""}]),
        json!([{"role": "user", "content": []}]),
        json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null}, {"role": "user", "content": null}]),
        json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [part("x")], "refusal": null,
            "annotations": []}, {"role": "user", "content": "?"}]),
    ];
    for messages in conversations {
        let response = server
            .post("/v1/chat/completions", &json!({"model": "scripted", "messages": messages}));
        let status = response.status;
        assert_eq!(status, 200, "{messages}: {}", response.text());
    }
    let refused = [
        (
            json!([{"role": "user", "content": [{"type": "video_url"}]}]),
            "messages[0].content[0]",
            "video_url",
        ),
        (
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]),
            "messages[0].content[0]",
            "can't see",
        ),
        (json!([{"role": "robot", "content": ""}]), "messages[0].role", "robot"),
        (json!([{"content": ""}]), "messages[0].role", "missing"),
        (json!([{"role": "user", "content": 7}]), "messages[0].content", "7"),
        (json!([]), "messages", "empty"),
        (json!("Hi"), "messages", "a list"),
    ];
    for (messages, param, says) in refused {
        let response = server
            .post("/v1/chat/completions", &json!({"model": "scripted", "messages": messages}));
        assert_eq!(response.status, 400);
        let error = response.json()["error"].clone();
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
}

/// K1, K6: what was computed is used again, which is counted and changes nothing.
#[test]
fn k1_k6_prompts_are_not_computed_twice() {
    let server = Rig::saying("Yes, of course.").start();
    let (long, longer) = (
        asking(json!({})),
        asking(json!({"messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes, of course."},
        {"role": "user", "content": "Sure?"}]})),
    );
    let ask = |body: &Value| {
        let answer = server.post("/v1/chat/completions", body).json();
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        (answer["choices"][0]["message"]["content"].clone(), cached)
    };
    let (first, none) = ask(&long);
    let (second, most) = ask(&long);
    assert_eq!((&first, none), (&second, 0));
    assert_eq!(
        most,
        long["messages"][0]["content"].as_str().unwrap().len() as u64
            + "<[user][assistant]".len() as u64
            - 1
    );
    assert!(ask(&longer).1 > most);
    assert_eq!(ask(&long).0, first);
}

/// K4: a prompt that is not to be kept is not, and takes nothing.
#[test]
fn k4_private_prompts_leave_nothing() {
    let server = Rig::saying("Yes, of course.").start();
    let routes = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"];
    let cached = |path: &str, private: bool| {
        let mut body = match path {
            "/v1/responses" => json!({"input": "Is it kept?"}),
            "/v1/completions" => json!({"prompt": "Go on: is it kept?"}),
            _ => asking(json!({"max_tokens": 20})),
        };
        body["model"] = "scripted".into();
        body["cache_prompt"] = (!private).into();
        let response = server.post(path, &body);
        let answer = response.json();
        let usage = &answer["usage"];
        let of = ["prompt_tokens_details", "input_tokens_details"].map(|key| &usage[key]);
        let found = of.iter().find_map(|details| details["cached_tokens"].as_u64());
        found.or(usage["cache_read_input_tokens"].as_u64()).unwrap()
    };
    for path in routes {
        assert_eq!((cached(path, true), cached(path, true)), (0, 0), "{path}");
        let kept = |server: &Running| {
            let text = server.get("/metrics").text();
            let line =
                text.lines().find(|l| l.starts_with("rinfer_kept_positions{model=\"scripted"));
            line.unwrap().rsplit(' ').next().unwrap().parse::<usize>().unwrap()
        };
        let before = kept(&server);
        assert_eq!(cached(path, true), 0, "{path}");
        assert_eq!(kept(&server), before, "{path}");
    }
    assert_eq!(cached(routes[0], false), 0, "nothing was left");
    assert!(cached(routes[0], false) > 0);
    assert_eq!(cached(routes[0], true), 0, "nothing is taken");
    let wrong = server.chat(json!({"cache_prompt": "no"})).json()["error"].clone();
    assert_eq!(wrong["param"], "cache_prompt", "{wrong}");
}

/// Several answers to one prompt compute it once, but for its last token.
#[test]
fn n_answers_compute_a_prompt_once() {
    let server = Rig { slots: 4, queue: 8, ..Rig::saying("Yes, of course.") }.start();
    let counted = |name: &str| {
        let text = server.get("/metrics").text();
        let line = text.lines().find(|line| line.starts_with(&format!("rinfer_{name} "))).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let answer = server.chat(json!({"n": 4})).json();
    let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 4);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(counted("prompt_tokens_total"), 4 * prompt);
    assert_eq!(counted("cached_tokens_total"), 3 * (prompt - 1));
}

#[test]
fn completions() {
    let server = Rig::saying(" and on.").start();
    let ask = |more: Value| {
        let mut body = json!({"model": "scripted", "prompt": "Go on:"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/completions", &body)
    };
    let body = ask(json!({})).json();
    assert_eq!(body["object"], "text_completion");
    let choice = json!({"index": 0, "text": " and on.", "logprobs": null, "finish_reason": "stop"});
    assert_eq!(body["choices"], json!([choice]));
    let text = |more| ask(more).json()["choices"][0]["text"].clone();
    assert_eq!(text(json!({"echo": true, "max_tokens": 4})), "Go on: and");
    let two = ask(json!({"prompt": ["Go on:", "x Go on:"], "n": 2})).json();
    assert_eq!(two["choices"].as_array().unwrap().len(), 4);
    assert_eq!(two["usage"]["prompt_tokens"], 7 + 9);
    let chunks = ask(json!({"stream": true, "echo": true})).chunks();
    let streamed: String =
        chunks.iter().map(|c| c["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(streamed, "Go on: and on.");
}

/// A completion's prompt as tokens, alone and several, and in the same list as texts.
#[test]
fn completions_of_tokens() {
    let server = Rig::saying(" and on.").start();
    let ask = |prompt: Value, more: Value| {
        let mut body = json!({"model": "scripted", "prompt": prompt, "max_tokens": 4});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/completions", &body)
    };
    let ids = crate::rig::ids("Go on:");
    let one = ask(json!(ids), json!({"echo": true})).json();
    assert_eq!(one["choices"][0]["text"], "Go on: and");
    // Nothing is added to tokens.
    assert_eq!(one["usage"]["prompt_tokens"], 6);
    let several = ask(json!([ids, "Go on:", ids]), json!({"n": 2, "echo": true})).json();
    let choices = several["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 6);
    assert!(choices.iter().enumerate().all(|(i, c)| c["index"] == i && c["text"] == "Go on: and"));
    assert_eq!(several["usage"]["prompt_tokens"], 6 + 7 + 6);
    let mut texts = vec![String::new(); 3];
    for chunk in ask(json!([ids, "Go on:", "x"]), json!({"stream": true})).chunks() {
        let choice = &chunk["choices"][0];
        texts[choice["index"].as_u64().unwrap() as usize] += choice["text"].as_str().unwrap();
    }
    assert_eq!(&texts[..2], [" and", " and"]);
    for (prompt, says) in [
        (json!([]), "prompt"),
        (json!([[]]), "prompt[0]"),
        (json!([1, -1]), "prompt"),
        (json!([1, 1.5]), "prompt"),
        (json!([["x"], [1]]), "prompt[0]"),
        (json!(["x", 1]), "prompt[1]"),
        (json!([256]), "256"),
        (json!({"text": "x"}), "prompt"),
        (Value::Null, "prompt"),
    ] {
        let refused = ask(prompt.clone(), json!({}));
        assert_eq!(refused.status, 400, "{prompt}");
        assert!(refused.text().contains(says), "{prompt}");
    }
    let many = ask(json!(vec!["x"; 20]), json!({}));
    assert_eq!(many.status, 400);
    assert_eq!(many.json()["error"]["code"], "too_many_answers");
}

/// L8: log-probabilities of completions, whole and streamed, in OpenAI's older shape.
#[test]
fn l8_logprobs_of_completions() {
    let text = "é日!";
    let server = Rig::saying(text).start();
    let ask = |more: Value| {
        let mut body = json!({"model": "scripted", "prompt": "Go on:"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/completions", &body)
    };
    let whole = ask(json!({"logprobs": 2})).json()["choices"][0].clone();
    assert_eq!(whole["text"], text);
    let told = &whole["logprobs"];
    let tokens = ["bytes:\\xc3", "bytes:\\xa9", "bytes:\\xe6", "bytes:\\x97", "bytes:\\xa5", "!"];
    assert_eq!(told["tokens"], json!(tokens));
    assert_eq!(told["text_offset"], json!([0, 0, 1, 1, 1, 2]));
    for (i, token) in tokens.iter().enumerate() {
        let own = told["token_logprobs"][i].as_f64().unwrap();
        assert!((-0.01..=0.0).contains(&own), "{own}");
        let top = told["top_logprobs"][i].as_object().unwrap();
        assert!(top.len() == 2 && top[*token] == own, "{top:?}");
    }
    let only = ask(json!({"logprobs": 0})).json()["choices"][0]["logprobs"].clone();
    assert_eq!(only["top_logprobs"][5].as_object().unwrap().len(), 1);
    let mut streamed =
        json!({"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []});
    for chunk in ask(json!({"logprobs": 2, "stream": true})).chunks() {
        let logprobs = &chunk["choices"][0]["logprobs"];
        for (name, all) in streamed.as_object_mut().unwrap() {
            all.as_array_mut()
                .unwrap()
                .extend(logprobs[name].as_array().cloned().unwrap_or_default());
        }
    }
    assert_eq!(&streamed, told);
    for (more, param) in [
        (json!({"logprobs": 21}), "logprobs"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"logprobs": 1, "echo": true}), "logprobs"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"suffix": "x"}), "suffix"),
        (json!({"truncation": "auto"}), "truncation"),
    ] {
        let refused = ask(more.clone());
        assert_eq!(refused.status, 400, "{more}");
        assert_eq!(refused.json()["error"]["param"], param, "{more}");
    }
    assert_eq!(ask(json!({"best_of": 1, "suffix": "", "logprobs": null})).status, 200);
}
