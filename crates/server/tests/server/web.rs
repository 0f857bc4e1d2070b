//! The page, and the routes that are its own.
use crate::client;
use crate::rig::{Rig, Running};
use rinfer_server::{Config, Models};
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
    let plan = server.post("/ui/models/plan", &name).json();
    assert_eq!((&plan["total"], &plan["weights"]), (&json!(0), &json!(0)));
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

/// Without a model the server lives, and whoever asks is told what to do.
#[test]
fn no_model_at_all() {
    let serve = |web| {
        let rig = Rig::default();
        let config = Config { web, ..rig.config.clone() };
        let models = Models::new(Vec::new(), &config).unwrap();
        Rig { config, ..rig }.serve(models)
    };
    let message = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    for web in [false, true] {
        let server = serve(web);
        assert_eq!(server.get("/health").status, 200);
        assert_eq!(server.get("/v1/models").json()["data"], json!([]));
        for (path, body) in [
            ("/v1/chat/completions", crate::rig::asking(json!({}))),
            ("/v1/chat/completions", message.clone()),
            ("/v1/messages", message.clone()),
            ("/v1/embeddings", json!({"input": "x"})),
        ] {
            let refused = server.post(path, &body);
            assert_eq!(refused.status, 404, "{path}");
            let text = refused.text();
            assert!(
                text.contains("no model here") && text.contains("rinfer serve MODEL"),
                "{text}"
            );
            assert_eq!(text.contains("on its page"), web, "{text}");
        }
    }
    let hub = serve(true).get("/ui/models").json()["hub"]["closed"].clone();
    assert!(hub.as_str().unwrap().contains("without pull"), "{hub}");
}
