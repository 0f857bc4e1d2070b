//! Many clients of a server at once, a third of whom leave when they like: each of the others gets what it
//! would get alone, and the server stays as quick to tell that it is well, and as small.
#![allow(clippy::unwrap_used, reason = "tests")]
#[path = "../crates/server/tests/server/client.rs"]
mod client;

use client::Response;
use rinfer_testkit::serving::Serving;
use rinfer_testkit::shared::model;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
/// Tokens of an answer.
const LENGTHS: [usize; 3] = [6, 17, 40];
const QUESTIONS: [&str; 10] = [
    "Why is the sky blue?",
    "Write a line about the sea.",
    "Count from one to twenty in words.",
    "What is a prime number? Answer in one sentence, and then name five of them.",
    "Name three rivers.",
    "Tell me a story about a fox and a crow that meet in a wood in winter, when there is little to eat.",
    "Translate to French: the bread is on the table.",
    "What do bees do all day?",
    "Explain how a lock works to somebody who has never seen one, step by step and in plain words.",
    "Hi",
];

fn start(model: &str) -> Serving {
    let args = ["serve", model, "--addr", "127.0.0.1:0", "--parallel", "8", "--context", "1024"];
    Serving::start(Command::new(env!("CARGO_BIN_EXE_rinfer")).args(args))
}

/// KiB that it has of its own, but for what is mapped.
fn resident(server: &Serving) -> u64 {
    let path = format!("/proc/{}/status", server.child.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn body(question: &str, length: usize, stream: bool) -> Value {
    json!({"messages": [{"role": "user", "content": question}], "max_tokens": length,
        "temperature": 0, "stream": stream, "model": ""})
}

fn ask(addr: SocketAddr, question: &str, length: usize, stream: bool) -> Response {
    let models = client::get(addr, "/v1/models").json();
    let mut body = body(question, length, stream);
    body["model"] = models["data"][0]["id"].clone();
    client::post(addr, "/v1/chat/completions", &body)
}

/// The answer's text, told once and whole.
fn whole(response: Response) -> String {
    let answer = response.json();
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

fn joined(response: Response) -> String {
    let chunks = response.chunks();
    let choices: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk["choices"].get(0)).collect();
    let ends = choices.iter().filter(|choice| !choice["finish_reason"].is_null()).count();
    assert_eq!(ends, 1, "{chunks:?}");
    choices.iter().filter_map(|choice| choice["delta"]["content"].as_str()).collect()
}

/// A small generator: a 64-bit linear congruence, high bits out.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// What became of all requests.
#[derive(Default, Debug)]
struct Counts {
    right: usize,
    left: usize,
    turned_away: usize,
}

/// One client until `end`.
fn client(
    seed: u64,
    addr: SocketAddr,
    alone: &HashMap<(usize, usize), String>,
    end: Instant,
    counts: &Mutex<Counts>,
) {
    let mut random = Random(seed);
    while Instant::now() < end {
        let (question, length) = (random.below(QUESTIONS.len()), LENGTHS[random.below(3)]);
        let (stream, leaves) = (random.below(2) == 0, random.below(3) == 0);
        let mut response = ask(addr, QUESTIONS[question], length, stream || leaves);
        if response.status == 429 {
            assert!(response.header("retry-after").is_some());
            counts.lock().unwrap().turned_away += 1;
            std::thread::sleep(Duration::from_millis(100));
            continue;
        }
        assert_eq!(response.status, 200);
        if leaves {
            (0..random.below(9)).take_while(|_| response.chunk().is_some()).for_each(drop);
            drop(response);
            counts.lock().unwrap().left += 1;
            continue;
        }
        let text = if stream { joined(response) } else { whole(response) };
        assert_eq!(text, alone[&(question, length)], "{length} tokens of {question}");
        counts.lock().unwrap().right += 1;
    }
}

/// Of a hundred, the highest but one.
fn high(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() * 99 / 100]
}

fn run(time: Duration) {
    let Some(path) = model("smollm2-135m-instruct-q4_1.gguf") else { return };
    let server = start(path.to_str().unwrap());
    let addr = server.addr;
    let mut alone = HashMap::new();
    for (question, text) in QUESTIONS.iter().enumerate() {
        for length in LENGTHS {
            alone.insert((question, length), whole(ask(addr, text, length, false)));
        }
    }
    let (counts, start) = (Mutex::new(Counts::default()), Instant::now());
    let end = start + time;
    let (mut health, mut sizes) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (alone, counts) = (&alone, &counts);
            scope.spawn(move || client(seed as u64, addr, alone, end, counts));
        }
        while Instant::now() < end {
            let asked = Instant::now();
            assert_eq!(client::get(addr, "/health").status, 200);
            health.push(asked.elapsed());
            sizes.push(resident(&server));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let counts = counts.into_inner().unwrap();
    let (early, late, health) = (sizes[sizes.len() / 4], *sizes.last().unwrap(), high(&mut health));
    println!(
        "{} right, {} left, {} turned away; of /health 99 of 100 below {health:?}; {early} KiB after a quarter, \
         {late} at last",
        counts.right, counts.left, counts.turned_away
    );
    assert!(counts.right > CLIENTS && counts.left > CLIENTS / 4, "{counts:?}");
    // A few of the slots' pages may be touched late.
    assert!(late < early + 32 * 1024, "it grew from {early} to {late} KiB");
    // What is left when all have gone.
    let metrics = client::get(addr, "/metrics").text();
    let inside = metrics.lines().filter(|line| line.starts_with("rinfer_answers_inside{"));
    assert!(
        inside.clone().count() > 0 && inside.clone().all(|line| line.ends_with(" 0")),
        "{metrics}"
    );
    if !cfg!(debug_assertions) {
        assert!(health < Duration::from_millis(50), "{health:?}");
    }
}

#[test]
fn clients_come_and_go() {
    run(Duration::from_secs(15));
}

#[test]
#[ignore = "takes two minutes, and its bound is of a release build: --release --run-ignored all, with RINFER_TEST_MODELS"]
fn clients_come_and_go_for_long() {
    run(Duration::from_secs(120));
}
