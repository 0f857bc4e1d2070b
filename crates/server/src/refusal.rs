//! Why a request is refused or fails, in the shape of the API that it was made to.
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use rinfer_engine::error::Error;
use rinfer_engine::request::RequestError;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Bytes of a message: whoever sends a long text need not be sent it back.
const MOST: usize = 2000;

/// Whose shapes a route speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    OpenAi,
    Anthropic,
}

impl Dialect {
    /// That of a path.
    pub fn of(path: &str) -> Dialect {
        if path.starts_with("/v1/messages") { Dialect::Anthropic } else { Dialect::OpenAi }
    }
}

/// Whose fault it is, and what can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request can't be answered as it is.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// The route knows other methods.
    Method,
    /// No key, or a wrong one.
    Key,
    /// Not from there.
    Forbidden,
    /// The body is too large.
    TooLarge,
    /// The body is no JSON by its content type.
    MediaType,
    /// The body did not come in time.
    TimedOut,
    /// All slots are taken and the queue is full.
    Busy,
    /// The server is about to end.
    Stopping,
    /// Somebody ended the answer.
    Cancelled,
    /// Whoever the page had asked does not give it.
    Upstream,
    /// It is the server's own fault.
    Failed,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: Kind,
    /// What was found, what was expected, and what to do.
    pub message: String,
    /// The field, by its path in the request.
    pub param: Option<String>,
    /// What programs tell it by.
    pub code: Option<&'static str>,
}

impl Refusal {
    pub fn new(kind: Kind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), param: None, code: None }
    }
    /// A fault of the server's own, which was reported where it happened.
    pub fn panicked(what: &str) -> Refusal {
        Refusal::new(Kind::Failed, format!("the {what} failed: see the server's log"))
    }
    /// A field that can't be.
    pub fn field(param: impl Into<String>, problem: impl std::fmt::Display) -> Refusal {
        let param = param.into();
        let message = format!("{param}: {problem}");
        Refusal { param: Some(param), ..Refusal::new(Kind::Invalid, message) }
    }
    pub fn code(self, code: &'static str) -> Refusal {
        Refusal { code: Some(code), ..self }
    }
    /// As an HTTP status.
    pub fn status(&self, dialect: Dialect) -> StatusCode {
        match self.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::Key => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::TimedOut => StatusCode::REQUEST_TIMEOUT,
            Kind::Busy if dialect == Dialect::Anthropic => overloaded(),
            Kind::Busy => StatusCode::TOO_MANY_REQUESTS,
            Kind::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Cancelled => cancelled(),
            Kind::Upstream => StatusCode::BAD_GATEWAY,
            Kind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    /// The body that tells it.
    pub fn body(&self, dialect: Dialect) -> Value {
        let (message, param) = (shortened(&self.message), self.param.as_deref().map(shortened));
        match dialect {
            Dialect::OpenAi => json!({"error": {
                "message": message, "type": self.openai(), "param": param, "code": self.code,
            }}),
            Dialect::Anthropic => json!({"type": "error", "error": {
                "type": self.anthropic(), "message": message,
            }}),
        }
    }
    /// As a whole response.
    pub fn response(&self, dialect: Dialect) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body(dialect).to_string()));
        *response.status_mut() = self.status(dialect);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.kind == Kind::Busy {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.kind == Kind::Key {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
    fn openai(&self) -> &'static str {
        match self.kind {
            Kind::Busy => "rate_limit_error",
            Kind::Stopping | Kind::Upstream | Kind::Failed => "server_error",
            Kind::Key => "authentication_error",
            Kind::Forbidden => "permission_error",
            _ => "invalid_request_error",
        }
    }
    fn anthropic(&self) -> &'static str {
        match self.kind {
            Kind::NotFound => "not_found_error",
            Kind::Key => "authentication_error",
            Kind::Forbidden => "permission_error",
            Kind::TooLarge => "request_too_large",
            Kind::Busy => "overloaded_error",
            Kind::Stopping | Kind::Upstream | Kind::Failed => "api_error",
            _ => "invalid_request_error",
        }
    }
}

/// Without the middle, if it is long: that is what was sent. The beginning says where, the end what to do.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= MOST {
        return text.into();
    }
    let (head, tail) =
        (text.floor_char_boundary(MOST / 2), text.ceil_char_boundary(text.len() - MOST / 2));
    format!("{} … {}", &text[..head], &text[tail..]).into()
}

/// What nobody tries again: the status that proxies note of requests whose answers are not wanted any more.
fn cancelled() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
}

/// Anthropic's own status for a server that is asked too much.
fn overloaded() -> StatusCode {
    StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let message = error.to_string();
        match error {
            Error::Request(
                RequestError::PromptTooLong { .. } | RequestError::InputTooLong { .. },
            ) => Refusal::new(Kind::Invalid, message).code("context_length_exceeded"),
            Error::Request(RequestError::Sampling(e)) => {
                Refusal::field(e.field, format_args!("is {}: allowed is {}", e.found, e.allowed))
            }
            Error::Request(RequestError::Cancelled) => Refusal::new(Kind::Cancelled, message),
            Error::Request(
                RequestError::Device(_)
                | RequestError::Panicked(_)
                | RequestError::Stopped
                | RequestError::NoToken,
            ) => Refusal::new(Kind::Failed, message),
            Error::Option { option, found, problem } => {
                Refusal::field(option, format_args!("{found}: {problem}"))
            }
            Error::Request(_) | Error::Template(_) | Error::Tools(_) | Error::NoTemplate(_) => {
                Refusal::new(Kind::Invalid, message)
            }
            _ => Refusal::new(Kind::Failed, message),
        }
    }
}
