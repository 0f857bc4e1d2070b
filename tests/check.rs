//! `rinfer check` against servers that do what they should, and that do not.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_testkit::serving::Serving;
use rinfer_testkit::{Golden, chat, shared};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn rinfer(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
    for name in ["RINFER_TIER", "RINFER_LOG", "RINFER_API_KEY"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// A server, and its address as a client is told it.
fn serve(more: &[&str]) -> (Serving, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{}", more.len()));
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &folder);
    let model = format!("tiny={}", folder.display());
    let args = [&["serve", &model, "--addr", "127.0.0.1:0"], more].concat();
    let server = Serving::start(&mut rinfer(&args));
    let url = format!("http://{}/v1", server.addr);
    (server, url)
}

fn check(args: &[&str]) -> (Output, Vec<Value>) {
    let output = rinfer(&[&["check", "--json"], args].concat()).output().unwrap();
    let rows = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, rows)
}

#[test]
fn our_own_server() {
    let (_server, url) = serve(&["--api-key", "k"]);
    let (output, rows) = check(&[&url, "--key", "k"]);
    assert!(output.status.success(), "{output:?}");
    let result = |name: &str| {
        let row = rows.iter().find(|row| row["check"] == name).unwrap_or_else(|| panic!("{name}"));
        row["result"].as_str().unwrap().to_owned()
    };
    for name in
        ["health", "models", "chat", "chat: streamed as whole", "responses", "messages", "errors"]
    {
        assert_eq!(result(name), "pass", "{name}: {rows:?}");
    }
    assert!(rows.len() > 15);
    // As a table, and without the key.
    let table = rinfer(&["check", &url]).output().unwrap();
    assert_eq!(table.status.code(), Some(1));
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("models")
            && line.contains("FAIL")
            && line.contains("401")),
        "{text}"
    );
    assert!(String::from_utf8_lossy(&table.stderr).contains("checks failed"));
    let unknown = rinfer(&["check", &url, "--key", "k", "--model", "other"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&unknown.stdout).contains("'other' is not listed; listed are tiny")
    );
}

/// A server that answers everything in the same way, but for the list of its models.
fn stub(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(stream, answer));
        }
    });
    addr
}

fn respond(mut stream: TcpStream, answer: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &std::mem::take(&mut line);
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).unwrap();
    let list = r#"{"data": [{"id": "m"}]}"#;
    let body = if head.starts_with("GET /v1/models ") { list } else { answer };
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

#[test]
fn servers_that_lie() {
    let choice = json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "one two"}});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 6});
    let answer = json!({
        "id": "x", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage,
    });
    let url = format!("http://{}/v1", stub(answer.to_string().leak()));
    let (output, rows) = check(&[&url]);
    assert_eq!(output.status.code(), Some(1));
    let row = |name: &str| rows.iter().find(|row| row["check"] == name).unwrap();
    for (name, says) in [
        ("chat", "total_tokens: 6 is not 5"),
        ("chat: streamed as whole", "content type"),
        ("chat: max_tokens", "gives 2 tokens"),
        ("chat: stop", "what comes before the stop"),
        ("chat: tools", "/function/name"),
        ("chat: JSON of a schema", "no JSON"),
        ("completions", "text_completion"),
        ("messages", "/type"),
        ("errors", "is not 404"),
    ] {
        assert_eq!(row(name)["result"], "fail", "{name}");
        let reason = row(name)["reason"].as_str().unwrap();
        assert!(reason.contains(says), "{name}: {reason}");
    }
    assert_eq!(row("health")["result"], "pass");
    assert_eq!(row("chat: log-probabilities")["result"], "not offered");
    // What is no HTTP, and nobody at all.
    let url = format!("http://{}", stub("x"));
    assert!(check(&[&url]).1.iter().any(|row| row["reason"].as_str().unwrap().contains("no JSON")));
    let (output, rows) = check(&["http://127.0.0.1:1"]);
    assert_eq!((output.status.code(), rows.len()), (Some(1), 2));
    assert!(rows[0]["reason"].as_str().unwrap().contains("can't be reached"), "{rows:?}");
    assert_eq!(rinfer(&["check", "https://localhost"]).output().unwrap().status.code(), Some(2));
}
