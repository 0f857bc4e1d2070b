//! Anthropic's messages.
use super::{Server, Verdict, count, offered, same, text};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

const PATH: &str = "/v1/messages";

fn asking(server: &Server) -> Value {
    let messages = json!([{"role": "user", "content": "Count from one to ten, in words."}]);
    json!({"model": server.model, "system": "Be brief.", "messages": messages, "max_tokens": 24, "temperature": 0})
}

fn whole(server: &Server) -> anyhow::Result<Result<Value, Verdict>> {
    Ok(match offered(server.host.post(PATH, &asking(server))?)? {
        Ok(response) => Ok(response.json()?),
        Err(verdict) => Err(verdict),
    })
}

pub fn messages(server: &Server) -> anyhow::Result<Verdict> {
    let answer = match whole(server)? {
        Ok(answer) => answer,
        Err(verdict) => return Ok(verdict),
    };
    same("type", &text(&answer, "/type")?, &"message")?;
    same("role", &text(&answer, "/role")?, &"assistant")?;
    let blocks = answer["content"].as_array().context("there is no content")?;
    for block in blocks {
        ensure!(["text", "thinking"].contains(&text(block, "/type")?), "a block is {block}");
    }
    let reason = text(&answer, "/stop_reason")?;
    ensure!(["end_turn", "max_tokens"].contains(&reason), "the stop_reason is '{reason}'");
    count(&answer, "/usage/input_tokens")?;
    count(&answer, "/usage/output_tokens")?;
    Ok(Verdict::Pass(format!("{} blocks, {reason}", blocks.len())))
}

/// The order of events: the message begins, blocks begin, grow and end one after another, and it ends.
pub fn streamed(server: &Server) -> anyhow::Result<Verdict> {
    let answer = match whole(server)? {
        Ok(answer) => answer,
        Err(verdict) => return Ok(verdict),
    };
    let mut body = asking(server);
    body["stream"] = true.into();
    let events = server.host.post(PATH, &body)?.events()?;
    let (mut open, mut blocks, mut reason) = (None, Vec::new(), None);
    for (name, data) in events.iter().filter(|(name, _)| name != "ping") {
        let event: Value = serde_json::from_str(data)?;
        same("an event's name and type", &text(&event, "/type")?, &name.as_str())?;
        match name.as_str() {
            "message_start" => ensure!(blocks.is_empty(), "a message starts twice"),
            "content_block_start" => {
                let index = count(&event, "/index")?;
                ensure!(
                    open.is_none() && index == blocks.len() as u64,
                    "block {index} starts too early"
                );
                open = Some(index);
                blocks.push(String::new());
            }
            "content_block_delta" => {
                same("the index of a delta", &Some(count(&event, "/index")?), &open)?;
                let delta = &event["delta"];
                let piece = delta["text"].as_str().or(delta["thinking"].as_str());
                if let (Some(block), Some(piece)) = (blocks.last_mut(), piece) {
                    *block += piece;
                }
            }
            "content_block_stop" => {
                same("the index of a stop", &Some(count(&event, "/index")?), &open)?;
                open = None;
            }
            "message_delta" => reason = event.pointer("/delta/stop_reason").cloned(),
            "message_stop" => ensure!(open.is_none(), "the message stops within a block"),
            other => bail!("the event '{other}' is none of this API: {}", super::short(data)),
        }
    }
    same(
        "the first event",
        &events.first().map(|(name, _)| name.as_str()),
        &Some("message_start"),
    )?;
    same("the last event", &events.last().map(|(name, _)| name.as_str()), &Some("message_stop"))?;
    let list = answer["content"].as_array().into_iter().flatten();
    let said =
        list.map(|block| block["text"].as_str().or(block["thinking"].as_str()).unwrap_or_default());
    same("blocks that are streamed and whole", &blocks, &said.map(str::to_owned).collect())?;
    same("the streamed stop_reason", &reason.as_ref(), &answer.get("stop_reason"))?;
    Ok(Verdict::Pass(format!("{} events", events.len())))
}

fn count_tokens(server: &Server) -> anyhow::Result<Result<Value, Verdict>> {
    let mut body = asking(server);
    for name in ["max_tokens", "temperature"] {
        body.as_object_mut().map(|body| body.remove(name));
    }
    Ok(match offered(server.host.post("/v1/messages/count_tokens", &body)?)? {
        Ok(response) => Ok(response.json()?),
        Err(verdict) => Err(verdict),
    })
}

pub fn counted(server: &Server) -> anyhow::Result<Verdict> {
    let counted = match count_tokens(server)? {
        Ok(counted) => counted,
        Err(verdict) => return Ok(verdict),
    };
    let counted = count(&counted, "/input_tokens")?;
    if let Ok(answer) = whole(server)? {
        let usage = &answer["usage"];
        let part = |name: &str| usage[name].as_u64().unwrap_or(0);
        let all = part("input_tokens")
            + part("cache_read_input_tokens")
            + part("cache_creation_input_tokens");
        same("tokens that are counted and used", &counted, &all)?;
    }
    Ok(Verdict::Pass(format!("{counted} tokens")))
}

pub fn errors(server: &Server) -> anyhow::Result<Verdict> {
    if let Err(verdict) = whole(server)? {
        return Ok(verdict);
    }
    let mut body = asking(server);
    body["model"] = "no such model, surely".into();
    let unknown = server.host.post(PATH, &body)?;
    same("the status for a model that is not there", &unknown.status, &404)?;
    let error = unknown.json()?;
    same("type", &text(&error, "/type")?, &"error")?;
    same("error.type", &text(&error, "/error/type")?, &"not_found_error")?;
    text(&error, "/error/message")?;
    let mut body = asking(server);
    body.as_object_mut().map(|body| body.remove("max_tokens"));
    let missing = server.host.post(PATH, &body)?;
    same("the status without max_tokens", &missing.status, &400)?;
    same("error.type", &text(&missing.json()?, "/error/type")?, &"invalid_request_error")?;
    Ok(Verdict::Pass("404 and 400, in Anthropic's shape".into()))
}
