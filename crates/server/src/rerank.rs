//! `POST /v1/rerank`: documents by how well they answer a query, as Jina's, Cohere's and llama-server's API
//! have it.
use crate::fields::Fate::Inert;
use crate::fields::{FLAG, Fates, Fields, LIST, Spec, TEXT, expected, field, needed};
use crate::models::{Brought, Held};
use crate::openai::embeddings::decimal;
use crate::refusal::Refusal;
use crate::request::{EVERY, Wanted};
use rinfer_engine::request::Cancel;
use serde_json::{Value, json};

/// What is documented and not read.
pub const FATES: Fates = &[("user", Inert("nobody is watched"))];

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "Documents by how well they answer a query",
    known: &[
        EVERY,
        &[
            needed("query", TEXT, "What is asked"),
            needed("documents", LIST, "Texts, or objects with a text"),
            field("top_n", r#"{"type": "integer", "minimum": 1}"#, "How many are told"),
            field("return_documents", FLAG, "Tells their texts"),
            field("truncate", FLAG, "A text that is too long is cut, and how much is told"),
        ],
    ],
    fates: FATES,
    answer: "Ranks",
    streams: None,
};

/// Reads a request, and answers it.
pub fn read(
    held: &Held,
    mut fields: Fields,
    ignored: &mut Vec<String>,
    cancel: &Cancel,
) -> Result<Wanted, Refusal> {
    let Brought::Reranker(reranker) = &held.model else {
        return Err(held.model.unfit(&held.name));
    };
    let query = fields.text("query")?;
    let query = fields.needed("query", query)?;
    let documents = fields.list("documents")?;
    let documents = fields.needed("documents", documents)?;
    let documents = documents.iter().enumerate().map(|(i, document)| text(i, document));
    let documents: Vec<&str> = documents.collect::<Result<_, _>>()?;
    let top = match fields.count("top_n")? {
        Some(0) => return Err(Refusal::field("top_n", "is 0: ask for 1 or more")),
        asked => asked.unwrap_or(documents.len()),
    };
    let told = fields.flag("return_documents")?.unwrap_or(false);
    let truncate = fields.flag("truncate")?.unwrap_or(false);
    fields.close(&SPEC, ignored)?;
    let _pass = held.gate.enter(1)?;
    let all = reranker.rank_until(&query, &documents, truncate, cancel)?;
    let tokens: usize = all.iter().map(|ranked| ranked.tokens).sum();
    let result = all.iter().take(top).map(|ranked| {
        let mut result = json!({"index": ranked.index, "relevance_score": decimal(ranked.score)});
        if told {
            result["document"] = json!({"text": documents[ranked.index]});
        }
        if truncate {
            result["truncated_tokens"] = ranked.cut.into();
        }
        result
    });
    let results: Vec<Value> = result.collect();
    Ok(Wanted::Value(json!({
        "object": "list", "model": held.name, "results": results,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}

/// A document: a text, or an object with one.
fn text(i: usize, document: &Value) -> Result<&str, Refusal> {
    let text = document.as_str().or_else(|| document.get("text")?.as_str());
    let what = "a string, or an object with a string 'text'";
    text.ok_or_else(|| expected(&format!("documents[{i}]"), what, document))
}
