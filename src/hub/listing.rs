//! What a repository has at one commit: names, sizes and digests, as the hub's API lists them.
use super::Error;
use super::digest::Digest;
use super::reference::{self, Repo};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The longest answer that is read: of about a hundred thousand files.
pub const MOST_BYTES: u64 = 16 << 20;

/// A repository at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// What it is called now.
    pub repo: Repo,
    /// 40 hexadecimal digits.
    pub commit: String,
    /// As its card states it.
    pub licence: Option<String>,
    /// Sorted by path.
    pub files: Vec<Entry>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative, with `/`.
    pub path: String,
    /// In bytes, where the hub says it.
    pub size: Option<u64>,
    /// What its content is held against.
    pub digest: Option<Digest>,
}

/// The API's answer, and the form in which a listing is kept.
#[derive(Deserialize, Serialize)]
struct Answer {
    id: String,
    sha: String,
    #[serde(rename = "cardData", default)]
    card: Option<Card>,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize, Serialize)]
struct Card {
    // A card is the author's: a licence may be a list there.
    #[serde(default)]
    license: serde_json::Value,
}

#[derive(Deserialize, Serialize)]
struct Sibling {
    rfilename: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(rename = "blobId", default)]
    blob: Option<String>,
    #[serde(default)]
    lfs: Option<Lfs>,
}

#[derive(Deserialize, Serialize)]
struct Lfs {
    sha256: String,
    #[serde(default)]
    size: Option<u64>,
}

impl Listing {
    /// Reads what the API answers, trusting nothing of it.
    ///
    /// # Errors
    /// [`Error::Listing`], naming the first entry that is not one.
    pub fn read(json: &[u8], url: &str) -> Result<Listing, Error> {
        Listing::parse(json).map_err(|problem| Error::Listing { url: url.to_owned(), problem })
    }
    fn parse(json: &[u8]) -> Result<Listing, String> {
        let answer: Answer = serde_json::from_slice(json)
            .map_err(|e| format!("what it answers is no listing of a model's files ({e})"))?;
        let shown =
            |text: &str| text.chars().take(120).collect::<String>().escape_debug().to_string();
        let repo = Repo::new(&answer.id).map_err(|problem| {
            format!("it says the repository is '{}', which {problem}", shown(&answer.id))
        })?;
        let hex = answer.sha.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if answer.sha.len() != 40 || !hex {
            return Err(format!(
                "it says the commit is '{}', not 40 hexadecimal digits",
                shown(&answer.sha)
            ));
        }
        let mut seen = HashSet::new();
        for file in &answer.siblings {
            let name = &file.rfilename;
            reference::path(name).map_err(|problem| {
                format!(
                    "it lists '{}', a path that {problem}; nothing of it is fetched",
                    shown(name)
                )
            })?;
            if !seen.insert(name.as_str()) {
                return Err(format!("it lists '{}' twice", shown(name)));
            }
        }
        let mut files = answer.siblings.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let licence = answer.card.and_then(|card| card.license.as_str().map(str::to_owned));
        let licence =
            licence.filter(|text| text.len() < 100 && !text.chars().any(char::is_control));
        Ok(Listing { repo, commit: answer.sha, licence, files })
    }
    /// The form that [`Listing::read`] reads.
    pub fn write(&self) -> String {
        let sibling = |entry: &Entry| {
            let lfs = |sha256| Lfs { sha256, size: None };
            let (blob, lfs) = match entry.digest {
                Some(digest @ Digest::Sha256(_)) => (None, Some(lfs(digest.to_string()))),
                digest => (digest.map(|d| d.to_string()), None),
            };
            Sibling { rfilename: entry.path.clone(), size: entry.size, blob, lfs }
        };
        let license = self.licence.clone().map_or(serde_json::Value::Null, Into::into);
        let answer = Answer {
            id: self.repo.to_string(),
            sha: self.commit.clone(),
            card: Some(Card { license }),
            siblings: self.files.iter().map(sibling).collect(),
        };
        serde_json::to_string(&answer).unwrap_or_default()
    }
    /// The file of a path.
    pub fn file(&self, path: &str) -> Option<&Entry> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(&self.files[at])
    }
}

