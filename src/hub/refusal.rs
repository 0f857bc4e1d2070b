//! What the hub means by a status: missing, private, gated, forbidden, limited or broken.
use super::Error;
use super::client::{Answer, Client, header, plain};
use std::io::Read;
use std::time::Duration;
use ureq::Body;
use ureq::http::Response;

/// What was asked for.
pub struct Asked<'a> {
    /// `owner/repo`.
    pub repo: &'a str,
    /// A branch, tag or commit.
    pub revision: &'a str,
    /// Whether a file was asked for, rather than the listing.
    pub file: bool,
}

/// How long the hub says to wait.
pub fn wait(response: &Response<Body>) -> Option<Duration> {
    let seconds = header(response.headers(), "retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The error of an answer that has no content.
pub fn of(client: &Client, url: &str, mut answer: Answer, asked: &Asked) -> Error {
    let status = answer.response.status().as_u16();
    let code = header(answer.response.headers(), "x-error-code").unwrap_or_default();
    let wait = wait(&answer.response);
    let host = client.endpoint().to_owned();
    let page = format!("{host}/{}", asked.repo);
    let repo = asked.repo.to_owned();
    match (status, code.as_str()) {
        (401 | 403, "GatedRepo") => {
            let next = if client.has_token() {
                "wait until access is granted: HF_TOKEN's user has none yet"
            } else {
                "set HF_TOKEN to a token of theirs"
            };
            Error::Gated { repo, page, next }
        }
        (401, _) if client.has_token() && code != "RepoNotFound" => {
            Error::Token { what: repo, host }
        }
        (404, "RevisionNotFound") => {
            Error::Revision { repo, revision: asked.revision.to_owned(), host }
        }
        (404, "EntryNotFound") => Error::Gone { url: plain(url) },
        (404, code) if asked.file && code != "RepoNotFound" => Error::Gone { url: plain(url) },
        (401 | 404, _) => Error::Missing { what: repo, host },
        (403, _) => Error::Forbidden { url: plain(url), host, page },
        (429, _) => {
            let wait = match wait {
                Some(wait) => format!("{} s", wait.as_secs()),
                None => "a while".to_owned(),
            };
            let hint = if client.has_token() {
                "what was fetched is kept"
            } else {
                "with HF_TOKEN set the limit is higher"
            };
            Error::Limited { host, wait, hint }
        }
        _ => Error::Status { url: plain(url), status, reason: reason(&mut answer) },
    }
}

/// What a server says of itself, if that is a short line.
fn reason(answer: &mut Answer) -> String {
    let message = header(answer.response.headers(), "x-error-message");
    let text = message.unwrap_or_else(|| {
        let mut bytes = Vec::new();
        let read = answer.response.body_mut().as_reader().take(300).read_to_end(&mut bytes);
        if read.is_ok() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() }
    });
    let line = text.trim().lines().next().unwrap_or_default();
    let line: String = line.chars().take(200).collect();
    if line.is_empty() || line.starts_with(['<', '{']) {
        return String::new();
    }
    format!(" ({})", line.escape_debug())
}
