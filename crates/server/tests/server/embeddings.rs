//! Vectors of texts, and ranks of documents.
use crate::rig::{Rig, Running, asking};
use rinfer_testkit::embed::{CONTEXT, WIDTH};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

fn start() -> Running {
    Rig { vectors: true, ..Rig::default() }.start()
}

fn embed(server: &Running, more: Value) -> (u16, Value) {
    let mut body = json!({"model": "embeds", "input": "a text"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let response = server.post("/v1/embeddings", &body);
    (response.status, response.json())
}

fn vector(answer: &Value, i: usize) -> Vec<f32> {
    let list = answer["data"][i]["embedding"].as_array().unwrap();
    list.iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

/// What SDKs do with base64: little-endian f32.
fn decoded(text: &str) -> Vec<f32> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let bits = four.iter().fold(0u32, |bits, b| bits << 6 | u32::from(value(*b) & 63));
        let kept = 3 - four.iter().filter(|b| **b == b'=').count();
        bytes.extend(&bits.to_be_bytes()[1..=kept]);
    }
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// A4: SDKs ask for base64, which is the same numbers.
#[test]
fn a4_base64_is_the_same_numbers() {
    let server = start();
    let (status, float) = embed(&server, json!({"encoding_format": "float"}));
    assert_eq!((status, float["object"].as_str()), (200, Some("list")));
    assert_eq!(float["model"], "embeds");
    assert_eq!(float["data"][0]["object"], "embedding");
    assert_eq!(float["usage"], json!({"prompt_tokens": 8, "total_tokens": 8}));
    let numbers = vector(&float, 0);
    assert_eq!(numbers.len(), WIDTH);
    assert_eq!(embed(&server, json!({})).1, float);
    let (_, base64) = embed(&server, json!({"encoding_format": "base64"}));
    assert_eq!(decoded(base64["data"][0]["embedding"].as_str().unwrap()), numbers);
    let (status, refused) = embed(&server, json!({"encoding_format": "int8"}));
    assert_eq!((status, refused["error"]["param"].as_str()), (400, Some("encoding_format")));
}

/// A4: fewer dimensions are the first ones at unit length, never more than there are.
#[test]
fn a4_dimensions() {
    let server = start();
    let whole = vector(&embed(&server, json!({})).1, 0);
    let short = vector(&embed(&server, json!({"dimensions": 8})).1, 0);
    let length = whole[..8].iter().map(|x| x * x).sum::<f32>().sqrt();
    assert_eq!(short.len(), 8);
    assert!(short.iter().zip(&whole).all(|(a, b)| (a - b / length).abs() < 1e-6));
    for dimensions in [0, WIDTH + 1] {
        let (status, refused) = embed(&server, json!({"dimensions": dimensions}));
        assert_eq!((status, refused["error"]["param"].as_str()), (400, Some("dimensions")));
    }
}

/// A6: what is too long is refused with both numbers, or cut and said to be.
#[test]
fn a6_too_long_is_refused_or_cut_and_told() {
    let server = start();
    let long = "x".repeat(60);
    for more in [json!({"input": long}), json!({"input": long, "truncate": false})] {
        let (status, refused) = embed(&server, more);
        let error = &refused["error"];
        assert_eq!((status, error["code"].as_str()), (400, Some("context_length_exceeded")));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("62 tokens") && message.contains("48"), "{message}");
    }
    let (status, cut) = embed(&server, json!({"input": ["short", long], "truncate": true}));
    assert_eq!(status, 200);
    assert_eq!(cut["data"][0]["truncated_tokens"], 0);
    assert_eq!(cut["data"][1]["truncated_tokens"], 62 - CONTEXT);
    assert_eq!(cut["usage"]["prompt_tokens"], 7 + CONTEXT);
}

#[test]
fn inputs_of_every_kind() {
    let server = start();
    let one = vector(&embed(&server, json!({"input": "hi"})).1, 0);
    let (_, many) = embed(&server, json!({"input": ["hello", "hi", ""]}));
    assert_eq!(many["data"].as_array().unwrap().len(), 3);
    assert_eq!((&many["data"][1]["index"], vector(&many, 1)), (&json!(1), one.clone()));
    let ids: Vec<u32> = [vec![1], crate::rig::ids("hi"), vec![2]].concat();
    assert_eq!(vector(&embed(&server, json!({"input": ids})).1, 0), one);
    let (_, both) = embed(&server, json!({"input": [ids, [1, 2]]}));
    assert_eq!(vector(&both, 0), one);
    let query = embed(&server, json!({"input": "hi", "prompt_name": "query"})).1;
    assert_eq!(vector(&query, 0), vector(&embed(&server, json!({"input": "query: hi"})).1, 0));
    for (more, param) in [
        (json!({"input": []}), "input"),
        (json!({"input": null}), "input"),
        (json!({"input": 3}), "input"),
        (json!({"input": ["a", 3]}), "input[1]"),
        (json!({"input": [[1], "a", {}]}), "input[2]"),
        (json!({"input": [1, -1]}), "input[1]"),
        (json!({"input": ["a", [1, 2.5]]}), "input[1][1]"),
        (json!({"input": vec!["a"; 2049]}), "input"),
        (json!({"prompt_name": "other"}), "prompt"),
    ] {
        let (status, refused) = embed(&server, more.clone());
        assert_eq!((status, refused["error"]["param"].as_str()), (400, Some(param)), "{more}");
    }
    let (status, refused) = embed(&server, json!({"input": [256]}));
    assert!(status == 400 && refused["error"]["message"].as_str().unwrap().contains("256"));
    let response = server
        .post("/v1/embeddings", &json!({"model": "embeds", "input": "a", "user": "u", "x": 1}));
    assert_eq!((response.status, response.header("x-rinfer-ignored")), (200, Some("x")));
}

/// What writes, what makes vectors and what scores say what they are for.
#[test]
fn other_models_and_other_routes() {
    let server = start();
    let check = |path: &str, body: Value, says: &str| {
        let response = server.post(path, &body);
        let (status, body) = (response.status, response.json());
        let error = &body["error"];
        assert_eq!((status, error["code"].as_str()), (400, Some("model_not_supported")), "{path}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    };
    check("/v1/embeddings", json!({"model": "scripted", "input": "a"}), "/v1/chat/completions");
    check("/v1/embeddings", json!({"model": "ranks", "input": "a"}), "/v1/rerank");
    check("/v1/chat/completions", asking(json!({"model": "embeds"})), "/v1/embeddings");
    check("/v1/completions", json!({"model": "ranks", "prompt": "a"}), "/v1/rerank");
    let rank = json!({"model": "embeds", "query": "a", "documents": ["b"]});
    check("/v1/rerank", rank, "/v1/embeddings");
    let list = server.get("/v1/models").json();
    let card = list["data"].as_array().unwrap().iter().find(|card| card["id"] == "embeds").unwrap();
    assert_eq!(card["object"], "model");
}

#[test]
fn documents_are_ranked() {
    let server = start();
    let ask = |more: Value| {
        let documents = json!(["one", {"text": "two words"}, "and three words"]);
        let mut body = json!({"model": "ranks", "query": "what", "documents": documents});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let response = server.post("/v1/rerank", &body);
        (response.status, response.json())
    };
    let (status, all) = ask(json!({}));
    assert_eq!(status, 200);
    let results = all["results"].as_array().unwrap();
    let score = |result: &Value| result["relevance_score"].as_f64().unwrap();
    assert!(results.len() == 3 && results.is_sorted_by(|a, b| score(a) >= score(b)));
    assert!(results.iter().all(|r| (0.0..=1.0).contains(&score(r))));
    assert_eq!(all["usage"]["prompt_tokens"], 3 * 7 + 3 + 9 + 15);
    let (_, top) = ask(json!({"top_n": 1, "return_documents": true}));
    let best = &top["results"].as_array().unwrap()[0];
    assert_eq!((&best["index"], score(best)), (&results[0]["index"], score(&results[0])));
    assert!(best["document"]["text"].is_string());
    for (more, param) in [
        (json!({"top_n": 0}), "top_n"),
        (json!({"documents": [3]}), "documents[0]"),
        (json!({"documents": null}), "documents"),
        (json!({"query": null}), "query"),
    ] {
        let (status, refused) = ask(more);
        assert_eq!((status, refused["error"]["param"].as_str()), (400, Some(param)));
    }
    let (status, refused) = ask(json!({"documents": ["x".repeat(200)]}));
    assert_eq!((status, refused["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
}

/// R1: vectors and ranks that nobody waits for any more are not made.
#[test]
fn r1_who_leaves_ends_the_work() {
    let server = start();
    let documents = vec!["three words or four"; 6000];
    let rank = json!({"model": "ranks", "query": "what", "documents": documents});
    let embed = json!({"model": "embeds", "input": vec!["three words or four"; 2048]});
    for (path, model, body) in [("/v1/rerank", "ranks", rank), ("/v1/embeddings", "embeds", embed)]
    {
        let start = Instant::now();
        assert_eq!(server.post(path, &body).status, 200);
        let whole = start.elapsed();
        let mut stream = TcpStream::connect(server.addr).unwrap();
        let body = body.to_string();
        let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length:";
        write!(stream, "POST {path} HTTP/1.1\r\n{head} {}\r\n\r\n{body}", body.len()).unwrap();
        let wait = |n: usize| while server.inside_of(model) != n {};
        wait(1);
        // Texts are tokens by then, and the first vectors are made.
        std::thread::sleep(whole / 3);
        let start = Instant::now();
        drop(stream);
        wait(0);
        let left = start.elapsed();
        println!("{path}: {left:?} after its client left, {whole:?} in all");
        assert!(left < whole / 2, "{path}: {left:?} of {whole:?}");
    }
}
