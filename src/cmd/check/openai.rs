//! OpenAI's chat completions, completions and responses.
use super::{Server, Verdict, count, expect, offered, same, text};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// A conversation, with further fields, at temperature 0.
fn asking(server: &Server, more: Value) -> Value {
    let messages = json!([{"role": "user", "content": "Count from one to ten, in words."}]);
    with(
        json!({"model": server.model, "messages": messages, "temperature": 0, "max_tokens": 24}),
        more,
    )
}

fn with(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

fn ask(server: &Server, more: Value) -> anyhow::Result<Value> {
    expect(server.host.post(CHAT, &asking(server, more))?, 200)
}

/// What was said, thoughts and all, and why it ended.
fn said(answer: &Value) -> anyhow::Result<(String, String)> {
    let message = &answer["choices"][0]["message"];
    let part = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let reason = text(answer, "/choices/0/finish_reason")?;
    Ok((part("reasoning_content") + &part("content"), reason.to_owned()))
}

pub fn chat(server: &Server) -> anyhow::Result<Verdict> {
    let answer = ask(server, json!({}))?;
    same("object", &text(&answer, "/object")?, &"chat.completion")?;
    same("role", &text(&answer, "/choices/0/message/role")?, &"assistant")?;
    text(&answer, "/id")?;
    count(&answer, "/created")?;
    let (said, reason) = said(&answer)?;
    ensure!(["stop", "length"].contains(&&*reason), "the finish_reason is '{reason}'");
    let (prompt, generated) =
        (count(&answer, "/usage/prompt_tokens")?, count(&answer, "/usage/completion_tokens")?);
    same("total_tokens", &count(&answer, "/usage/total_tokens")?, &(prompt + generated))?;
    ensure!(prompt > 0 && generated <= 24, "{prompt} and {generated} tokens can't be");
    Ok(Verdict::Pass(format!("{:?}", super::short(&said))))
}

/// The chunks of a stream, which must end as it is said to.
fn chunks(events: Vec<(String, String)>) -> anyhow::Result<Vec<Value>> {
    let (last, chunks) = events.split_last().context("the stream is empty")?;
    same("the last event", &last.1.as_str(), &"[DONE]")?;
    let chunk = |(_, data): &(String, String)| {
        serde_json::from_str(data)
            .with_context(|| format!("a chunk is no JSON: {}", super::short(data)))
    };
    chunks.iter().map(chunk).collect()
}

pub fn streamed(server: &Server) -> anyhow::Result<Verdict> {
    let whole = ask(server, json!({}))?;
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let response = server.host.post(CHAT, &asking(server, more))?;
    ensure!(response.status == 200, "the status is {}", response.status);
    let chunks = chunks(response.events()?)?;
    let (mut told, mut reason) = (String::new(), None);
    for chunk in &chunks {
        same("object", &text(chunk, "/object")?, &"chat.completion.chunk")?;
        same("id", &text(chunk, "/id")?, &text(&chunks[0], "/id")?)?;
        for choice in chunk["choices"].as_array().context("a chunk has no choices")? {
            for name in ["reasoning_content", "content"] {
                told += choice["delta"][name].as_str().unwrap_or_default();
            }
            reason = reason.or(choice["finish_reason"].as_str());
        }
    }
    let (said, ended) = said(&whole)?;
    same("what is streamed and whole", &told, &said)?;
    same("the streamed finish_reason", &reason, &Some(ended.as_str()))?;
    let last = chunks.last().context("the stream has no chunk")?;
    same("choices of the chunk with the usage", &last["choices"], &json!([]))?;
    for name in ["/usage/prompt_tokens", "/usage/completion_tokens"] {
        same(name, &count(last, name)?, &count(&whole, name)?)?;
    }
    Ok(Verdict::Pass(format!("{} chunks", chunks.len())))
}

pub fn repeated(server: &Server) -> anyhow::Result<Verdict> {
    let first = said(&ask(server, json!({}))?)?;
    for _ in 0..2 {
        same("an answer at temperature 0", &said(&ask(server, json!({}))?)?, &first)?;
    }
    Ok(Verdict::Pass("3 answers at temperature 0".into()))
}

pub fn limit(server: &Server) -> anyhow::Result<Verdict> {
    let answer = ask(server, json!({"max_tokens": 1}))?;
    let generated = count(&answer, "/usage/completion_tokens")?;
    ensure!(generated <= 1, "max_tokens 1 gives {generated} tokens");
    let (said, reason) = said(&answer)?;
    ensure!(
        reason == "length" || said.is_empty(),
        "an answer that was cut off ends with '{reason}'"
    );
    Ok(Verdict::Pass(format!("ends with {reason}")))
}

pub fn stop(server: &Server) -> anyhow::Result<Verdict> {
    let answer = ask(server, json!({}))?;
    let said = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
    let start = said.char_indices().nth(said.chars().count() / 2).map_or(0, |(at, _)| at);
    let stop: String = said[start..].chars().take(4).collect();
    let before = said.find(&stop).filter(|_| !stop.trim().is_empty());
    let Some(before) = before else {
        return Ok(Verdict::Pass("the answer is too short to be stopped".into()));
    };
    let stopped = ask(server, json!({"stop": [stop]}))?;
    let told = stopped["choices"][0]["message"]["content"].as_str().unwrap_or_default();
    same("what comes before the stop", &told, &&said[..before])?;
    same("finish_reason", &text(&stopped, "/choices/0/finish_reason")?, &"stop")?;
    Ok(Verdict::Pass(format!("at {stop:?}")))
}

pub fn logprobs(server: &Server) -> anyhow::Result<Verdict> {
    let more = json!({"logprobs": true, "top_logprobs": 2});
    let answer = match offered(server.host.post(CHAT, &asking(server, more))?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    let Some(list) = answer["choices"][0]["logprobs"]["content"].as_array() else {
        return Ok(Verdict::NotOffered("they are asked for and not there".into()));
    };
    for one in list {
        let own = one["logprob"].as_f64().context("a token has no logprob")?;
        ensure!(own <= 1e-6, "a log-probability is {own}");
        let top = one["top_logprobs"].as_array().context("a token has no top_logprobs")?;
        ensure!(top.len() <= 2, "{} tokens are told, not 2", top.len());
    }
    Ok(Verdict::Pass(format!("{} tokens", list.len())))
}

pub fn tools(server: &Server) -> anyhow::Result<Verdict> {
    let parameters = json!({
        "type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
        "required": ["city"], "additionalProperties": false,
    });
    let function = json!({"name": "weather", "description": "The weather in a city.", "parameters": parameters});
    let messages = json!([{"role": "user", "content": "How is the weather in Oslo?"}]);
    let more = json!({
        "messages": messages, "tools": [{"type": "function", "function": function}],
        "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 400,
    });
    let answer = match offered(server.host.post(CHAT, &asking(server, more.clone()))?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    same("the name that is called", &text(call, "/function/name")?, &"weather")?;
    text(call, "/id")?;
    same("type", &text(call, "/type")?, &"function")?;
    let arguments = text(call, "/function/arguments")?;
    let parsed: Value = serde_json::from_str(arguments)
        .with_context(|| format!("the arguments are no JSON: {}", super::short(arguments)))?;
    ensure!(["Oslo", "Rome"].contains(&text(&parsed, "/city")?), "the arguments are {parsed}");
    same("finish_reason", &text(&answer, "/choices/0/finish_reason")?, &"tool_calls")?;
    let response = server.host.post(CHAT, &asking(server, with(more, json!({"stream": true}))))?;
    let streamed: String = chunks(response.events()?)?
        .iter()
        .filter_map(|chunk| {
            chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    same("streamed arguments", &streamed.as_str(), &arguments)?;
    Ok(Verdict::Pass(format!("weather({arguments}), whole and streamed")))
}

pub fn schema(server: &Server) -> anyhow::Result<Verdict> {
    let schema = json!({
        "type": "object", "properties": {"even": {"type": "boolean"}}, "required": ["even"],
        "additionalProperties": false,
    });
    let messages = json!([{"role": "user", "content": "Is 4 even? Answer in JSON."}]);
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}});
    let more = json!({"messages": messages, "response_format": format, "max_tokens": 400});
    let answer = match offered(server.host.post(CHAT, &asking(server, more))?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    let said = text(&answer, "/choices/0/message/content")?;
    let parsed: Value = serde_json::from_str(said)
        .with_context(|| format!("the answer is no JSON: {}", super::short(said)))?;
    ensure!(parsed["even"].is_boolean(), "the answer is not of the schema: {parsed}");
    Ok(Verdict::Pass(parsed.to_string()))
}

pub fn completions(server: &Server) -> anyhow::Result<Verdict> {
    let body = json!({"model": server.model, "prompt": "One, two, three,", "max_tokens": 8, "temperature": 0});
    let whole = match offered(server.host.post("/v1/completions", &body)?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    same("object", &text(&whole, "/object")?, &"text_completion")?;
    let said = text(&whole, "/choices/0/text")?;
    let response = server.host.post("/v1/completions", &with(body, json!({"stream": true})))?;
    let told: String = chunks(response.events()?)?
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["text"].as_str().map(str::to_owned))
        .collect();
    same("what is streamed and whole", &told.as_str(), &said)?;
    Ok(Verdict::Pass(format!("{:?}", super::short(said))))
}

pub fn responses(server: &Server) -> anyhow::Result<Verdict> {
    let body = json!({
        "model": server.model, "input": "Count from one to ten, in words.", "max_output_tokens": 24,
        "temperature": 0, "store": false,
    });
    let whole = match offered(server.host.post("/v1/responses", &body)?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    same("object", &text(&whole, "/object")?, &"response")?;
    let response = server.host.post("/v1/responses", &with(body, json!({"stream": true})))?;
    let (mut told, mut last) = (String::new(), 0);
    let mut end = Value::Null;
    for (i, (name, data)) in
        response.events()?.into_iter().filter(|(_, data)| data != "[DONE]").enumerate()
    {
        let event: Value = serde_json::from_str(&data)?;
        same("an event's name and type", &text(&event, "/type")?, &name.as_str())?;
        let number = count(&event, "/sequence_number")?;
        ensure!(i == 0 || number == last + 1, "sequence_number {number} follows {last}");
        last = number;
        match &*name {
            "response.output_text.delta" => told += text(&event, "/delta")?,
            "response.completed" | "response.incomplete" => end = event["response"].clone(),
            "error" | "response.failed" => bail!("the stream failed: {}", super::short(&data)),
            _ => {}
        }
    }
    let said = |response: &Value| -> String {
        let items = response["output"].as_array().into_iter().flatten();
        let parts = items
            .filter(|item| item["type"] == "message")
            .filter_map(|item| item["content"].as_array());
        parts.flatten().filter_map(|part| part["text"].as_str()).collect()
    };
    same("what is streamed and whole", &told, &said(&whole))?;
    same("what the last event says and whole", &said(&end), &said(&whole))?;
    Ok(Verdict::Pass(format!("{} events", last + 1)))
}
