//! Several models: brought when they are asked for, within memory, and let go.
use crate::client::{get, post};
use crate::rig::{Rig, Running, asking, until};
use rinfer_engine::sample::Sampling;
use rinfer_server::{Brought, Config, Failure, Keep, Models, Offer, Plan, Source};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// A model that takes so much, and what becomes of it.
#[derive(Clone)]
struct Fake {
    bytes: usize,
    loads: Arc<AtomicUsize>,
    /// Whether it can't be loaded now.
    broken: Arc<AtomicBool>,
    /// How long that takes.
    takes: Duration,
    /// How long each of its forward passes takes.
    slow: Duration,
}

impl Fake {
    fn of(mib: usize) -> Fake {
        let (loads, broken) = Default::default();
        Fake { bytes: mib * MIB, loads, broken, takes: Duration::ZERO, slow: Duration::ZERO }
    }
    fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }
}

impl Source for Fake {
    fn plan(&self) -> Result<Plan, Failure> {
        Ok(Plan { weights: self.bytes, ..Plan::default() })
    }
    fn load(&self) -> Result<Brought, Failure> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.takes);
        if self.broken.load(Ordering::SeqCst) {
            let whole = "/secret/place/a.gguf: blk.0.attn_q.weight is missing".into();
            return Err(Failure { told: "blk.0.attn_q.weight is missing".into(), whole });
        }
        let rig = Rig { says: Some("x".repeat(100)), slow: self.slow, slots: 1, ..Rig::default() };
        Ok(Brought::Writer(rig.model(), Sampling::greedy()))
    }
}

/// A server on these, called a, b, c.
fn serve(fakes: &[&Fake], change: impl FnOnce(&mut Config)) -> Running {
    let mut rig = Rig::default();
    change(&mut rig.config);
    let named = ["a", "b", "c"].into_iter().zip(fakes);
    let offer = |(name, fake): (&str, &&Fake)| {
        Offer::new(vec![name.into(), format!("{name}/alias")], (*fake).clone(), 8)
    };
    let models = Models::new(named.map(offer).collect(), &rig.config).unwrap();
    rig.serve(models)
}

fn ask(server: &Running, model: &str) -> crate::client::Response {
    server.chat(json!({"model": model, "max_tokens": 3}))
}

/// How each is, as the list says.
fn states(addr: SocketAddr) -> Vec<String> {
    let list = get(addr, "/v1/models").json();
    let own = |card: &&Value| card["id"] == card["root"];
    let state = |card: &Value| card["state"].as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().filter(own).map(state).collect()
}

#[test]
fn brought_once_when_asked_for() {
    let (a, b) = (Fake { takes: Duration::from_millis(200), ..Fake::of(1) }, Fake::of(1));
    let server = serve(&[&a, &b], |_| {});
    assert_eq!(states(server.addr), ["unloaded", "unloaded"]);
    let card = server.get("/v1/models/a").json();
    assert_eq!((&card["context_length"], &card["root"]), (&Value::Null, &json!("a")));
    let addr = server.addr;
    let all: Vec<_> = (0..6)
        .map(|i| {
            let model = if i % 2 == 0 { "a" } else { "a/alias" };
            let body = asking(json!({"model": model, "max_tokens": 3}));
            let asked =
                std::thread::spawn(move || post(addr, "/v1/chat/completions", &body).json());
            (model, asked)
        })
        .collect();
    until("loading", || states(addr)[0] == "loading");
    for (model, asked) in all {
        let body = asked.join().unwrap();
        assert_eq!(
            (&body["model"], &body["usage"]["completion_tokens"]),
            (&json!(model), &json!(3))
        );
    }
    assert_eq!((a.loads(), b.loads()), (1, 0));
    assert_eq!(states(addr), ["loaded", "unloaded"]);
    assert_eq!(get(addr, "/v1/models/a/alias").json()["context_length"], 1000);
}

