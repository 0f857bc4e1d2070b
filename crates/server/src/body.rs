//! A request's body: an object of JSON, of bounded size, in bounded time.
use crate::config::Config;
use crate::fields::expected;
use crate::refusal::{Kind, Refusal};
use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};

/// Reads it.
pub async fn object(
    config: &Config,
    headers: &HeaderMap,
    body: Body,
) -> Result<Map<String, Value>, Refusal> {
    let text = |name| {
        headers.get(name).map(|v: &header::HeaderValue| String::from_utf8_lossy(v.as_bytes()))
    };
    // A page of another site may send other types without asking the server first.
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let text = format!("the content type is '{kind}': send application/json");
        return Err(Refusal::new(Kind::MediaType, text));
    }
    if let Some(coding) =
        text(header::CONTENT_ENCODING).filter(|c| !c.eq_ignore_ascii_case("identity"))
    {
        let text = format!("the content encoding is '{coding}': send the body as it is");
        return Err(Refusal::new(Kind::MediaType, text));
    }
    let too_large = || {
        let text = format!(
            "the body has more than {} bytes, which is the limit (--max-body)",
            config.max_body
        );
        Refusal::new(Kind::TooLarge, text)
    };
    if body.size_hint().lower() > config.max_body as u64 {
        return Err(too_large());
    }
    let whole =
        tokio::time::timeout(config.body_timeout, Limited::new(body, config.max_body).collect());
    let bytes = match whole.await {
        Ok(Ok(bytes)) => bytes.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok(Err(error)) => {
            return Err(Refusal::new(Kind::Invalid, format!("the body can't be read: {error}")));
        }
        Err(_) => {
            let text = format!("the body did not come within {} s", config.body_timeout.as_secs());
            return Err(Refusal::new(Kind::TimedOut, text));
        }
    };
    // Nesting is bounded by the parser, in all fields alike.
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(expected("body", "an object", &other)),
        Err(error) => Err(Refusal::new(Kind::Invalid, format!("the body is not JSON: {error}"))),
    }
}