fn entry(file: &Sibling) -> Result<Entry, String> {
    let wrong = |what: &str| {
        format!("the digest that it lists of '{}' is no {what}", file.rfilename.escape_debug())
    };
    let digest = match (&file.lfs, &file.blob) {
        (Some(lfs), _) => Some(Digest::sha256(&lfs.sha256).ok_or_else(|| wrong("sha256"))?),
        (None, Some(blob)) => Some(Digest::git(blob).ok_or_else(|| wrong("git object's"))?),
        (None, None) => None,
    };
    let size = file.lfs.as_ref().and_then(|lfs| lfs.size).or(file.size);
    // A size that no file can have would only overflow what is computed of it.
    if size.is_some_and(|size| size > 1 << 50) {
        return Err(format!(
            "it says that '{}' has {} bytes",
            file.rfilename.escape_debug(),
            size.unwrap_or(0)
        ));
    }
    Ok(Entry { path: file.rfilename.clone(), size, digest })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn answer(files: &str) -> String {
        format!(
            r#"{{"id":"a/b","sha":"{COMMIT}","private":false,"cardData":{{"license":"mit"}},"siblings":[{files}]}}"#
        )
    }

    #[test]
    fn what_the_api_answers() {
        let (sha256, git) = ("ab".repeat(32), "cd".repeat(20));
        let files = format!(
            r#"{{"rfilename":"z.gguf","size":7,"blobId":"{git}","lfs":{{"sha256":"{sha256}","size":9,"pointerSize":1}}}},
            {{"rfilename":"config.json","size":3,"blobId":"{git}"}}, {{"rfilename":"sub/ü (1).txt"}}"#
        );
        let listing = Listing::read(answer(&files).as_bytes(), "url").unwrap();
        let entry = |path: &str, size, digest| Entry { path: path.into(), size, digest };
        assert_eq!(
            listing.files,
            [
                entry("config.json", Some(3), Digest::git(&git)),
                entry("sub/ü (1).txt", None, None),
                entry("z.gguf", Some(9), Digest::sha256(&sha256)),
            ]
        );
        assert_eq!((listing.commit.as_str(), listing.licence.as_deref()), (COMMIT, Some("mit")));
        assert_eq!(Listing::read(listing.write().as_bytes(), "").unwrap(), listing);
        assert!(listing.file("z.gguf").is_some() && listing.file("y").is_none());
    }

    #[test]
    fn hostile_answers() {
        let check = |json: &str, says: &str| {
            let error = Listing::read(json.as_bytes(), "url").unwrap_err().to_string();
            assert!(error.contains(says) && error.len() < 500, "{error}");
            assert!(!error.chars().any(char::is_control), "{error}");
        };
        for name in [
            "../x",
            "/etc/passwd",
            "a/../b",
            "a//b",
            "..\\\\x",
            "\\u0000",
            "a\\u001b[31m",
            "",
            "C:x",
            ".",
        ] {
            check(&answer(&format!(r#"{{"rfilename":"{name}"}}"#)), "a path that");
        }
        check(&answer(r#"{"rfilename":"a"},{"rfilename":"a"}"#), "twice");
        check(&answer(r#"{"rfilename":"a","lfs":{"sha256":"../../x"}}"#), "no sha256");
        check(&answer(r#"{"rfilename":"a","blobId":"x"}"#), "git object");
        check(
            &answer(r#"{"rfilename":"a","size":18446744073709551615}"#),
            "18446744073709551615 bytes",
        );
        check(&answer(r#"{"rfilename":"a","size":-1}"#), "no listing");
        check(&answer("").replace(COMMIT, "../../x"), "commit");
        check(&answer("").replace("a/b", "../b"), "repository");
        check("<html>", "no listing");
        check(&"[".repeat(100_000), "no listing");
    }
}
