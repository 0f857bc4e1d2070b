//! What the page of a server does with the hub: nothing by itself, and what its user asks for.
#[path = "../../crates/server/tests/server/client.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod client;

use crate::{MODEL, REFERENCE, Told, config, folder, hub_with};
use client::{get, post};
use rinfer::hub::{Error, Hub, Repo, Watch};
use rinfer_fakehub as fake;
use rinfer_testkit::serving::Serving;
use rinfer_testkit::{Golden, chat, shared};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn repositories_by_words() {
    let (fake, _) = hub_with(8);
    fake.repo("owner/other thing", &[("x", "x")]);
    fake.repo("Some/Thing-GGUF", &[("x", "x")]);
    let hub = Hub::new(config("search", fake.url()));
    let found = hub.search("thing").unwrap();
    // What can't be a repository's name is left out.
    let names: Vec<Repo> = found.iter().map(|found| found.repo.clone()).collect();
    assert_eq!(names, [Repo::new("Some/Thing-GGUF").unwrap()]);
    assert_eq!((found[0].downloads, found[0].gated), (Some(1234), false));
    assert_eq!(hub.search("none such &sort=x").unwrap(), []);
    let path = fake.log().pop().unwrap().path;
    assert!(path.contains("search=none%20such%20%26sort%3Dx&filter=gguf&"), "{path}");
    fake.faults(fake::Faults { raw: Some("<html>".into()), ..Default::default() });
    let error = hub.search("thing").unwrap_err().to_string();
    assert!(error.contains("no list of repositories") && error.contains("HF_ENDPOINT"), "{error}");
    let mut offline = config("search-offline", fake.url());
    offline.offline = true;
    fake.log();
    assert!(matches!(Hub::new(offline).search("thing"), Err(Error::Offline { .. })));
    assert!(fake.log().is_empty());
}

/// Wants so many bytes.
struct Wants(AtomicU64);

impl Watch for Wants {
    fn note(&self, _: &str) {}
    fn tell(&self, _: &str) {}
    fn begins(&self, _: &str, _: u64, _: u64) {}
    fn came(&self, bytes: u64) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            Some(left.saturating_sub(bytes))
        });
    }
    fn ends(&self) {}
    fn is_wanted(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// A fetch that nobody wants any more ends, and goes on from there.
#[test]
fn fetching_is_given_up() {
    const SIZE: u64 = 8 << 20;
    let (fake, content) = hub_with(SIZE);
    let hub = Hub::new(config("given-up", fake.url()));
    let given_up = hub.pull(REFERENCE, &Wants(AtomicU64::new(SIZE / 4))).unwrap_err();
    assert!(matches!(given_up, Error::Cancelled), "{given_up}");
    let told = Told::default();
    let here = hub.pull(REFERENCE, &told).unwrap();
    assert_eq!(std::fs::read(here.path).unwrap(), content.bytes());
    assert!(*told.came.lock().unwrap() <= SIZE - SIZE / 4);
}

/// A server with a page and no model, on a hub and a cache.
fn serve(fake: &fake::Hub, cache: &std::path::Path, more: &[&str]) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
    command.args(["serve", "--web", "--addr", "127.0.0.1:0"]).args(more);
    for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
    {
        command.env_remove(name);
    }
    command.env("HF_ENDPOINT", fake.url()).env("RINFER_MODELS", cache);
    Serving::start(command.env("HF_HUB_CACHE", cache.join("none")))
}

fn asking(model: Option<&str>) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2});
    body.as_object_mut().unwrap().extend(model.map(|model| ("model".to_owned(), json!(model))));
    body
}

