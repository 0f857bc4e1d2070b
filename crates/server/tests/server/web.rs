//! The page, and the routes that are its own.
use crate::client;
use crate::rig::{Rig, Running};
use rinfer_server::Config;
use serde_json::json;

fn with_page(keys: &[&str]) -> Running {
    let rig = Rig::default();
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Rig { config: Config { web: true, keys, ..rig.config.clone() }, ..rig }.start()
}

#[test]
fn the_page_is_there_when_it_is_asked_for() {
    let plain = Rig::default().start();
    assert_eq!((plain.get("/").status, plain.get("/ui/models").status), (404, 404));
    let server = with_page(&[]);
    let page = server.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap().to_owned();
    for part in ["default-src 'none'", "connect-src 'self'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(page.text().starts_with("<!doctype html>"));
}

#[test]
fn models_are_shown_loaded_and_unloaded() {
    let server = with_page(&[]);
    let shown = server.get("/ui/models").json();
    assert_eq!(shown["models"][0]["id"], "scripted");
    assert_eq!(shown["models"][0]["state"], "loaded");
    assert_eq!(shown["models"][0]["defaults"]["temperature"], 0.0);
    assert_eq!(shown["models"][1]["state"], "unloaded");
    let name = json!({"model": "other/model"});
    assert_eq!(server.post("/ui/models/load", &name).json()["state"], "loaded");
    assert_eq!(server.post("/ui/models/unload", &name).json()["state"], "unloaded");
    assert_eq!(server.post("/ui/models/load", &json!({"model": "none"})).status, 404);
    assert_eq!(server.post("/ui/models/load", &json!({})).status, 400);
}

/// R6: pages of other sites may not use what is the page's own, and a key is asked for by the page.
#[test]
fn r6_only_the_page_and_its_key() {
    let server = with_page(&["secret"]);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/ui/models").status, 401);
    let ask = |more: &str| {
        let head = format!(
            "GET /ui/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n{more}Connection: close\r\n\r\n"
        );
        client::send(server.addr, &head, b"").status
    };
    assert_eq!(ask(""), 200);
    assert_eq!(ask("Sec-Fetch-Site: same-origin\r\n"), 200);
    assert_eq!(ask("Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(ask("Origin: http://localhost:9\r\n"), 403);
}
