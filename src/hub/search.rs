//! Repositories by words: what the hub's API finds, of those with GGUF files, the most fetched first.
use super::Hub;
use super::client::plain;
use super::error::Error;
use super::pull::segment;
use super::reference::Repo;
use super::refusal::Asked;
use serde::Deserialize;

/// The longest answer that is read.
const MOST_BYTES: u64 = 1 << 20;
/// Repositories of an answer.
const MOST: usize = 30;

/// A repository that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub repo: Repo,
    /// How often it was fetched lately, where the hub says it.
    pub downloads: Option<u64>,
    /// Whether its licence has to be accepted first.
    pub gated: bool,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    #[serde(default)]
    downloads: Option<u64>,
    // Not gated is `false`, gated `"auto"` or `"manual"`.
    #[serde(default)]
    gated: serde_json::Value,
}

impl Hub {
    /// Repositories that have GGUF files, by words of their names, the most fetched first. Those whose names can't be
    /// a repository's are left out.
    ///
    /// # Errors
    /// Why they can't be had.
    pub fn search(&self, words: &str) -> Result<Vec<Found>, Error> {
        if self.config.offline {
            return Err(self.offline(words));
        }
        let client = self.client()?;
        let url = format!(
            "{}/api/models?search={}&filter=gguf&sort=downloads&direction=-1&limit={MOST}&expand%5B%5D=downloads&\
             expand%5B%5D=gated",
            client.endpoint(),
            segment(words)
        );
        let asked = Asked { repo: "models", revision: "main", file: false };
        let json = client.text(&url, MOST_BYTES, &asked)?;
        read(&json).map_err(|problem| Error::Listing { url: plain(&url), problem })
    }
}

fn read(json: &[u8]) -> Result<Vec<Found>, String> {
    let answers: Vec<Answer> = serde_json::from_slice(json)
        .map_err(|e| format!("what it answers is no list of repositories ({e})"))?;
    let found = |answer: Answer| {
        let gated =
            !matches!(answer.gated, serde_json::Value::Null | serde_json::Value::Bool(false));
        Some(Found { repo: Repo::new(&answer.id).ok()?, downloads: answer.downloads, gated })
    };
    Ok(answers.into_iter().filter_map(found).take(MOST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_answers() {
        let json = br#"[
            {"id": "a/b-GGUF", "downloads": 7, "gated": "auto", "tags": []}, {"id": "a/c", "gated": false}, {"id": "d/e"},
            {"id": "<img src=x>/x"}, {"id": "../x"}, {"id": "no-owner"}
        ]"#;
        let found = |repo, downloads, gated| {
            let repo = Repo::new(repo).unwrap();
            Found { repo, downloads, gated }
        };
        let expected = [
            found("a/b-GGUF", Some(7), true),
            found("a/c", None, false),
            found("d/e", None, false),
        ];
        assert_eq!(read(json).unwrap(), expected);
        for json in ["<html>", "{}", r#"[{"name": "x"}]"#, r#"[{"id": "a/b", "downloads": -1}]"#] {
            assert!(read(json.as_bytes()).unwrap_err().contains("no list"), "{json}");
        }
    }
}
