//! What a server keeps over its end, however that comes.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_testkit::serving::Serving;
use rinfer_testkit::{Golden, chat, shared};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const FIRST: &str = "The first of all questions.";

/// `rinfer serve`, asked with a key.
struct Server(Serving);

/// A folder with a tiny chat model, and one for sessions.
fn folders(test: &str) -> (String, PathBuf) {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &dir.join("tiny"));
    (dir.join("tiny").to_str().unwrap().to_owned(), dir.join("sessions"))
}

impl Server {
    fn start(model: &str, sessions: &Path, more: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
        let args = ["serve", model, "--addr", "127.0.0.1:0", "--threads", "1", "--admin"];
        command.args(args).args(["--api-key", "k", "--sessions"]).arg(sessions).args(more);
        Server(Serving::start(command.env("RINFER_LOG", "info")))
    }
    fn said(&self) -> &str {
        &self.0.said
    }
    fn post(&self, path: &str, body: &Value) -> Option<Value> {
        let mut socket = std::net::TcpStream::connect(self.0.addr).ok()?;
        let body = body.to_string();
        let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Api-Key: k\r\n\
                    Content-Type: application/json\r\nContent-Length:";
        write!(socket, "POST {path} {head} {}\r\n\r\n{body}", body.len()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
    /// The answer, and how much of the prompt was kept.
    fn ask(&self, text: &str) -> Option<(Value, u64)> {
        let body = json!({
            "messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0,
        });
        let answer = self.post("/v1/chat/completions", &body)?;
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64()?;
        Some((answer["choices"][0]["message"]["content"].clone(), cached))
    }
    fn save(&self) -> Option<Value> {
        self.post("/admin/models/save", &json!({"model": "tiny"}))
    }
    fn end(self) {
        assert_eq!(self.0.end(), Some(0));
    }
}

/// K2: what a server kept is there after its end, for the same model and no other.
#[test]
fn k2_sessions_outlive_the_server() {
    let (model, sessions) = folders("sessions");
    let file = sessions.join("tiny.kept");
    let first = Server::start(&model, &sessions, &[]);
    let (answer, none) = first.ask("What is kept, and for how long is it kept?").unwrap();
    assert_eq!(none, 0);
    let error = first.post("/admin/models/save", &json!({"model": "other"})).unwrap();
    assert_eq!(error["error"]["code"], "model_not_found");
    let positions = first.save().unwrap()["positions"].as_u64().unwrap();
    assert!(positions > 40 && file.exists());
    std::fs::remove_file(&file).unwrap();
    first.end();
    let second = Server::start(&model, &sessions, &[]);
    assert!(second.said().contains("restored"), "{}", second.said());
    let (again, cached) = second.ask("What is kept, and for how long is it kept?").unwrap();
    assert_eq!(again, answer);
    assert!(cached > 40);
    second.end();
    let before = std::fs::read(&file).unwrap();
    let other = Server::start(&model, &sessions, &["--kv", "f32"]);
    assert!(
        other.said().contains("tiny.kept is not restored: it is of another model"),
        "{}",
        other.said()
    );
    assert_eq!(other.ask("What is kept, and for how long is it kept?").unwrap().1, 0);
    other.end();
    std::fs::write(&file, &before[..before.len() - 9]).unwrap();
    let cut = Server::start(&model, &sessions, &[]);
    assert!(cut.said().contains("cut short"), "{}", cut.said());
    assert_eq!(cut.ask("What is kept, and for how long is it kept?").unwrap(), (answer, 0));
    // Nothing that it did not need to write was written over.
    cut.end();
    let whole = Server::start(&model, &sessions, &[]);
    assert!(whole.said().contains("restored"), "{}", whole.said());
    assert!(whole.ask("What is kept, and for how long is it kept?").unwrap().1 > 40);
    whole.end();
}

/// A server that is killed at any moment of saving leaves a whole file: this one's or the one before.
#[test]
fn a_killed_server_leaves_whole_files() {
    let (model, sessions) = folders("killed");
    let server = Server::start(&model, &sessions, &[]);
    let first = server.ask(FIRST).unwrap();
    server.save().unwrap();
    server.end();
    let mut random = 12345u32;
    for round in 0..12 {
        let mut server = Server::start(&model, &sessions, &[]);
        assert!(server.said().contains("restored"), "round {round}: {}", server.said());
        let found = server.ask(FIRST).unwrap();
        assert!(found.0 == first.0 && found.1 > 10, "round {round}: {found:?}");
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wait = Duration::from_micros(u64::from(random >> 16));
        std::thread::scope(|scope| {
            let saving = scope.spawn(|| {
                let start = Instant::now();
                // What is asked again and again is not what goes first.
                let ask = |i: i32| {
                    let other = server.ask(&format!("{i}, {round}"));
                    other.and(server.ask(FIRST)).and(server.save())
                };
                (0..).map_while(ask).count();
                start.elapsed()
            });
            std::thread::sleep(wait);
            server.0.signal("KILL");
            assert!(saving.join().unwrap() < Duration::from_secs(30));
        });
        server.0.child.wait().unwrap();
    }
    let left: Vec<_> =
        std::fs::read_dir(&sessions).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "tiny.kept" || name == "tiny.kept.part"), "{left:?}");
}
