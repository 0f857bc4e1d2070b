//! Health, embeddings, tokens, errors, and clients that leave.
use super::http::Host;
use super::{Server, Verdict, expect, offered, same, text};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Who has left may not hold up the next for longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients that leave at once.
const LEAVING: usize = 6;

pub fn health(host: &Host) -> anyhow::Result<Verdict> {
    let response = host.get("/health")?;
    match response.status {
        200 => Ok(Verdict::Pass(String::new())),
        404 => Ok(Verdict::NotOffered("status 404".into())),
        status => anyhow::bail!("the status is {status}"),
    }
}

pub fn embeddings(server: &Server) -> anyhow::Result<Verdict> {
    let body = json!({"model": server.model, "input": ["one", "two"], "encoding_format": "float"});
    let floats = match offered(server.host.post("/v1/embeddings", &body)?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    let vectors = floats["data"].as_array().context("there is no data")?;
    same("vectors", &vectors.len(), &2)?;
    let vector = |value: &Value| -> anyhow::Result<Vec<f32>> {
        let list = value["embedding"].as_array().context("an embedding is no list")?;
        list.iter()
            .map(|x| x.as_f64().map(|x| x as f32).context("an embedding has no numbers"))
            .collect()
    };
    let (one, two) = (vector(&vectors[0])?, vector(&vectors[1])?);
    ensure!(
        !one.is_empty() && one.len() == two.len(),
        "embeddings of {} and {} numbers",
        one.len(),
        two.len()
    );
    let body = json!({"model": server.model, "input": ["one", "two"], "encoding_format": "base64"});
    let coded = expect(server.host.post("/v1/embeddings", &body)?, 200)?;
    let length = text(&coded, "/data/0/embedding")?.len();
    same("characters of base64", &length, &((4 * one.len()).div_ceil(3) * 4))?;
    Ok(Verdict::Pass(format!("{} numbers", one.len())))
}

pub fn tokenize(server: &Server) -> anyhow::Result<Verdict> {
    let said = "Grüße aus 東京! 🦙";
    let body = json!({"model": server.model, "content": said});
    let tokens = match offered(server.host.post("/tokenize", &body)?)? {
        Ok(response) => response.json()?,
        Err(verdict) => return Ok(verdict),
    };
    let count = tokens["tokens"].as_array().context("there are no tokens")?.len();
    let body = json!({"model": server.model, "tokens": tokens["tokens"]});
    let back = expect(server.host.post("/detokenize", &body)?, 200)?;
    same("what comes back", &text(&back, "/content")?.trim_start(), &said)?;
    Ok(Verdict::Pass(format!("{count} tokens and back")))
}

/// OpenAI's errors: a true status, and an object that says what is wrong.
pub fn errors(server: &Server) -> anyhow::Result<Verdict> {
    const PATH: &str = "/v1/chat/completions";
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let unknown = json!({"model": "no such model, surely", "messages": messages});
    let cold = json!({"model": server.model, "messages": messages, "temperature": "cold"});
    let card = expect(server.host.get(&format!("/v1/models/{}", server.model))?, 200)?;
    // Twice as many words as there is room for, where the server says how much there is.
    let words = card["context_length"].as_u64().map_or(1 << 20, |context| 2 * context as usize);
    let messages = json!([{"role": "user", "content": "word ".repeat(words)}]);
    let long = json!({"model": server.model, "messages": messages, "max_tokens": 1});
    for (what, status, body) in [
        ("a model that is not there", 404, unknown.to_string()),
        ("a body that is no JSON", 400, "{\"model\": ".to_owned()),
        ("a temperature that is no number", 400, cold.to_string()),
        ("a prompt that is too long", 400, long.to_string()),
        ("nesting of 100000 levels", 400, "[".repeat(100_000)),
    ] {
        let response = server.host.post_text(PATH, "", &body)?;
        same(&format!("the status for {what}"), &response.status, &status)?;
        let error = response.json().context(what)?;
        text(&error, "/error/message").context(what)?;
        text(&error, "/error/type").context(what)?;
    }
    Ok(Verdict::Pass("5 kinds, with their status and shape".into()))
}

/// Clients that leave in the middle of an answer give their places back.
pub fn leaving(server: &Server) -> anyhow::Result<Verdict> {
    let messages = json!([{"role": "user", "content": "Tell a very long story."}]);
    let body =
        json!({"model": server.model, "messages": messages, "stream": true, "max_tokens": 2000});
    for _ in 0..LEAVING {
        let mut response = server.host.post("/v1/chat/completions", &body)?;
        ensure!(response.status == 200, "the status is {}", response.status);
        response.part()?;
    }
    let start = Instant::now();
    let body = json!({"model": server.model, "messages": messages, "max_tokens": 1});
    expect(server.host.post("/v1/chat/completions", &body)?, 200)?;
    let waited = start.elapsed();
    ensure!(waited < PATIENCE, "the next client waited {:.0} s", waited.as_secs_f64());
    Ok(Verdict::Pass(format!("{LEAVING} left; the next waited {:.2} s", waited.as_secs_f64())))
}
