//! `POST /v1/messages/count_tokens`.
use super::{messages, read};
use crate::app::App;
use crate::fields::Fields;
use crate::models::Served;
use crate::refusal::Refusal;
use crate::request::Wanted;
use serde_json::json;
use std::sync::Arc;

/// Reads a request, and answers it.
pub fn read(
    _: &App,
    served: &Arc<Served>,
    mut fields: Fields,
    ignored: &mut Vec<String>,
) -> Result<Wanted, Refusal> {
    let ask = read::read(&mut fields, ignored)?;
    let sampling = messages::only_thinking(&mut fields, &served.sampling, ignored)?;
    fields.finish(messages::FATES, ignored)?;
    let (prompt, _) = served.model.prompt(&ask, sampling.think)?;
    Ok(Wanted::Value(json!({"input_tokens": prompt.len()})))
}
