//! What the server bears: full queues, large and slow bodies, clients that leave.
use crate::client::{get, post, post_with, send};
use crate::rig::{Rig, asking};
use rinfer_server::{Config, Server};
use serde_json::json;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

fn slow() -> Rig {
    Rig { slow: Duration::from_millis(20), says: Some("x".repeat(500)), ..Rig::default() }
}

/// R1: who leaves frees the slot, whatever was under way, and whoever waits comes next.
#[test]
fn r1_clients_that_leave() {
    for stream in [true, false] {
        let server = Rig { slots: 1, ..slow() }.start();
        let leave = |how: &dyn Fn(TcpStream)| {
            let body = asking(json!({"stream": stream})).to_string();
            let head = format!(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            let mut socket = TcpStream::connect(server.addr).unwrap();
            socket.write_all((head + &body).as_bytes()).unwrap();
            how(socket);
        };
        // While it is answered; while it waits behind another; by half.
        leave(&|socket| {
            server.until_inside(1);
            drop(socket)
        });
        server.until_inside(0);
        leave(&|first| {
            server.until_inside(1);
            leave(&|second| {
                server.until_inside(2);
                drop(second)
            });
            server.until_inside(1);
            drop(first);
        });
        server.until_inside(0);
        leave(&|socket| {
            server.until_inside(1);
            socket.shutdown(Shutdown::Write).unwrap();
            server.until_inside(0)
        });
        assert_eq!(server.chat(json!({"max_tokens": 2})).status, 200);
    }
}

/// R3: a full queue says so, in the API's shape, while health answers and others finish.
#[test]
fn r3_full_queues() {
    let rig = Rig {
        slots: 1,
        queue: 1,
        slow: Duration::from_millis(5),
        says: Some("x".repeat(100)),
        ..Rig::default()
    };
    let server = rig.start();
    let addr = server.addr;
    let inside: Vec<_> = (1..=2)
        .map(|n| {
            let one = std::thread::spawn(move || {
                post(addr, "/v1/chat/completions", &asking(json!({}))).json()
            });
            server.until_inside(n);
            one
        })
        .collect();
    let full = server.chat(json!({}));
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")));
    assert_eq!(full.json()["error"]["code"], "queue_full");
    let message = json!({"model": "scripted", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let full = server.post("/v1/messages", &message);
    assert_eq!(full.status, 529);
    assert_eq!(full.json()["error"]["type"], "overloaded_error");
    let start = Instant::now();
    assert_eq!(get(addr, "/health").status, 200);
    assert!(start.elapsed() < Duration::from_secs(1));
    for answer in inside {
        assert_eq!(answer.join().unwrap()["usage"]["completion_tokens"], 100);
    }
    assert_eq!(server.chat(json!({})).status, 200);
}

/// R5: bodies are whole or refused, with the limit.
#[test]
fn r5_large_and_slow_bodies() {
    let rig = Rig::default();
    let config =
        Config { max_body: 200, body_timeout: Duration::from_millis(300), ..rig.config.clone() };
    let server = Rig { config, ..rig }.start();
    let body = |length: usize| {
        let body = asking(json!({"user": ""})).to_string();
        body.replace("\"user\":\"\"", &format!("\"user\":\"{}\"", "x".repeat(length - body.len())))
    };
    let path = "/v1/chat/completions";
    assert_eq!(post_with(server.addr, path, "", &body(200)).status, 200);
    let large = post_with(server.addr, path, "", &body(201));
    assert_eq!(large.status, 413);
    assert!(large.text().contains("200 bytes"));
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Transfer-Encoding: chunked\r\n\r\n";
    let chunked = format!("c9\r\n{}\r\n0\r\n\r\n", body(201));
    assert_eq!(send(server.addr, head, chunked.as_bytes()).status, 413);
    assert_eq!(
        send(server.addr, head, format!("c8\r\n{}\r\n0\r\n\r\n", body(200)).as_bytes()).status,
        200
    );
    assert_eq!(send(server.addr, head, b"1\r\n{\r\n").status, 408);
}

/// R14: without a key nobody else can reach the server.
#[test]
fn r14_open_addresses_need_a_key() {
    let config = Rig::default().config;
    let models = || rinfer_server::Models::new(Vec::new(), &Rig::default().config).unwrap();
    let any = "0.0.0.0:0".parse().unwrap();
    let refused = Server::bind(any, config.clone(), models(), Default::default()).err().unwrap();
    assert!(refused.to_string().contains("--api-key"), "{refused}");
    let keyed = Config { keys: vec!["k".into()], ..config };
    assert!(Server::bind(any, keyed.clone(), models(), Default::default()).is_ok());
    // Nor is a key that everybody has, or nobody can send.
    for key in ["", " k", "k\n", "\u{e9}"] {
        let keyed = Config { keys: vec!["k".into(), key.into()], ..keyed.clone() };
        let refused = Server::bind(any, keyed, models(), Default::default()).err().unwrap();
        assert!(refused.to_string().contains("API key"), "{refused}");
    }
}

#[test]
fn keys_are_asked_for() {
    let rig = Rig::default();
    let server =
        Rig { config: Config { keys: vec!["k".into()], ..rig.config.clone() }, ..rig }.start();
    let body = asking(json!({})).to_string();
    let with = |headers: &str| post_with(server.addr, "/v1/chat/completions", headers, &body);
    let none = with("");
    assert_eq!((none.status, none.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(none.json()["error"]["code"], "invalid_api_key");
    assert_eq!(with("Authorization: Bearer x\r\n").status, 401);
    assert_eq!(with("Authorization: Bearer k\r\n").status, 200);
    assert_eq!(with("X-Api-Key: k\r\n").status, 200);
    assert_eq!(server.get("/v1/models").status, 401);
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!(server.get("/health").status, 200);
}

/// R6, A12: pages of others can't ask, and those of this machine can.
#[test]
fn r6_a12_pages() {
    let server = Rig::default().start();
    let body = asking(json!({})).to_string();
    let from = |origin: &str| {
        post_with(server.addr, "/v1/chat/completions", &format!("Origin: {origin}\r\n"), &body)
    };
    let foreign = from("https://evil.example");
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (403, None));
    let local = from("http://localhost:3000");
    assert_eq!(
        (local.status, local.header("access-control-allow-origin")),
        (200, Some("http://localhost:3000"))
    );
    let preflight = |origin: &str| {
        let head = format!(
            "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, x-stainless-lang\r\n\
             Connection: close\r\n\r\n"
        );
        send(server.addr, &head, b"")
    };
    let local = preflight("http://127.0.0.1:5173");
    assert_eq!(
        (local.status, local.header("access-control-allow-headers")),
        (204, Some("authorization, x-stainless-lang"))
    );
    assert_eq!(preflight("https://evil.example").status, 403);
    let rebound = send(
        server.addr,
        "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"",
    );
    assert_eq!(rebound.status, 403);
}

/// A body that says it is too large is refused before it comes: nobody has to send it.
#[test]
fn a_large_body_is_refused_by_its_length() {
    let server = Rig::default().start();
    for expect in ["", "Expect: 100-continue\r\n"] {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{expect}\
             Content-Length: 99999999999\r\nConnection: close\r\n\r\n"
        );
        let start = Instant::now();
        let refused = send(server.addr, &head, b"{");
        assert_eq!(refused.status, 413);
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
