//! The server's end.
use crate::rig::{Rig, asking};
use rinfer_server::{Config, Models, Server, Stop};
use serde_json::json;
use std::time::{Duration, Instant};

fn slow(drain: u64) -> Rig {
    let rig =
        Rig { slow: Duration::from_millis(20), says: Some("x".repeat(900)), ..Rig::default() };
    let config = Config { drain: Duration::from_millis(drain), ..rig.config.clone() };
    Rig { config, ..rig }
}

/// R13: told to stop, the server lets answers go on for a while, then ends them with an event.
#[test]
fn r13_streams_end_with_an_event() {
    for twice in [false, true] {
        let server = slow(if twice { 60_000 } else { 300 }).start();
        let mut response = server.post("/v1/chat/completions", &asking(json!({"stream": true})));
        response.chunk();
        let (stop, start) = (server.stop.clone(), Instant::now());
        stop.stop();
        if twice {
            stop.stop();
        }
        let text = response.text();
        assert!(text.contains("the server ends"), "{text}");
        assert!(!text.contains("[DONE]"));
        server.join();
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn r13_answers_are_finished_if_they_can_be() {
    let rig = Rig { slow: Duration::from_millis(5), says: Some("x".repeat(40)), ..Rig::default() };
    let server = rig.start();
    let (addr, stop) = (server.addr, server.stop.clone());
    let asked = std::thread::spawn(move || {
        crate::client::post(addr, "/v1/chat/completions", &asking(json!({}))).json()
    });
    server.until_inside(1);
    stop.stop();
    assert_eq!(asked.join().unwrap()["usage"]["completion_tokens"], 40);
    server.join();
}

/// R13: from when it listens, before it serves, a signal asks for its end and does not end the process.
#[test]
#[cfg(unix)]
fn r13_signals_are_heeded_from_the_first() {
    for name in ["-TERM", "-INT"] {
        let config = Config { signals: true, ..Rig::default().config };
        let models = Models::new(Vec::new(), &config).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(any, config, models, Stop::default()).unwrap();
        let id = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args([name, &id]).status().unwrap().success());
        // It ends by itself.
        server.run();
    }
}

#[test]
fn health_and_metrics() {
    let server = Rig::default().start();
    assert_eq!(server.get("/health").json(), json!({"status": "ok"}));
    server.chat(json!({}));
    let text = server.get("/metrics").text();
    for line in [
        "rinfer_answers_total 1",
        "rinfer_generated_tokens_total 6",
        "rinfer_answers_inside{model=\"scripted\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
}

#[test]
fn a_wrong_path_is_told_the_right_one() {
    let server = Rig::default().start();
    for (path, says) in [
        ("/", "--web"),
        ("/chat/completions", "is /v1/chat/completions meant?"),
        ("/v1/v1/messages", "docs/server.md"),
    ] {
        let response = server.post(path, &json!({}));
        assert_eq!(response.status, 404, "{path}");
        let text = response.text();
        assert!(text.contains(says), "{path}: {text}");
    }
}
