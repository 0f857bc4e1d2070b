//! The page's search for models and how it has them fetched, from a hub that does what it is told.
use crate::client::Response;
use crate::rig::{Rig, Running, until};
use rinfer_engine::sample::Sampling;
use rinfer_server::{Config, Contents, Failure, Fetchable, Hub, Models, Offer, Pull, Repository};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What it has is fetched byte by byte: as often as it is let.
#[derive(Default)]
struct Told {
    closed: Option<String>,
    asked: AtomicUsize,
    /// Bytes that may come.
    let_in: AtomicUsize,
    came: AtomicUsize,
    full: AtomicBool,
    here: Mutex<Vec<String>>,
}

const BYTES: usize = 4;

impl Hub for Told {
    fn place(&self) -> String {
        "hub.test".into()
    }
    fn closed(&self) -> Option<String> {
        self.closed.clone()
    }
    fn suggested(&self) -> Vec<Fetchable> {
        vec![fetchable("demo:tiny")]
    }
    fn search(&self, words: &str) -> Result<Vec<Repository>, Failure> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let name = format!("{words}/<b>");
        Ok(vec![Repository { name, downloads: Some(7), gated: true }])
    }
    fn contents(&self, name: &str) -> Result<Contents, Failure> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if name == "gated/x" {
            let whole = "gated/x is gated: accept its licence (token SECRET)".into();
            return Err(Failure { told: "gated/x is gated: accept its licence".into(), whole });
        }
        let models = vec![fetchable(&format!("hf:{name}:Q4_0"))];
        Ok(Contents { name: name.into(), licence: Some("mit".into()), models })
    }
    fn pull(&self, reference: &str, pull: &Pull) -> Result<String, Failure> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(reference != "panic", "a panic that was asked for");
        pull.note("it is slow");
        // A small file that is here, and then a large one.
        pull.needs(2, BYTES as u64 + 2);
        pull.begins("c.json", 2, 1);
        pull.came(9);
        pull.begins("m.gguf", BYTES as u64, self.came.load(Ordering::SeqCst) as u64);
        while self.came.load(Ordering::SeqCst) < BYTES {
            if pull.is_cancelled() {
                return Err(Failure::told("cancelled"));
            }
            if self.full.load(Ordering::SeqCst) {
                return Err(Failure::told("the disk is full: 1 GB is missing"));
            }
            if self.came.load(Ordering::SeqCst) < self.let_in.load(Ordering::SeqCst) {
                self.came.fetch_add(1, Ordering::SeqCst);
                pull.came(1);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.here.lock().unwrap().push("new/model".into());
        Ok("new/model".into())
    }
    fn unfinished(&self) -> Vec<(String, u64)> {
        match self.came.load(Ordering::SeqCst) {
            0 | BYTES => Vec::new(),
            bytes => vec![("a/b".into(), bytes as u64)],
        }
    }
    fn here(&self) -> Vec<Offer> {
        let offer = |name: &String| {
            Offer::ready(name.clone(), Rig::saying("New.").model(), Sampling::greedy(), 4)
        };
        self.here.lock().unwrap().iter().map(offer).collect()
    }
}

fn fetchable(reference: &str) -> Fetchable {
    let reference = reference.to_owned();
    Fetchable { reference, what: "Q4_0".into(), bytes: Some(4), fits: Some(true), here: false }
}

/// A server with a page, without any model.
fn serve(hub: &Arc<Told>, change: impl FnOnce(&mut Config)) -> Running {
    let mut rig = Rig::default();
    rig.config.web = true;
    rig.config.hub = Some(hub.clone());
    change(&mut rig.config);
    let models = Models::new(Vec::new(), &rig.config).unwrap();
    rig.serve(models)
}

fn pull(server: &Running, reference: &str) -> Response {
    server.post("/ui/hub/pull", &json!({"reference": reference}))
}

/// What the page is told of a fetch, as it comes.
fn told(response: Response) -> Vec<Value> {
    let data = |(_, data): (String, String)| serde_json::from_str(&data).unwrap();
    response.events().into_iter().map(data).collect()
}

