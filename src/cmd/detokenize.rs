//! `rinfer detokenize`: token ids to text.
use super::{Environment, Usage, piped, put};
use serde_json::{Value, json};
use std::io::IsTerminal;

/// Show what tokens say: rinfer detokenize model.gguf 504 3575 282
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// Token ids [default: stdin, as numbers or as the JSON that tokenize prints]
    ids: Vec<u32>,
    /// Leave control tokens out
    #[arg(long)]
    skip_special: bool,
    /// Print JSON: {"text": "..."}
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    // A program with a model of its own takes a number for an id.
    let id = args.model.as_ref().filter(|_| env.own.is_some()).and_then(|word| word.parse().ok());
    let model = args.model.as_deref().filter(|_| id.is_none());
    let given: Vec<u32> = id.into_iter().chain(args.ids.iter().copied()).collect();
    let ids = if given.is_empty() {
        let text = piped()?.ok_or_else(|| Usage("no ids: give them, or pipe them in".into()))?;
        parse_ids(&text).map_err(Usage)?
    } else {
        given
    };
    let tokenizer = env.open(model)?.language()?.tokenizer;
    if let Some(id) = ids.iter().find(|id| tokenizer.token(**id).is_none()) {
        anyhow::bail!("there is no token {id}: ids are below {}", tokenizer.vocab_size());
    }
    let text = tokenizer.decode(&ids, args.skip_special);
    if args.json {
        return put(&format!("{}\n", json!({"text": text})));
    }
    put(&text)?;
    if std::io::stdout().is_terminal() { put("\n") } else { Ok(()) }
}

/// Numbers with spaces or commas between them, a JSON list, or an object with a list `ids`.
pub fn parse_ids(text: &str) -> Result<Vec<u32>, String> {
    let no_id = |what: &dyn std::fmt::Display| format!("'{what}' is no token id");
    let one = |v: &Value| v.as_u64().and_then(|n| n.try_into().ok()).ok_or_else(|| no_id(v));
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(all)) => all.iter().map(one).collect(),
        Ok(Value::Object(object)) => match object.get("ids") {
            Some(Value::Array(all)) => all.iter().map(one).collect(),
            _ => Err("the JSON object has no list 'ids'".into()),
        },
        _ => text
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().map_err(|_| no_id(&word)))
            .collect(),
    }
}
