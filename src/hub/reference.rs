//! `hf:owner/repo:pick@revision`, read strictly: what it names becomes parts of paths and URLs.
use super::Error;
use std::fmt;

/// A model on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `owner/repo`.
    pub repo: Repo,
    /// Which of its models.
    pub pick: Pick,
    /// A branch, tag or commit; `main` if none is named.
    pub revision: String,
}

/// Which of a repository's models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The default rule decides.
    Default,
    /// By quant, such as `Q4_K_M`; case does not matter.
    Tag(String),
    /// By a file's path.
    File(String),
}

/// The name of a repository: `owner/repo`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repo(String);

impl Repo {
    /// # Errors
    /// What is wrong with the name.
    pub fn new(text: &str) -> Result<Repo, String> {
        let Some((owner, name)) = text.split_once('/') else {
            return Err("names no owner".into());
        };
        for part in [owner, name] {
            let plain = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
            let ends = part.starts_with(['.', '-']) || part.ends_with(['.', '-']);
            if part.is_empty()
                || part.len() > 96
                || !plain
                || ends
                || part.contains("..")
                || part.contains("--")
            {
                return Err("has an owner or name that no repository can have".into());
            }
        }
        Ok(Repo(text.to_owned()))
    }
    /// The folder that Hugging Face's caches keep it in.
    pub fn folder(&self) -> String {
        format!("models--{}", self.0.replace('/', "--"))
    }
    /// The repository that such a folder is of.
    pub fn of_folder(name: &str) -> Option<Repo> {
        Repo::new(&name.strip_prefix("models--")?.replacen("--", "/", 1)).ok()
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Reference {
    /// Reads a reference, `hf:` included.
    ///
    /// # Errors
    /// [`Error::Reference`].
    pub fn new(text: &str) -> Result<Reference, Error> {
        Reference::parse(text)
            .map_err(|problem| Error::Reference { reference: text.to_owned(), problem })
    }
    fn parse(text: &str) -> Result<Reference, String> {
        let rest = text.strip_prefix("hf:").ok_or("has no hf: before it")?;
        let (rest, revision) = rest.rsplit_once('@').unwrap_or((rest, "main"));
        self::revision(revision)?;
        let (repo, pick) = match rest.split_once(':') {
            None => (rest, Pick::Default),
            Some((repo, pick)) => (repo, self::pick(pick)?),
        };
        Ok(Reference { repo: Repo::new(repo)?, pick, revision: revision.to_owned() })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "hf:{}", self.repo)?;
        match &self.pick {
            Pick::Default => {}
            Pick::Tag(text) | Pick::File(text) => write!(f, ":{text}")?,
        }
        if self.revision == "main" { Ok(()) } else { write!(f, "@{}", self.revision) }
    }
}

fn pick(text: &str) -> Result<Pick, String> {
    let lower = text.to_ascii_lowercase();
    if text.contains('/') || lower.ends_with(".gguf") || lower.ends_with(".safetensors") {
        path(text).map_err(|problem| format!("names a file whose path {problem}"))?;
        portable(text).map_err(|problem| format!("names a file whose path {problem}"))?;
        return Ok(Pick::File(text.to_owned()));
    }
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if text.is_empty() || text.len() > 96 || !plain {
        return Err("has a quant that none can be".into());
    }
    Ok(Pick::Tag(text.to_owned()))
}

fn revision(text: &str) -> Result<(), String> {
    let plain = |part: &str| {
        let plain = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
        !part.is_empty() && plain && !part.starts_with('.') && !part.contains("..")
    };
    if text.len() > 200 || !text.split('/').all(plain) {
        return Err("has a revision that none can be".into());
    }
    Ok(())
}

/// Whether a path of a repository stays within its folder wherever it is written.
///
/// # Errors
/// Why it does not.
pub fn path(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > 1024 {
        return Err("is empty or longer than 1024 bytes");
    }
    if text.chars().any(char::is_control) {
        return Err("has control characters");
    }
    if text.contains(['\\', ':']) {
        return Err("has a backslash or a colon");
    }
    for part in text.split('/') {
        if part.is_empty() || part == "." || part == ".." || part.len() > 255 {
            return Err("has an empty, a relative or an overlong part");
        }
    }
    Ok(())
}

/// Whether every system can have a file of this path.
///
/// # Errors
/// Why one can't.
pub fn portable(text: &str) -> Result<(), &'static str> {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    for part in text.split('/') {
        let stem = part.split('.').next().unwrap_or_default().trim_end().to_lowercase();
        let port = |name: &str| {
            let digit = stem.strip_prefix(name).filter(|digit| digit.chars().count() == 1);
            digit.is_some_and(|digit| digit.contains(|c: char| c.is_numeric() && c != '0'))
        };
        if DEVICES.contains(&stem.as_str()) || port("com") || port("lpt") {
            return Err("is a device's name on Windows");
        }
        if part.ends_with(['.', ' ']) || part.contains(['<', '>', '"', '|', '?', '*']) {
            return Err("has a part that Windows can't have");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_references_mean() {
        let check = |text: &str, repo: &str, pick: Pick, revision: &str| {
            let expected = Reference { repo: Repo(repo.into()), pick, revision: revision.into() };
            assert_eq!(Reference::new(text).unwrap(), expected, "{text}");
            assert_eq!(Reference::new(&expected.to_string()).unwrap(), expected);
        };
        let tag = |text: &str| Pick::Tag(text.into());
        let file = |text: &str| Pick::File(text.into());
        check("hf:a/b", "a/b", Pick::Default, "main");
        check("hf:Qwen/Qwen2.5-0.5B_x:q4_k_m", "Qwen/Qwen2.5-0.5B_x", tag("q4_k_m"), "main");
        check("hf:a/b:UD-Q4_K_XL@v1.0", "a/b", tag("UD-Q4_K_XL"), "v1.0");
        check("hf:a/b@refs/pr/1", "a/b", Pick::Default, "refs/pr/1");
        check("hf:a/b:m.Q4_1.GGUF", "a/b", file("m.Q4_1.GGUF"), "main");
        check(
            "hf:a/b:Q8_0/m-00001-of-00002.gguf@abc",
            "a/b",
            file("Q8_0/m-00001-of-00002.gguf"),
            "abc",
        );
        check("hf:a/b:über (1).gguf", "a/b", file("über (1).gguf"), "main");
    }

    #[test]
    fn what_is_no_reference() {
        for text in [
            "hf:",
            "hf:a",
            "hf:/b",
            "hf:a/",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/..",
            "hf:.a/b",
            "hf:a/b.",
            "hf:a--b/c",
            "hf:a b/c",
            "hf:a/b%2e",
            "hf:a/b\0",
            "hf:a\\b/c",
            "hf:a/b:",
            "hf:a/b@",
            "hf:a/b:Q4 K",
            "hf:a/b:../x.gguf",
            "hf:a/b:x/../y.gguf",
            "hf:a/b:/x.gguf",
            "hf:a/b:x\\y.gguf",
            "hf:a/b:x//y.gguf",
            "hf:a/b:\u{1b}.gguf",
            "hf:a/b:CON.gguf",
            "hf:a/b:x/nul",
            "hf:a/b:com1.gguf",
            "hf:a/b:lpt².gguf",
            "hf:a/b:x /a. ",
            "hf:a/b@../x",
            "hf:a/b@a..b",
            "hf:a/b@%2e%2e",
            "hf:a/b@.git",
            "hf:a/b@a//b",
            "hf:a/b:c:d.gguf",
            "a/b",
        ] {
            let error = Reference::new(text).unwrap_err().to_string();
            assert!(
                error.contains("hf:OWNER/REPO") && !error.contains('\u{1b}'),
                "{text}: {error}"
            );
        }
        assert!(Reference::new(&format!("hf:a/{}", "b".repeat(97))).is_err());
    }

    #[test]
    fn folders_name_repositories() {
        let repo = Repo::new("owner/a-b_c.d").unwrap();
        assert_eq!(repo.folder(), "models--owner--a-b_c.d");
        assert_eq!(Repo::of_folder(&repo.folder()), Some(repo));
        for other in ["datasets--a--b", "models--a", "models--a--..", ".locks"] {
            assert_eq!(Repo::of_folder(other), None, "{other}");
        }
    }
}
