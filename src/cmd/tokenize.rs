//! `rinfer tokenize`: text to token ids.
use super::{Environment, Usage, piped, put};
use rinfer_text::tokenizer::Special;
use serde_json::json;

/// Show a text's tokens: rinfer tokenize model.gguf "Hello world"
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A bundle, a GGUF file or a Hugging Face folder
    model: Option<String>,
    /// The text [default: stdin, as it is]
    text: Option<String>,
    /// Add no begin or end token
    #[arg(long)]
    no_add_special: bool,
    /// Read control tokens in the text as plain text
    #[arg(long)]
    no_parse_special: bool,
    /// Both of these
    #[arg(long)]
    no_special: bool,
    /// Print JSON: {"ids": [...]}
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, env: &Environment) -> anyhow::Result<()> {
    let (model, text) = env.shift(&args.model, &args.text);
    let text = match text {
        Some(text) => text.to_owned(),
        None => piped()?.ok_or_else(|| Usage("no text: give one, or pipe it in".into()))?,
    };
    let tokenizer = env.open(model)?.language()?.tokenizer;
    let plain = args.no_parse_special || args.no_special;
    let ids = tokenizer.encode(&text, if plain { Special::Plain } else { Special::Parse });
    let bare = args.no_add_special || args.no_special;
    let ids = if bare { ids } else { tokenizer.wrap(&ids) };
    if args.json {
        return put(&format!("{}\n", json!({"ids": ids})));
    }
    let line = |id: &u32| format!("{id:>7}  {}\n", tokenizer.token(*id).unwrap_or_default());
    put(&ids.iter().map(line).collect::<String>())
}