#[test]
fn models_are_searched_fetched_and_asked() {
    let hub = Arc::new(Told::default());
    let server = serve(&hub, |_| {});
    let shown = server.get("/ui/models").json();
    assert_eq!((&shown["models"], &shown["here"]), (&json!([]), &json!([])));
    let about = json!({"place": "hub.test", "closed": null, "suggested": [
        {"reference": "demo:tiny", "what": "Q4_0", "bytes": 4, "fits": true, "here": false},
    ]});
    assert_eq!(shown["hub"], about);
    assert_eq!(hub.asked.load(Ordering::SeqCst), 0, "nobody is asked by itself");
    let found = server.post("/ui/hub/search", &json!({"words": " some "})).json();
    assert_eq!(found["repositories"][0]["name"], "some/<b>");
    let contents = server.post("/ui/hub/contents", &json!({"repository": "a/b"})).json();
    assert_eq!(contents["models"][0]["reference"], "hf:a/b:Q4_0");
    hub.let_in.store(BYTES, Ordering::SeqCst);
    let all = told(pull(&server, "hf:a/b:Q4_0"));
    let last = all.last().unwrap();
    assert_eq!((&last["state"], &last["model"]), (&json!("done"), &json!("new/model")));
    assert_eq!((&last["done"], &last["total"]), (&json!(6), &json!(6)));
    assert_eq!((&last["nth"], &last["files"]), (&json!(2), &json!(2)));
    assert_eq!((&last["file"], &last["notes"]), (&json!("m.gguf"), &json!(["it is slow"])));
    // It is served now, as if it had been given, and is the only one.
    let asked = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let answer = server.post("/v1/chat/completions", &asked).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "New.");
    let shown = server.get("/ui/models").json();
    assert_eq!((&shown["models"][0]["id"], &shown["here"]), (&json!("new/model"), &json!([])));
    // How it went is shown until it was seen.
    assert_eq!(shown["pulls"][0]["state"], "done");
    let seen = server.post("/ui/hub/cancel", &json!({"reference": "hf:a/b:Q4_0"}));
    assert_eq!(seen.status, 200);
    assert_eq!(server.get("/ui/models").json()["pulls"], json!([]));
}

/// What was fetched before is shown, planned, and served from when it is loaded on.
#[test]
fn what_is_here_is_served_when_it_is_loaded() {
    let hub = Arc::new(Told::default());
    hub.here.lock().unwrap().push("old/model".into());
    let server = serve(&hub, |_| {});
    assert_eq!(server.get("/ui/models").json()["here"], json!(["old/model"]));
    let name = json!({"model": "old/model"});
    assert_eq!(server.get("/v1/models").json()["data"], json!([]));
    assert_eq!(server.post("/ui/models/plan", &name).json()["total"], 0);
    assert_eq!(server.get("/v1/models").json()["data"], json!([]), "a plan serves nothing");
    assert_eq!(server.post("/ui/models/load", &name).json()["state"], "loaded");
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "old/model");
    assert_eq!(server.get("/ui/models").json()["here"], json!([]));
    for path in ["/ui/models/load", "/ui/models/plan", "/ui/models/unload"] {
        assert_eq!(server.post(path, &json!({"model": "../x"})).status, 404, "{path}");
    }
}

/// Who relies on the only model that the server was started with does not notice that the page has got another.
#[test]
fn the_only_one_stays_the_only_one() {
    let hub = Arc::new(Told::default());
    hub.let_in.store(BYTES, Ordering::SeqCst);
    let mut rig = Rig::saying("Given.");
    rig.config.web = true;
    rig.config.hub = Some(hub.clone());
    let offer = Offer::ready("given".into(), rig.model(), Sampling::greedy(), 4);
    let models = Models::new(vec![offer], &rig.config).unwrap();
    let server = rig.serve(models);
    told(pull(&server, "r"));
    let says = |model: Value| {
        let asked = json!({"model": model, "messages": [{"role": "user", "content": "Hi"}]});
        let answer = server.post("/v1/chat/completions", &asked).json();
        answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(says(Value::Null), "Given.");
    assert_eq!((says(json!("given")), says(json!("new/model"))), ("Given.".into(), "New.".into()));
}

/// Fetching goes on when the page is left, ends when it is cancelled, and goes on from there.
#[test]
fn fetching_is_cancelled_and_goes_on() {
    let hub = Arc::new(Told::default());
    hub.let_in.store(1, Ordering::SeqCst);
    let server = serve(&hub, |_| {});
    let mut left = pull(&server, "r");
    assert_eq!(left.status, 200);
    left.chunk().unwrap();
    drop(left);
    hub.let_in.store(2, Ordering::SeqCst);
    until("it goes on", || hub.came.load(Ordering::SeqCst) == 2);
    assert_eq!(server.get("/ui/models").json()["pulls"][0]["state"], "running");
    // Whoever asks for the same watches it.
    let addr = server.addr;
    let again = std::thread::spawn(move || {
        told(crate::client::post(addr, "/ui/hub/pull", &json!({"reference": "r"})))
    });
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(server.post("/ui/hub/cancel", &json!({"reference": "r"})).status, 200);
    let all = again.join().unwrap();
    assert_eq!(all.last().unwrap()["state"], "cancelled");
    assert_eq!(hub.asked.load(Ordering::SeqCst), 1);
    let parts = server.get("/ui/models").json()["unfinished"].clone();
    assert_eq!(parts, json!([{"name": "a/b", "bytes": 2}]));
    hub.let_in.store(BYTES, Ordering::SeqCst);
    let all = told(pull(&server, "r"));
    assert_eq!(all.last().unwrap()["state"], "done");
    assert!(all[0]["done"] != json!(0) || all.len() > 1, "{all:?}");
    assert_eq!(server.post("/ui/hub/cancel", &json!({"reference": "none"})).status, 404);
}

#[test]
fn failures_are_told_as_the_hub_tells_them() {
    let hub = Arc::new(Told::default());
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let log = lines.clone();
    let server = serve(&hub, |config| {
        config.log = Arc::new(move |line| log.lock().unwrap().push(line.to_owned()));
    });
    let gated = server.post("/ui/hub/contents", &json!({"repository": "gated/x"}));
    assert_eq!(gated.status, 502);
    let error = gated.json()["error"].clone();
    assert_eq!(error["message"], "gated/x is gated: accept its licence");
    assert_eq!(error["code"], "hub_failed");
    hub.full.store(true, Ordering::SeqCst);
    let last = told(pull(&server, "r")).pop().unwrap();
    let full = json!("the disk is full: 1 GB is missing");
    assert_eq!((&last["state"], &last["problem"]), (&json!("failed"), &full));
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("r was not fetched")));
    assert_eq!(told(pull(&server, "panic")).pop().unwrap()["state"], "failed");
    for (path, body) in [
        ("/ui/hub/search", json!({"words": "  "})),
        ("/ui/hub/search", json!({"words": "a\nb"})),
        ("/ui/hub/search", json!({"words": "x".repeat(500)})),
        ("/ui/hub/search", json!({})),
        ("/ui/hub/pull", json!({"reference": "r", "to": "/etc"})),
    ] {
        assert_eq!(server.post(path, &body).status, 400, "{path} {body}");
    }
}