#[test]
fn a_server_without_a_model_gets_one() {
    let folder = folder("page");
    let (model, cache) = (folder.join("model"), folder.join("cache"));
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &model);
    let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(&model)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    let files: Vec<(&str, Vec<u8>)> =
        files.iter().map(|(name, file)| (&**name, file.clone())).collect();
    let (fake, _) = hub_with(8);
    fake.repo("tiny/chat", &files);
    let server = serve(&fake, &cache, &[]);
    let addr = server.addr;
    let none = post(addr, "/v1/chat/completions", &asking(None));
    assert_eq!(none.status, 404);
    assert!(none.text().contains("get one on its page"));
    let shown = get(addr, "/ui/models").json();
    assert_eq!((&shown["models"], &shown["here"]), (&json!([]), &json!([])));
    assert_eq!(shown["hub"]["suggested"][0]["reference"], "demo:tiny");
    assert!(fake.log().is_empty(), "nobody is asked before somebody searches");
    let contents = post(addr, "/ui/hub/contents", &json!({"repository": "tiny/chat"})).json();
    let one = &contents["models"][0];
    assert_eq!(
        (&one["what"], &one["fits"], &one["here"]),
        (&json!("safetensors"), &json!(true), &json!(false))
    );
    let pulled = post(addr, "/ui/hub/pull", &json!({"reference": one["reference"]})).events();
    let last: Value = serde_json::from_str(&pulled.last().unwrap().1).unwrap();
    assert_eq!((&last["state"], &last["model"]), (&json!("done"), &json!("tiny/chat")));
    assert_eq!(post(addr, "/v1/chat/completions", &asking(Some("tiny/chat"))).status, 200);
    assert_eq!(server.end(), Some(0));
    // A later one has it where it is loaded on the page, and asks nobody.
    fake.log();
    let server = serve(&fake, &cache, &[]);
    let addr = server.addr;
    assert_eq!(get(addr, "/ui/models").json()["here"], json!(["tiny/chat"]));
    assert_eq!(post(addr, "/v1/chat/completions", &asking(Some("tiny/chat"))).status, 404);
    let name = json!({"model": "tiny/chat"});
    let plan = post(addr, "/ui/models/plan", &name).json();
    let part = |name: &str| plan[name].as_u64().unwrap();
    assert!(part("weights") > 0 && part("state") > 0 && part("scratch") > 0, "{plan}");
    assert_eq!(part("total"), part("weights") + part("state") + part("scratch"));
    assert_eq!(post(addr, "/ui/models/load", &name).status, 200);
    let shown = get(addr, "/ui/models").json();
    assert_eq!(
        (&shown["models"][0]["bytes"], &shown["models"][0]["context"]),
        (&plan["total"], &plan["context"])
    );
    assert_eq!(post(addr, "/v1/chat/completions", &asking(None)).status, 200);
    assert!(fake.log().is_empty());
    assert_eq!(server.end(), Some(0));
}

/// A folder that has no model yet is no reason not to begin.
#[test]
fn an_empty_folder_of_models() {
    let folder = folder("empty");
    let (fake, _) = hub_with(8);
    let models = folder.to_str().unwrap();
    for web in [true, false] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
        command.args(["serve", "--models", models, "--addr", "127.0.0.1:0"]);
        let server = if web {
            serve(&fake, &folder.join("cache"), &["--models", models])
        } else {
            Serving::start(&mut command)
        };
        assert!(server.said.contains("there is no model in it"), "{}", server.said);
        let none = post(server.addr, "/v1/chat/completions", &asking(None));
        assert_eq!((none.status, none.text().contains("its page")), (404, web));
    }
}

/// What the hub refuses is told as it is on the command line.
#[test]
fn refusals_reach_the_page() {
    let (fake, _) = hub_with(8);
    let server = serve(&fake, &folder("refusals"), &[]);
    let told = |path: &str, body: Value| post(server.addr, path, &body);
    let missing = told("/ui/hub/contents", json!({"repository": "no/such"}));
    assert_eq!(missing.status, 502);
    assert!(missing.text().contains("there is none on"));
    let outside = told("/ui/hub/pull", json!({"reference": "/etc/passwd"})).text();
    assert!(outside.contains("has no hf: before it"), "{outside}");
    let files = fake::Refusal::always(403, "GatedRepo");
    fake.faults(fake::Faults { files, ..Default::default() });
    let gated = told("/ui/hub/pull", json!({"reference": format!("hf:owner/repo:{MODEL}")})).text();
    assert!(gated.contains("is gated: accept its licence at"), "{gated}");
}