/// The longest idle one makes room; one that is used does not.
#[test]
fn the_longest_idle_make_room() {
    let (a, b, c) = (Fake::of(40), Fake::of(40), Fake::of(60));
    let server = serve(&[&a, &b, &c], |config| config.memory = Some(100 * MIB));
    for (model, expected) in [
        ("a", ["loaded", "unloaded", "unloaded"]),
        ("b", ["loaded", "loaded", "unloaded"]),
        ("a", ["loaded", "loaded", "unloaded"]),
        ("c", ["loaded", "unloaded", "loaded"]),
        ("b", ["unloaded", "loaded", "loaded"]),
    ] {
        assert_eq!(ask(&server, model).status, 200);
        assert_eq!(states(server.addr), expected, "{model}");
    }
    assert_eq!((a.loads(), b.loads(), c.loads()), (1, 2, 1));
}

#[test]
fn what_is_used_stays() {
    let a = Fake { slow: Duration::from_millis(10), ..Fake::of(60) };
    let (b, c) = (Fake::of(60), Fake::of(101));
    let patience = |ms| {
        move |config: &mut Config| {
            config.memory = Some(100 * MIB);
            config.patience = Duration::from_millis(ms);
        }
    };
    let begin = |addr: SocketAddr, most: usize| {
        let body = asking(json!({"model": "a", "max_tokens": most}));
        let asked = std::thread::spawn(move || post(addr, "/v1/chat/completions", &body).json());
        until("a is used", || states(addr)[0] == "loaded");
        asked
    };
    // Who can't wait for so long is told both numbers.
    let server = serve(&[&a, &b, &c], patience(50));
    let asked = begin(server.addr, 100);
    let full = ask(&server, "b");
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")));
    let error = full.json()["error"].clone();
    assert_eq!(error["code"], "memory_in_use");
    let text = error["message"].as_str().unwrap();
    assert!(
        text.contains("60 MiB") && text.contains("40 of 100 MiB") && text.contains("'a'"),
        "{text}"
    );
    let message =
        json!({"model": "b", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(server.post("/v1/messages", &message).status, 529);
    assert_eq!(asked.join().unwrap()["usage"]["completion_tokens"], 100);
    assert_eq!((ask(&server, "b").status, a.loads(), b.loads()), (200, 1, 1));
    // What never fits is told at once, and nothing is unloaded for it.
    let large = ask(&server, "c");
    assert_eq!(large.status, 500);
    let error = large.json()["error"].clone();
    assert_eq!(error["code"], "model_too_large");
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("101 MiB") && text.contains("100 MiB"), "{text}");
    assert_eq!(states(server.addr), ["unloaded", "loaded", "unloaded"]);
    drop(server);
    // Who can, waits until it is done.
    let server = serve(&[&a, &b, &c], patience(10_000));
    let asked = begin(server.addr, 50);
    assert_eq!(ask(&server, "b").status, 200);
    assert_eq!(asked.join().unwrap()["usage"]["completion_tokens"], 50);
    assert_eq!(states(server.addr), ["unloaded", "loaded", "unloaded"]);
}

/// R9, A15: all who wait are told why, without paths; the log has them; the next one tries anew.
#[test]
fn failures_are_told_and_not_kept() {
    let a = Fake { takes: Duration::from_millis(200), ..Fake::of(1) };
    a.broken.store(true, Ordering::SeqCst);
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let log = lines.clone();
    let server = serve(&[&a], |config| {
        config.log = Arc::new(move |line| log.lock().unwrap().push(line.to_owned()));
    });
    let addr = server.addr;
    let all: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(move || {
                post(addr, "/v1/chat/completions", &asking(json!({"model": "a"})))
            })
        })
        .collect();
    for asked in all {
        let response = asked.join().unwrap();
        assert_eq!(response.status, 500);
        let error = response.json()["error"].clone();
        assert_eq!(
            (&error["code"], &error["type"]),
            (&json!("model_not_loaded"), &json!("server_error"))
        );
        let text = error["message"].as_str().unwrap();
        assert!(text.contains("attn_q") && !text.contains("secret"), "{text}");
    }
    assert_eq!(a.loads(), 1);
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("/secret/place/a.gguf")));
    a.broken.store(false, Ordering::SeqCst);
    assert_eq!((ask(&server, "a").status, a.loads()), (200, 2));
}

