//! `POST /v1/messages/count_tokens`.
use super::{messages, read};
use crate::app::App;
use crate::fields::{Fields, Spec};
use crate::models::Served;
use crate::refusal::Refusal;
use crate::request::{EVERY, Wanted};
use serde_json::json;
use std::sync::Arc;

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "How many tokens a conversation has",
    known: &[EVERY, messages::ASKED],
    fates: messages::FATES,
    answer: "Count",
    streams: None,
};

/// Reads a request, and answers it.
pub fn read(
    _: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let ask = read::read(&mut fields, ignored)?;
    let sampling = messages::only_thinking(&mut fields, &served.sampling, ignored)?;
    fields.close(&SPEC, ignored)?;
    let (prompt, _) = served.model.prompt(&ask, sampling.think)?;
    Ok(Wanted::Value(json!({"input_tokens": prompt.len()})))
}
