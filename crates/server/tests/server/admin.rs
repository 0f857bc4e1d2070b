//! Administration: for whoever has a key, if it was asked for.
use crate::client::{Response, post_with, send};
use crate::rig::{Rig, Running, asking};
use rinfer_server::{Config, Models, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn keyed(rig: Rig) -> Running {
    let config = Config { keys: vec!["k".into()], admin: true, ..rig.config.clone() };
    Rig { config, ..rig }.start()
}

fn get(server: &Running, path: &str) -> Response {
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nConnection: close\r\n\r\n");
    send(server.addr, &head, b"")
}

fn post(server: &Running, path: &str, body: &Value) -> Response {
    post_with(server.addr, path, "X-Api-Key: k\r\n", &body.to_string())
}

fn state(server: &Running) -> Value {
    get(server, "/admin/models").json()["models"][0].clone()
}

/// A long answer, under way.
fn begin(server: &Running, more: Value) -> std::thread::JoinHandle<Response> {
    let (addr, body) = (server.addr, asking(more).to_string());
    let asked = std::thread::spawn(move || {
        post_with(addr, "/v1/chat/completions", "X-Api-Key: k\r\n", &body)
    });
    let start = Instant::now();
    while get(server, "/admin/generations").json()["generations"] == json!([]) {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    asked
}

fn slow() -> Rig {
    Rig { slow: Duration::from_millis(20), says: Some("x".repeat(500)), ..Rig::default() }
}

#[test]
fn it_needs_a_key() {
    let rig = Rig::default();
    let open = Config { admin: true, ..rig.config.clone() };
    let models = Models::new(Vec::new(), &open).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let refused = Server::bind(any, open, models, Default::default()).err().unwrap().to_string();
    assert!(refused.contains("--admin needs --api-key"), "{refused}");
    // Not asked for: it is not there, with a key or without.
    let closed = rig.start();
    for path in ["/admin/models", "/admin/generations", "/admin/x"] {
        let response = closed.get(path);
        assert_eq!(response.status, 403, "{path}");
        let error = response.json()["error"].clone();
        assert_eq!(error["code"], "admin_disabled");
        assert!(error["message"].as_str().unwrap().contains("--admin"));
    }
    let server = keyed(Rig::default());
    assert_eq!(server.get("/admin/models").status, 401);
    assert_eq!(server.post("/admin/models/unload", &json!({"model": "scripted"})).status, 401);
    assert_eq!(state(&server)["state"], "loaded");
    assert_eq!(get(&server, "/admin/x").status, 404);
}

#[test]
fn models_come_and_go() {
    let server = keyed(Rig::default());
    let shown = state(&server);
    assert_eq!((&shown["id"], &shown["aliases"]), (&json!("scripted"), &json!([])));
    assert_eq!((&shown["requests"], &shown["keep_alive"]), (&json!(0), &json!(-1)));
    assert!(shown["idle_seconds"].is_number(), "{shown}");
    let model = json!({"model": "scripted"});
    let unloaded = json!({"model": "scripted", "state": "unloaded", "cancelled": 0});
    assert_eq!(post(&server, "/admin/models/unload", &model).json(), unloaded);
    assert_eq!(state(&server)["state"], "unloaded");
    assert_eq!(post(&server, "/admin/models/unload", &model).json(), unloaded);
    let loaded = json!({"model": "scripted", "state": "loaded"});
    assert_eq!(post(&server, "/admin/models/load", &model).json(), loaded);
    assert_eq!(state(&server)["state"], "loaded");
    for (path, body, status, says) in [
        ("/admin/models/load", json!({"model": "../x"}), 404, "scripted"),
        ("/admin/models/unload", json!({"model": "Scripted"}), 404, "scripted"),
        ("/admin/models/load", json!({}), 400, "model"),
        ("/admin/models/load", json!({"model": "scripted", "force": true}), 400, "force"),
        ("/admin/models/unload", json!({"model": "scripted", "drain": -1}), 400, "drain"),
        ("/admin/generations/cancel", json!({"id": "x"}), 404, "'x'"),
    ] {
        let response = post(&server, path, &body);
        assert_eq!(response.status, status, "{path} {body}");
        assert!(response.text().contains(says), "{path} {body}");
    }
}

/// Answers are finished before their model goes, or ended when that takes too long.
#[test]
fn unloading_drains() {
    let server = keyed(slow());
    let asked = begin(&server, json!({"max_tokens": 20}));
    let unloaded = post(&server, "/admin/models/unload", &json!({"model": "scripted"})).json();
    assert_eq!(unloaded["cancelled"], 0);
    assert_eq!(asked.join().unwrap().json()["usage"]["completion_tokens"], 20);
    let asked = begin(&server, json!({}));
    let body = json!({"model": "scripted", "drain": 0});
    assert_eq!(post(&server, "/admin/models/unload", &body).json()["cancelled"], 1);
    assert_eq!(state(&server)["state"], "unloaded");
    let ended = asked.join().unwrap();
    assert_eq!(ended.status, 499);
    assert_eq!(ended.json()["error"]["code"], "cancelled");
    // Who asks next brings it again.
    let body = asking(json!({"max_tokens": 2}));
    assert_eq!(post(&server, "/v1/chat/completions", &body).status, 200);
}

/// A request that is still being read when answers are told to end is ended as well, rather than waited for.
#[test]
fn unloading_ends_what_begins_meanwhile() {
    let server = keyed(Rig { says: Some("x".repeat(900)), ..slow() });
    // It takes a while to be found to be too long.
    let turn = json!({"role": "user", "content": "long ".repeat(4000)});
    let mut turns = vec![turn; 100];
    turns.push(json!({"role": "user", "content": "Hi"}));
    let (addr, body) =
        (server.addr, asking(json!({"messages": turns, "truncation": "auto", "max_tokens": 800})));
    let asked = std::thread::spawn(move || {
        post_with(addr, "/v1/chat/completions", "X-Api-Key: k\r\n", &body.to_string())
    });
    while state(&server)["requests"] == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(get(&server, "/admin/generations").json()["generations"], json!([]));
    let body = json!({"model": "scripted", "drain": 0});
    let unloaded = post(&server, "/admin/models/unload", &body).json();
    assert_eq!(unloaded["cancelled"], 1, "{unloaded}");
    assert_eq!(asked.join().unwrap().status, 499);
}

#[test]
fn answers_are_listed_and_ended() {
    let server = keyed(slow());
    for stream in [false, true] {
        let asked = begin(&server, json!({"stream": stream}));
        let list = get(&server, "/admin/generations").json()["generations"].clone();
        let one = &list[0];
        assert_eq!((&one["model"], &one["stream"]), (&json!("scripted"), &json!(stream)));
        assert_eq!(one["route"], "/v1/chat/completions");
        let id = one["id"].as_str().unwrap();
        let ended = post(&server, "/admin/generations/cancel", &json!({"id": id}));
        assert_eq!(ended.json(), json!({"id": id, "cancelled": true}));
        let answer = asked.join().unwrap();
        assert_eq!(answer.header("x-request-id"), Some(id));
        assert_eq!(answer.status, if stream { 200 } else { 499 });
        let text = answer.text();
        assert!(
            text.contains("was ended by whoever administers") && !text.contains("[DONE]"),
            "{text}"
        );
        assert_eq!(get(&server, "/admin/generations").json()["generations"], json!([]));
    }
}

#[test]
fn what_has_no_place_is_not_saved() {
    let server = keyed(Rig::default());
    let body = json!({"model": "scripted"});
    let answer = post(&server, "/admin/models/save", &body);
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].clone()),
        (400, "no_sessions".into())
    );
}
