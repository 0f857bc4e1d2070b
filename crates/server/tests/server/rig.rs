//! A server on a model that says what it is told to.
#[path = "../../../engine/tests/scripted/mod.rs"]
mod scripted;

use crate::client::{self, Response};
use rinfer_engine::embed::{Embedder, Reranker};
use rinfer_engine::generation::Generation;
use rinfer_engine::language::Language;
use rinfer_engine::load::Load;
use rinfer_engine::model::Model;
use rinfer_engine::sample::Sampling;
use rinfer_server::{Brought, Config, Models, Offer, Server, Stop};
use rinfer_testkit::chat::{id_of, tokenizer_json};
use rinfer_testkit::{Golden, embed, shared};
use rinfer_text::template::{DateTime, Template};
use rinfer_text::tokenizer::Tokenizer;
use scripted::{Scripted, limits};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const VOCAB: usize = 256;
pub const CONTEXT: usize = 1000;
pub const CREATED: u64 = 1_700_000_000;
/// Ends an answer.
const END: u32 = 2;

/// Hermes' calls, and thoughts between tags; the conversation's end says where the answer begins.
const TEMPLATE: &str = "{{ tools | tojson if tools }}{% for m in messages %}\
    {% if m.role == 'refuse' %}{% endif %}\
    {% if m.content == 'raise' %}{{ raise_exception('Roles must alternate') }}{% endif %}\
    [{{ m.role }}]{{ m.content }}\
    {% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}\
    {% if add_generation_prompt %}[assistant]{% if enable_thinking %}<think>\n{% endif %}{% endif %}\
    {% if false %}</think>{% endif %}";

/// How a test's server is set up.
pub struct Rig {
    /// What the model says to whatever it is asked. Without that it does as it is told: see [`told`].
    pub says: Option<String>,
    /// How long each of its forward passes takes.
    pub slow: Duration,
    pub slots: usize,
    pub context: usize,
    pub queue: usize,
    /// Whether there is a model for vectors, too, and one that ranks.
    pub vectors: bool,
    pub config: Config,
}

impl Default for Rig {
    fn default() -> Rig {
        static DRAWN: AtomicU64 = AtomicU64::new(1);
        let config = Config::new(|| CREATED, || DRAWN.fetch_add(1, Ordering::Relaxed));
        let says = Some("Hello!".into());
        Rig {
            says,
            slow: Duration::ZERO,
            slots: 2,
            context: CONTEXT,
            queue: 4,
            vectors: false,
            config,
        }
    }
}

/// A server that ends with the test.
pub struct Running {
    pub addr: SocketAddr,
    pub stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Rig {
    /// On a model that says this.
    pub fn saying(says: &str) -> Rig {
        Rig { says: Some(says.into()), ..Rig::default() }
    }
    pub fn start(self) -> Running {
        let greedy = Sampling::greedy;
        let offer = Offer::ready("scripted".into(), self.model(), greedy(), self.queue);
        let other = Rig::saying("Other.").model();
        let other = Offer::ready("other/model".into(), other, greedy(), 4);
        let more = if self.vectors { Vec::from(vectors()) } else { Vec::new() };
        let more = more.into_iter().map(|(name, model)| Offer::brought(name, model, 4));
        let all = [offer, other].into_iter().chain(more).collect();
        let models = Models::new(all, &self.config).unwrap();
        models.load("scripted").unwrap();
        self.serve(models)
    }
    /// These models.
    pub fn serve(self, models: Models) -> Running {
        let stop = Stop::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(any, self.config, models, stop.clone()).unwrap();
        let addr = server.addr().unwrap();
        let thread = std::thread::spawn(move || server.run());
        Running { addr, stop, thread: Some(thread) }
    }
    /// What follows the last `[assistant]` is the answer.
    pub fn model(&self) -> Model {
        let limits = limits(self.slots, self.context, self.slots * self.context, 64);
        let (says, slow) = (self.says.clone(), self.slow);
        let executor = Scripted::new(&limits, move |seen| {
            std::thread::sleep(slow);
            let start = BEGINS.iter().find_map(|begin| {
                let begin = ids(begin);
                let at = seen.windows(begin.len()).rposition(|part| part == begin)?;
                Some(at + begin.len())
            });
            let start = start.unwrap_or(seen.len());
            let answer = says.clone().unwrap_or_else(|| told(&text(&seen[..start])));
            let next = answer.as_bytes().get(seen.len() - start).map_or(END, |byte| id_of(*byte));
            let mut logits = vec![0.0; VOCAB];
            logits[next as usize] = 20.0;
            logits
        });
        let file = serde_json::to_vec(&tokenizer_json()).unwrap();
        let tokenizer = Tokenizer::from_json(&file).unwrap();
        let generation = Generation { end: vec![END], ..Generation::default() };
        let language = Language::new(tokenizer, Ok(Template::new(TEMPLATE).unwrap()), generation);
        let now = || DateTime::from_unix(0);
        Model::new(Box::new(executor), limits, VOCAB, language, now).unwrap()
    }
}

/// Tiny models of a golden's weights: one for vectors, and one that ranks.
fn vectors() -> [(String, Brought); 2] {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let nth = MADE.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("rinfer-{}-{nth}", std::process::id()));
    let golden = Golden::load(&shared::goldens().join("embed/bert"));
    let (embeds, ranks) = (dir.join("embeds"), dir.join("ranks"));
    embed::write_model(&golden, &embeds);
    embed::write_reranker(&golden, &ranks);
    let load = || Load { threads: Some(1), ..Load::default() };
    let embeds = Brought::Embedder(Embedder::load(embeds, load()).unwrap());
    let ranks = Brought::Reranker(Reranker::load(ranks, load()).unwrap());
    std::fs::remove_dir_all(dir).unwrap();
    [("embeds".into(), embeds), ("ranks".into(), ranks)]
}

