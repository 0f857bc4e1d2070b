//! What can go wrong between a reference and a file: each its own message, with the next step.
use std::io;
use std::path::{Path, PathBuf};

/// Why a model can't be had. What the hub or a user wrote is shown escaped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The reference itself.
    #[error(
        "'{}' {problem}: a model on the hub is hf:OWNER/REPO, with :QUANT or :FILE and @REVISION after it \
         if you like, such as hf:owner/repo:Q4_K_M",
        reference.escape_debug()
    )]
    Reference {
        /// As it was given.
        reference: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A name that is not in the list of pinned models.
    #[error("there is no demo:{}; `rinfer models` lists these names: {known}", name.escape_debug())]
    Demo {
        /// As it was given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A setting of the environment.
    #[error("{name} {problem}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What is wrong with it, and what is expected.
        problem: String,
    },
    /// 404, or 401 without a token: the hub does not tell these apart.
    #[error(
        "{what}: there is none on {host}, or it is private. Check its name; if it is private, set HF_TOKEN to \
         a token that may read it"
    )]
    Missing {
        /// The repository.
        what: String,
        /// The hub.
        host: String,
    },
    /// 404 of a revision.
    #[error(
        "{repo} has no revision '{revision}' on {host}: give a branch, a tag or a commit that it has"
    )]
    Revision {
        /// The repository.
        repo: String,
        /// What was asked for.
        revision: String,
        /// The hub.
        host: String,
    },
    /// 404 of a file that the listing has.
    #[error(
        "{url}: the hub lists this file and does not have it (404): try again later, or another quant"
    )]
    Gone {
        /// Where it was to be.
        url: String,
    },
    /// 401 or 403 of a gated repository.
    #[error(
        "{repo} is gated: accept its licence at {page} as the user whose token you give, and {next}"
    )]
    Gated {
        /// The repository.
        repo: String,
        /// Where its terms are.
        page: String,
        /// What to do about the token.
        next: &'static str,
    },
    /// 401 with a token.
    #[error(
        "{host} does not accept HF_TOKEN (401) for {what}: it is mistyped or expired, or may not read it. Make a \
         token with read access at {host}/settings/tokens, or unset HF_TOKEN for public repositories"
    )]
    Token {
        /// What was asked for.
        what: String,
        /// The hub.
        host: String,
    },
    /// 403 otherwise.
    #[error(
        "{url}: {host} forbids it (403): the token of HF_TOKEN needs read access to this repository; {page} may \
         ask to accept a licence first"
    )]
    Forbidden {
        /// What was asked for.
        url: String,
        /// The hub.
        host: String,
        /// The repository's page.
        page: String,
    },
    /// 429, after waiting.
    #[error(
        "{host} limits how often it is asked (429) and says to wait {wait}: run the same command again then; {hint}"
    )]
    Limited {
        /// The hub.
        host: String,
        /// How long it says to wait.
        wait: String,
        /// What raises the limit.
        hint: &'static str,
    },
    /// Any other status.
    #[error("{url}: the hub answers {status}{reason}: run the same command again later")]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
        /// What it says, escaped and short.
        reason: String,
    },
    /// No connection, or a broken one.
    #[error("{url}: {cause}. {next}")]
    Network {
        /// What was asked for.
        url: String,
        /// What happened.
        cause: String,
        /// What to do.
        next: &'static str,
    },
    /// A redirect that is not followed.
    #[error("{from} sends to '{}', {problem}: check HF_ENDPOINT and the proxy", to.escape_debug())]
    Redirect {
        /// The URL asked.
        from: String,
        /// Where it points.
        to: String,
        /// Why it is not followed.
        problem: &'static str,
    },
    /// TLS can't work on this processor.
    #[error(
        "https needs a processor with {needed}, and this one lacks {lacking}: fetch the file by other means, such as \
         `curl -LO URL`, and give its path"
    )]
    Processor {
        /// What the TLS provider needs.
        needed: String,
        /// What of it is missing.
        lacking: String,
    },
    /// The listing is not one.
    #[error("{url}: {problem}: check HF_ENDPOINT, or report it to the hub")]
    Listing {
        /// Where it came from.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is nothing to choose from.
    #[error("{repo} {problem}")]
    NoModel {
        /// The repository.
        repo: String,
        /// What it has instead, and what to do.
        problem: String,
    },
    /// The choice is the user's.
    #[error(
        "{repo}: {problem}. It has:\n{}\nname one as hf:{repo}:QUANT or hf:{repo}:FILE",
        list(candidates)
    )]
    Choice {
        /// The repository.
        repo: String,
        /// Why there is no choice.
        problem: String,
        /// What there is.
        candidates: Vec<String>,
    },
    /// The hub is not to be asked.
    #[error(
        "{reference} is not in {} and the hub is not asked (HF_HUB_OFFLINE is set): unset it once to fetch the model, or \
         name one of `rinfer models`", cache.display()
    )]
    Offline {
        /// The model.
        reference: String,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// Whoever watched did not want it any more.
    #[error(
        "fetching was cancelled: what came is kept, and it goes on from there when it is asked for again"
    )]
    Cancelled,
    /// The file changed while it was fetched, twice.
    #[error(
        "{url} changes while it is fetched (its ETag was {was}, then {is}): nothing is kept of it; try again later"
    )]
    Changed {
        /// The file.
        url: String,
        /// The first ETag.
        was: String,
        /// The second.
        is: String,
    },
    /// What came is not what was declared.
    #[error(
        "{url} (ETag {etag}): its content is {found}, and the hub declares {declared}. Every range was fetched again and is the \
         same or as wrong, so nothing is kept; report it to the hub, or try another mirror or network"
    )]
    Digest {
        /// The file.
        url: String,
        /// The last ETag.
        etag: String,
        /// What was computed.
        found: String,
        /// What was declared.
        declared: String,
    },
    /// The pinned digest is not the hub's.
    #[error(
        "{what} is pinned to {pinned}, and {url} now has {found}: it is not fetched; the model may be had as {reference}"
    )]
    Pinned {
        /// The name.
        what: String,
        /// The digest in this program.
        pinned: String,
        /// The hub's.
        found: String,
        /// The file.
        url: String,
        /// The repository's reference.
        reference: String,
    },
    /// The hub and the file disagree about its length.
    #[error("{url} has {found} bytes, and the hub lists {listed}: try again later")]
    Length {
        /// The file.
        url: String,
        /// What the server says.
        found: u64,
        /// What the listing says.
        listed: u64,
    },
    /// The disk has no room.
    #[error(
        "{} has room for {free}, and {needed} are needed: free some space, or set RINFER_MODELS to a folder on another \
         disk. What was fetched is kept, and the same command goes on from there", folder.display()
    )]
    Space {
        /// The cache.
        folder: PathBuf,
        /// What is free.
        free: String,
        /// What is needed.
        needed: String,
    },
    /// A file or folder of the cache.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What happened.
        cause: io::Error,
    },
    /// Something in the cache that is not as it should be.
    #[error("{} {problem}", path.display())]
    Cache {
        /// Which.
        path: PathBuf,
        /// What it is.
        problem: String,
    },
}

impl Error {
    pub(super) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        move |cause| Error::File { path: path.to_owned(), cause }
    }
}

/// At most this many candidates, an indented line each.
fn list(candidates: &[String]) -> String {
    const MOST: usize = 60;
    let mut lines: Vec<String> =
        candidates.iter().take(MOST).map(|c| format!("  {}", c.escape_debug())).collect();
    if candidates.len() > MOST {
        lines.push(format!("  and {} more", candidates.len() - MOST));
    }
    lines.join("\n")
}

/// Bytes as people read them: decimal, as hubs and disks count.
pub fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value < 9.95 => format!("{value:.1} {}", units[unit]),
        _ => format!("{value:.0} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_by_people() {
        for (count, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (98_000_000, "98 MB"),
            (999_499_999, "999 MB"),
            (999_999_999, "1.0 GB"),
            (4_368_439_584, "4.4 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