/// Few are fetched at once, and the server's end is not held up by them.
#[test]
fn some_at_once() {
    let hub = Arc::new(Told::default());
    let server = serve(&hub, |_| {});
    let under_way: Vec<_> = (0..4)
        .map(|i| {
            let mut one = pull(&server, &format!("r{i}"));
            one.chunk().unwrap();
            one
        })
        .collect();
    let fifth = pull(&server, "r4");
    assert_eq!(
        (fifth.status, fifth.json()["error"]["code"].clone()),
        (429, json!("too_many_pulls"))
    );
    let start = Instant::now();
    server.stop.stop();
    for one in under_way {
        let text = one.text();
        assert!(text.contains("the server ends") || text.contains("cancelled"), "{text}");
    }
    server.join();
    assert!(start.elapsed() < Duration::from_secs(4));
}

/// The hub is asked for whoever administers the server, on its own page, and for nobody else.
#[test]
fn r6_who_may_have_the_hub_asked() {
    let hub = Arc::new(Told::default());
    hub.here.lock().unwrap().push("old/model".into());
    let words = json!({"words": "a"}).to_string();
    let ask = |server: &Running, headers: &str| {
        crate::client::post_with(server.addr, "/ui/hub/search", headers, &words)
    };
    let open = serve(&hub, |_| {});
    assert_eq!(ask(&open, "").status, 200);
    assert_eq!(ask(&open, "Sec-Fetch-Site: cross-site\r\n").status, 403);
    assert_eq!(ask(&open, "Origin: http://localhost:9\r\n").status, 403);
    hub.asked.store(0, Ordering::SeqCst);
    let keyed = |admin| {
        let keys = vec!["k".to_owned()];
        serve(&hub, move |config| (config.keys, config.admin) = (keys, admin))
    };
    let key = "X-Api-Key: k\r\n";
    let server = keyed(false);
    let refused = ask(&server, key);
    assert_eq!(refused.status, 403);
    let error = refused.json()["error"].clone();
    assert_eq!(error["code"], "hub_closed");
    assert!(error["message"].as_str().unwrap().contains("--admin"), "{error}");
    let load = json!({"model": "old/model"}).to_string();
    let load = crate::client::post_with(server.addr, "/ui/models/load", key, &load);
    assert_eq!(load.status, 404, "what was fetched is not served for a key alone");
    let server = keyed(true);
    assert_eq!(ask(&server, "").status, 401);
    assert_eq!(hub.asked.load(Ordering::SeqCst), 0);
    assert_eq!(ask(&server, key).status, 200);
    let closed = Arc::new(Told { closed: Some("HF_HUB_OFFLINE is set".into()), ..Told::default() });
    let server = serve(&closed, |_| {});
    assert_eq!(server.get("/ui/models").json()["hub"]["closed"], "HF_HUB_OFFLINE is set");
    assert_eq!(ask(&server, "").status, 403);
    let plain = serve(&hub, |config| config.web = false);
    assert_eq!(ask(&plain, "").status, 404);
}
