//! Rows of faults that hold on every route: what ends an answer, what a context is, and what is never fetched.
use crate::rig::{Rig, asking};
use serde_json::{Value, json};
use std::net::TcpListener;

/// The answer's text and why it ended, told once and in pieces: the same.
fn both(rig: Rig, more: &Value) -> (String, String) {
    let server = rig.start();
    let whole = server.chat(more.clone()).json();
    let choice = &whole["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap_or_default().to_owned();
    let finish = choice["finish_reason"].as_str().unwrap().to_owned();
    let mut more = more.clone();
    more["stream"] = true.into();
    let chunks = server.chat(more).chunks();
    let choices = || chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
    let pieces: String = choices().filter_map(|c| c["delta"]["content"].as_str()).collect();
    let ends: Vec<&str> = choices().filter_map(|c| c["finish_reason"].as_str()).collect();
    assert_eq!((&pieces, &ends[..]), (&text, &[&*finish][..]));
    (text, finish)
}

/// M8: a stop string ends the answer wherever tokens end, and is neither told nor loses what is beside it.
#[test]
fn m8_stops() {
    let check = |says: &str, stop: Value, most: Option<usize>, text: &str, finish: &str| {
        let found = both(Rig::saying(says), &json!({"stop": stop, "max_tokens": most}));
        assert_eq!(found, (text.to_owned(), finish.to_owned()), "{says}");
    };
    check("one O P Q two", json!("O P Q"), None, "one ", "stop");
    check("a\nb", json!(["\n"]), None, "a", "stop");
    check("Alice! said Alice: hm", json!(["Alice:"]), None, "Alice! said ", "stop");
    check("Bob: x", json!(["Bob:"]), None, "", "stop");
    check("aaab c", json!(["aab", "ab c"]), None, "a", "stop");
    check("at the en", json!(["end"]), None, "at the en", "stop");
    check("at the end of it", json!(["end of"]), Some(10), "at the end", "length");
}

/// X3: an answer that never ends of itself is cut where the context ends, or before, and says so.
#[test]
fn x3_the_context_ends_an_answer() {
    let endless = || Rig { context: 64, ..Rig::saying(&"x".repeat(500)) };
    let server = endless().start();
    let usage = server.chat(json!({})).json()["usage"].clone();
    assert_eq!(usage["total_tokens"], 64);
    let (text, finish) = both(endless(), &json!({}));
    assert!(!text.is_empty() && finish == "length", "{text}: {finish}");
    assert_eq!(both(endless(), &json!({"max_tokens": 5})), ("xxxxx".into(), "length".into()));
    assert_eq!(both(endless(), &json!({"max_tokens": 500})).0, text);
}

/// X6: what a model thought in earlier turns is not told it again.
#[test]
fn x6_old_thoughts_are_left_out() {
    let server = Rig::default().start();
    let messages = json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "reasoning_content": "a secret"},
        {"role": "user", "content": "three"},
    ]);
    let prompt =
        server.post("/apply-template", &json!({"model": "scripted", "messages": messages})).json();
    let prompt = prompt["prompt"].as_str().unwrap();
    assert!(prompt.contains("two") && !prompt.contains("secret"), "{prompt}");
}

/// A13, A14, R10: a model that sees no images is shown none, whatever they are, and nothing is fetched.
#[test]
fn a13_a14_r10_images_are_refused_and_never_fetched() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    let server = Rig::default().start();
    for url in [
        format!("http://127.0.0.1:{port}/a.png"),
        format!("http://127.1:{port}/a.png"),
        format!("http://2130706433:{port}/a.png"),
        format!("http://localhost:{port}/a.png"),
        "http://[::1]:1/a.png".to_owned(),
        "file:///etc/hostname".to_owned(),
        "data:image/png;base64,".to_owned(),
        "data:image/png;base64,iVBORw0KGgo=".to_owned(),
        "data:image/webp;base64,UklGRg==".to_owned(),
        "data:text/html,<b>".to_owned(),
    ] {
        let part = json!({"type": "image_url", "image_url": {"url": url}});
        let body = asking(json!({"messages": [{"role": "user", "content": [part]}]}));
        let refused = server.post("/v1/chat/completions", &body);
        assert_eq!(refused.status, 400, "{url}");
        let error = refused.json()["error"].clone();
        assert_eq!(error["param"], "messages[0].content[0]", "{error}");
    }
    assert!(canary.accept().is_err(), "somebody was asked");
}
