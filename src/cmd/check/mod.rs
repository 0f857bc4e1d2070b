//! `rinfer check`: whether a server that runs speaks OpenAI's and Anthropic's APIs as clients expect.
mod anthropic;
mod http;
mod openai;
mod other;

use super::{Environment, Usage, put};
use anyhow::{Context, bail};
pub use http::short;
use http::{Host, Response};
use serde_json::{Value, json};
use std::time::Instant;

/// Ask a running server all that clients would: rinfer check http://127.0.0.1:8080
///
/// Prints a line for each check: pass, fail, or that the server does not offer this, and why. Ends with 1
/// if anything fails.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the server is: http://HOST:PORT
    url: String,
    /// The model to ask [default: the first that the server lists]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The key to send [default: RINFER_API_KEY]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A server, and the model that it is asked.
pub struct Server {
    host: Host,
    model: String,
}

/// What a check finds; a failure is an error.
pub enum Verdict {
    Pass(String),
    /// The server does not do this, and says so.
    NotOffered(String),
}

/// A check: what it is about, and how it is made.
type Check = (&'static str, fn(&Server) -> anyhow::Result<Verdict>);

/// All that need a model; each stands for itself.
const CHECKS: &[Check] = &[
    ("chat", openai::chat),
    ("chat: streamed as whole", openai::streamed),
    ("chat: the same again", openai::repeated),
    ("chat: max_tokens", openai::limit),
    ("chat: stop", openai::stop),
    ("chat: log-probabilities", openai::logprobs),
    ("chat: tools", openai::tools),
    ("chat: JSON of a schema", openai::schema),
    ("completions", openai::completions),
    ("responses", openai::responses),
    ("messages", anthropic::messages),
    ("messages: streamed as whole", anthropic::streamed),
    ("messages: count_tokens", anthropic::counted),
    ("messages: errors", anthropic::errors),
    ("embeddings", other::embeddings),
    ("tokenize", other::tokenize),
    ("errors", other::errors),
    ("clients that leave", other::leaving),
];

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let key = args.key.clone().or_else(|| env.api_key.clone());
    let host = Host::new(&args.url, key).map_err(Usage)?;
    let mut rows = Vec::new();
    let mut check = |name: &'static str, made: &dyn Fn() -> anyhow::Result<Verdict>| {
        let start = Instant::now();
        let found = made();
        rows.push(Row { name, found, seconds: start.elapsed().as_secs_f64() });
    };
    check("health", &|| other::health(&host));
    let listed = models(&host, args.model.as_deref());
    check("models", &|| match &listed {
        Ok((model, count)) => Ok(Verdict::Pass(format!("{count} listed; '{model}' is asked"))),
        Err(error) => bail!("{error:#}"),
    });
    // One that is not listed may be there all the same.
    let model = listed.map(|(model, _)| model).ok().or_else(|| args.model.clone());
    if let Some(model) = model {
        let server = Server { host, model };
        CHECKS.iter().for_each(|(name, made)| check(name, &|| made(&server)));
    }
    let failed = rows.iter().filter(|row| row.found.is_err()).count();
    put(&if args.json { told(&rows) } else { table(&rows) })?;
    if failed > 0 {
        bail!("{failed} of {} checks failed", rows.len());
    }
    Ok(())
}

/// A check that was made.
struct Row {
    name: &'static str,
    found: anyhow::Result<Verdict>,
    seconds: f64,
}

impl Row {
    fn told(&self) -> (&'static str, String) {
        match &self.found {
            Ok(Verdict::Pass(why)) => ("pass", why.clone()),
            Ok(Verdict::NotOffered(why)) => ("not offered", why.clone()),
            Err(error) => ("FAIL", format!("{error:#}")),
        }
    }
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let line = |row: &Row| {
        let (result, why) = row.told();
        // What a server says is shown as text, whatever is in it.
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{:width$}  {result:11}  {:6.2} s  {why}", row.name, row.seconds)
            .trim_end()
            .to_owned()
            + "\n"
    };
    rows.iter().map(line).collect()
}

fn told(rows: &[Row]) -> String {
    let one = |row: &Row| {
        let (result, why) = row.told();
        let result = result.to_lowercase();
        json!({"check": row.name, "result": result, "reason": why, "seconds": row.seconds})
    };
    format!("{:#}\n", rows.iter().map(one).collect::<Value>())
}

/// The model to ask, and how many there are.
fn models(host: &Host, wanted: Option<&str>) -> anyhow::Result<(String, usize)> {
    let list = expect(host.get("/v1/models")?, 200)?;
    let data = list["data"].as_array().context("the list has no 'data'")?;
    let names = data.iter().map(|card| card["id"].as_str().map(str::to_owned));
    let names: Vec<String> =
        names.collect::<Option<_>>().context("a model of the list has no 'id'")?;
    match wanted {
        Some(wanted) if !names.iter().any(|name| name == wanted) => {
            bail!("'{wanted}' is not listed; listed are {}", names.join(", "))
        }
        Some(wanted) => Ok((wanted.to_owned(), names.len())),
        None => Ok((names.first().context("no model is listed")?.clone(), names.len())),
    }
}

/// The object of a response that must have this status.
pub fn expect(response: Response, status: u16) -> anyhow::Result<Value> {
    if response.status == status {
        return response.json();
    }
    let found = response.status;
    bail!("the status is {found}, not {status}: {}", short(&response.text()?))
}

/// The response, or that the server has no such route or does not do what is asked.
pub fn offered(response: Response) -> anyhow::Result<Result<Response, Verdict>> {
    match response.status {
        200 => Ok(Ok(response)),
        404 | 405 | 501 => Ok(Err(Verdict::NotOffered(format!("status {}", response.status)))),
        400 | 422 => {
            let text = response.text()?;
            let error: Value = serde_json::from_str(&text).unwrap_or_default();
            let why = error["error"]["message"].as_str().unwrap_or(&text);
            Ok(Err(Verdict::NotOffered(format!("refused: {}", short(why)))))
        }
        status => bail!("the status is {status}: {}", short(&response.text()?)),
    }
}

/// A text of an answer.
pub fn text<'a>(value: &'a Value, at: &str) -> anyhow::Result<&'a str> {
    let found = value.pointer(at).and_then(Value::as_str);
    found.with_context(|| format!("there is no text at {at}: {}", short(&value.to_string())))
}

/// A count of an answer.
pub fn count(value: &Value, at: &str) -> anyhow::Result<u64> {
    let found = value.pointer(at).and_then(Value::as_u64);
    found.with_context(|| format!("there is no count at {at}: {}", short(&value.to_string())))
}

/// Fails if two things that should be the same are not.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, a: &T, b: &T) -> anyhow::Result<()> {
    if a == b {
        return Ok(());
    }
    bail!("{what}: {} is not {}", short(&format!("{a:?}")), short(&format!("{b:?}")))
}
