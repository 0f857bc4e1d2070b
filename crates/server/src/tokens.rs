//! `POST /tokenize`, `/detokenize` and `/apply-template`, as llama-server has them.
use crate::app::App;
use crate::fields::{FLAG, Fields, LIST, OBJECT, Spec, TEXT, expected, field, needed};
use crate::models::Served;
use crate::openai;
use crate::refusal::Refusal;
use crate::request::{EVERY, Wanted};
use rinfer_engine::batch::TokenId;
use rinfer_engine::turn::Ask;
use rinfer_text::tokenizer::Special;
use serde_json::{Value, json};
use std::sync::Arc;

/// What [`tokenize`] takes and gives.
pub const TOKENIZE: Spec = Spec {
    about: "Text to tokens",
    known: &[
        EVERY,
        &[
            needed("content", TEXT, "The text"),
            field(
                "add_special",
                FLAG,
                "Adds the tokens that a text of the model begins and ends with",
            ),
            field("parse_special", FLAG, "false: names of control tokens are text"),
            field("with_pieces", FLAG, "Tells each token's text"),
        ],
    ],
    fates: &[],
    answer: "Tokens",
    streams: None,
};

/// What [`detokenize`] takes and gives.
pub const DETOKENIZE: Spec = Spec {
    about: "Tokens to text",
    known: &[EVERY, &[needed("tokens", LIST, "Token ids")]],
    fates: &[],
    answer: "Text",
    streams: None,
};

/// What [`apply_template`] takes and gives.
pub const APPLY_TEMPLATE: Spec = Spec {
    about: "A conversation to the prompt that the model is given",
    known: &[
        EVERY,
        &[
            needed("messages", LIST, "The conversation, oldest first"),
            field("tools", LIST, "Functions that the model may call"),
            field("chat_template_kwargs", OBJECT, "Variables for the chat template"),
        ],
    ],
    fates: &[],
    answer: "Prompt",
    streams: None,
};

/// Text to tokens.
pub fn tokenize(
    _: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let content = fields.text("content")?;
    let content = fields.needed("content", content)?;
    let add = fields.flag("add_special")?.unwrap_or(false);
    let special = match fields.flag("parse_special")?.unwrap_or(true) {
        true => Special::Parse,
        false => Special::Plain,
    };
    let pieces = fields.flag("with_pieces")?.unwrap_or(false);
    fields.close(&TOKENIZE, ignored)?;
    let tokenizer = &served.model.language().tokenizer;
    let mut ids = tokenizer.encode(&content, special);
    if add {
        ids = tokenizer.wrap(&ids);
    }
    let piece = |id: &u32| {
        let bytes = tokenizer.piece(*id, false);
        match std::str::from_utf8(&bytes) {
            Ok(text) => json!({"id": id, "piece": text}),
            Err(_) => json!({"id": id, "piece": bytes.to_vec()}),
        }
    };
    let tokens: Value = if pieces { ids.iter().map(piece).collect() } else { json!(ids) };
    Ok(Wanted::Value(json!({"tokens": tokens})))
}

/// Tokens to text.
pub fn detokenize(
    _: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let list = fields.list("tokens")?;
    let list = fields.needed("tokens", list)?;
    fields.close(&DETOKENIZE, ignored)?;
    let tokenizer = &served.model.language().tokenizer;
    let most = tokenizer.vocab_size() as u64;
    let what = format!("token ids below {most}");
    let id = |v: &Value| {
        let id = v.as_u64().filter(|id| *id < most).map(|id| TokenId(id as u32).0);
        id.ok_or_else(|| expected("tokens", &what, v))
    };
    let ids: Vec<u32> = list.iter().map(id).collect::<Result<_, _>>()?;
    Ok(Wanted::Value(json!({"content": tokenizer.decode(&ids, false)})))
}

/// A conversation to the prompt that the model is given.
pub fn apply_template(
    _: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let list = fields.list("messages")?;
    let messages = openai::messages::read(fields.needed("messages", list)?, ignored)?;
    let tools = openai::tools::read(&mut fields, ignored)?;
    let vars = fields.map("chat_template_kwargs")?.unwrap_or_default();
    fields.close(&APPLY_TEMPLATE, ignored)?;
    let ask = Ask { messages, tools, vars, ..Ask::default() };
    let (_, prompt) = served.model.prompt(&ask, served.sampling.think)?;
    Ok(Wanted::Value(json!({"prompt": prompt})))
}
