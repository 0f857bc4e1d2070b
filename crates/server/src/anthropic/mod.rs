//! Anthropic's API.
pub mod count;
mod edits;
pub mod messages;
mod read;
mod voice;

use rinfer_text::template::DateTime;

/// A time, as RFC 3339 writes it, of seconds since 1970.
pub fn date(seconds: u64) -> String {
    DateTime::from_unix(seconds as i64).strftime("%Y-%m-%dT%H:%M:%SZ")
}