/// A11: the same on each API.
#[test]
fn a11_keep_alive() {
    let a = Fake::of(1);
    let server = serve(&[&a], |_| {});
    let state = || states(server.addr)[0].clone();
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let bodies = [
        ("/v1/chat/completions", json!({"messages": messages, "max_tokens": 2})),
        ("/v1/completions", json!({"prompt": "Hi", "max_tokens": 2})),
        ("/v1/responses", json!({"input": "Hi", "max_output_tokens": 2})),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 2})),
        ("/tokenize", json!({"content": "Hi"})),
    ];
    for (path, body) in &bodies {
        let with = |keep: Value| {
            let mut body = body.clone();
            body["keep_alive"] = keep;
            let response = server.post(path, &body);
            assert_eq!(response.header("x-rinfer-ignored"), None, "{path}");
            response
        };
        assert_eq!(with(json!("5m")).status, 200, "{path}");
        assert_eq!(state(), "loaded");
        assert_eq!(with(json!(0)).status, 200, "{path}");
        until(path, || state() == "unloaded");
        for keep in [json!(-1), Value::Null, json!("-1m")] {
            assert_eq!(with(keep).status, 200, "{path}");
        }
        assert_eq!(with(json!("50ms")).status, 200, "{path}");
        until(path, || state() == "unloaded");
        for wrong in [json!("soon"), json!([]), json!(true)] {
            let refused = with(wrong);
            assert_eq!(refused.status, 400, "{path}");
            assert!(refused.text().contains("keep_alive"));
        }
    }
    assert_eq!(a.loads(), 2 * bodies.len());
    let config = |config: &mut Config| config.keep_alive = Keep::For(Duration::from_millis(30));
    let server = serve(&[&a], config);
    assert_eq!(ask(&server, "a").status, 200);
    until("the server's own", || states(server.addr)[0] == "unloaded");
}

/// Who leaves while a model is loaded is not waited for, and what is loaded is there for the next.
#[test]
fn leaving_while_it_is_loaded() {
    let a = Fake { takes: Duration::from_millis(300), ..Fake::of(1) };
    let server = serve(&[&a], |_| {});
    let mut socket = TcpStream::connect(server.addr).unwrap();
    let body = asking(json!({"model": "a"})).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    std::io::Write::write_all(&mut socket, (head + &body).as_bytes()).unwrap();
    until("loading", || states(server.addr)[0] == "loading");
    drop(socket);
    assert_eq!(server.get("/health").status, 200);
    assert_eq!((ask(&server, "a").status, a.loads()), (200, 1));
}

/// A10: names that two have are refused, and who names none where there are several is told all.
#[test]
fn a10_names() {
    let (a, b) = (Fake::of(1), Fake::of(1));
    let offer = |fake: &Fake| Offer::new(vec!["a".into(), "b".into()], fake.clone(), 1);
    let config = Rig::default().config;
    assert_eq!(Models::new(vec![offer(&a), offer(&b)], &config).err().unwrap(), "a");
    let server = serve(&[&a, &b], |_| {});
    for model in
        [json!("A"), json!(""), json!("a/ALIAS"), json!("a/"), json!("../a"), json!("a\u{0}")]
    {
        let response = server.chat(json!({"model": model}));
        assert_eq!(response.status, 404, "{model}");
        assert!(response.text().contains("'a', 'a/alias', 'b', 'b/alias'"));
    }
    assert_eq!(server.chat(json!({"model": null})).status, 400);
    assert_eq!(server.get("/v1/models/A").status, 404);
    assert_eq!(a.loads() + b.loads(), 0);
    let names: Vec<String> = (0..30).map(|i| format!("m{i}")).collect();
    let offers = names.iter().map(|name| Offer::new(vec![name.clone()], a.clone(), 1));
    let many = Models::new(offers.collect(), &config).unwrap();
    let text = Rig::default().serve(many).chat(json!({"model": "x"})).text();
    assert!(text.contains("'m19' and 10 more, which /v1/models lists"), "{text}");
}