/// Where answers begin.
const BEGINS: [&str; 3] = ["[assistant]<think>\n", "[assistant]", "Go on:"];

/// What a prompt asks for: to say what follows `Say: `, or after a tool was called, what that returned.
fn told(prompt: &str) -> String {
    let prompt = BEGINS.iter().fold(prompt, |text, begin| text.strip_suffix(begin).unwrap_or(text));
    let (said, returned) = (prompt.rsplit_once("Say: "), prompt.rsplit_once("[tool]"));
    match (said, returned) {
        (said, Some((_, result))) if said.is_none_or(|(_, text)| text.len() > result.len()) => {
            format!("The tool says: {result}")
        }
        // What an agent reminds of after it is not meant.
        (Some((_, text)), _) => text.split("[system]").next().unwrap().to_owned(),
        _ => "Hello!".to_owned(),
    }
}

/// The text of tokens: one a byte.
fn text(ids: &[u32]) -> String {
    static BYTES: LazyLock<HashMap<u32, u8>> = LazyLock::new(|| {
        let bytes = (0..=u8::MAX).filter(|b| !matches!(b, 0xC0 | 0xC1 | 0xF5..));
        bytes.map(|byte| (id_of(byte), byte)).collect()
    });
    let bytes = ids.iter().filter_map(|id| BYTES.get(id).copied());
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

pub fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(id_of).collect()
}

/// A request for a chat completion, with further fields.
pub fn asking(more: Value) -> Value {
    let mut body = json!({"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

impl Running {
    pub fn post(&self, path: &str, body: &Value) -> Response {
        client::post(self.addr, path, body)
    }
    /// A chat completion.
    pub fn chat(&self, more: Value) -> Response {
        self.post("/v1/chat/completions", &asking(more))
    }
    pub fn get(&self, path: &str) -> Response {
        client::get(self.addr, path)
    }
    /// Waits for the server's end.
    pub fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
    /// How many answers are under way or wait.
    pub fn inside(&self) -> usize {
        self.inside_of("scripted")
    }
    /// How many answers of a model are under way or wait.
    pub fn inside_of(&self, model: &str) -> usize {
        let text = self.get("/metrics").text();
        let name = format!("rinfer_answers_inside{{model=\"{model}\"}}");
        let line = text.lines().find(|line| line.starts_with(&name));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }
    /// Waits until so many answers are under way or wait.
    pub fn until_inside(&self, n: usize) {
        let start = Instant::now();
        while self.inside() != n {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{} are inside, not {n}",
                self.inside()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.stop.stop();
        self.thread.take().map(JoinHandle::join);
    }
}

/// Waits, but not for ever.
pub fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
