//! From a reference to a model in the cache: listed, chosen, fetched, verified, installed.
use super::cache::Here;
use super::choose::{Choice, choose};
use super::client::{Span, header, plain};
use super::digest::Digest;
use super::download::{Fault, Source};
use super::listing::{Entry, Listing, MOST_BYTES};
use super::part::{Held, Part, hold};
use super::reference::{self, Reference};
use super::refusal::Asked;
use super::watch::Watch;
use super::{Error, Hub, Wanted, bytes, space};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

impl Hub {
    /// What the hub lists of a repository.
    pub(super) fn listing(&self, reference: &Reference) -> Result<Listing, Error> {
        let client = self.client()?;
        let (repo, revision) = (reference.repo.to_string(), &reference.revision);
        let url = format!(
            "{}/api/models/{repo}/revision/{}?blobs=true",
            client.endpoint(),
            segment(revision)
        );
        let asked = Asked { repo: &repo, revision, file: false };
        let json = client.text(&url, MOST_BYTES, &asked)?;
        Listing::read(&json, &plain(&url))
    }
    /// Fetches what of a model is not here.
    pub(super) fn fetch(&self, wanted: &Wanted, watch: &dyn Watch) -> Result<Here, Error> {
        watch.tell(&format!("{} is asked for {}", self.host(), wanted.reference));
        let mut changed = None;
        for _ in 0..2 {
            match self.attempt(wanted, watch) {
                Err(Fault::Changed { was, is }) => {
                    if changed.is_none() {
                        watch.note(
                            "a file changed on the hub while it was fetched: it is fetched anew",
                        );
                    }
                    changed = Some((was, is));
                }
                Err(Fault::Failed(error)) => return Err(error),
                Err(Fault::Whole) => unreachable!("the download falls back on whole files"),
                Ok(here) => return Ok(here),
            }
        }
        let (was, is) = changed.unwrap_or_default();
        Err(Error::Changed { url: wanted.reference.to_string(), was, is })
    }
    fn attempt(&self, wanted: &Wanted, watch: &dyn Watch) -> Result<Here, Fault> {
        let reference = &wanted.reference;
        let listing = self.listing(reference)?;
        if listing.repo != reference.repo {
            watch.note(&format!("{} is now called {}", reference.repo, listing.repo));
        }
        let mut choice = choose(&listing, &reference.pick)?;
        self.pinned(wanted, &listing, &choice)?;
        for file in &choice.files {
            reference::portable(&file.path).map_err(|problem| Error::Listing {
                url: format!("{}/{}", self.client().map_or("", |c| c.endpoint()), listing.repo),
                problem: format!(
                    "it has a file '{}', whose path {problem}",
                    file.path.escape_debug()
                ),
            })?;
        }
        self.own.prepare(&listing.repo)?;
        let mut etags = Vec::new();
        for file in &mut choice.files {
            etags.push(self.complete(&listing, file)?);
        }
        let here: Vec<Option<PathBuf>> = choice
            .files
            .iter()
            .zip(&etags)
            .map(|(file, etag)| self.blob(&listing, file, etag.as_deref()))
            .collect();
        self.announce(&listing, &choice, &here, watch)?;
        let mut blobs = Vec::new();
        for ((file, etag), here) in choice.files.iter().zip(etags).zip(here) {
            blobs.push(match here {
                Some(blob) => blob,
                None => self.file(&listing, file, etag, watch)?,
            });
        }
        let here = self.own.link(&listing, &reference.revision, &choice, &blobs)?;
        if listing.repo != reference.repo {
            // The old name finds it too, without asking again.
            let old = Listing { repo: reference.repo.clone(), ..listing };
            self.own.link(&old, &reference.revision, &choice, &blobs)?;
        }
        Ok(here)
    }
    /// Whether the hub still has what is pinned.
    fn pinned(&self, wanted: &Wanted, listing: &Listing, choice: &Choice) -> Result<(), Error> {
        let Some(demo) = wanted.pinned else { return Ok(()) };
        let found = choice.files.first().and_then(|file| file.digest);
        if found == demo.digest() {
            return Ok(());
        }
        Err(Error::Pinned {
            what: format!("demo:{}", demo.name),
            pinned: demo.sha256.to_owned(),
            found: found.map_or_else(|| "no digest".to_owned(), |digest| digest.to_string()),
            url: self.url(listing, demo.file)?,
            reference: wanted.reference.to_string(),
        })
    }
    fn url(&self, listing: &Listing, path: &str) -> Result<String, Error> {
        let path: Vec<String> = path.split('/').map(segment).collect();
        Ok(format!(
            "{}/{}/resolve/{}/{}",
            self.client()?.endpoint(),
            listing.repo,
            listing.commit,
            path.join("/")
        ))
    }
    /// Asks for a size or digest that the listing lacks, as mirrors may; the ETag if that names the content.
    fn complete(&self, listing: &Listing, file: &mut Entry) -> Result<Option<String>, Error> {
        if file.size.is_some() && file.digest.is_some() {
            return Ok(None);
        }
        let repo = listing.repo.to_string();
        let url = self.url(listing, &file.path)?;
        let asked = Asked { repo: &repo, revision: &listing.commit, file: true };
        let answer =
            self.client()?.get(&url, Some(&Span { from: 0, to: 1, etag: None }), &asked)?;
        let headers = answer.response.headers();
        let range = header(headers, "content-range");
        let total = range.as_deref().and_then(|range| range.rsplit('/').next()?.parse().ok());
        let whole = answer.response.status().as_u16() == 200;
        let length = whole.then(|| answer.response.body().content_length()).flatten();
        let size = answer.linked_size.or(total).or(length);
        file.size = file.size.or(size);
        let etag = header(headers, "etag");
        let linked = answer.linked_etag.as_deref().or(etag.as_deref());
        file.digest = file.digest.or_else(|| Digest::of_etag(linked?));
        if file.size.is_none() {
            let problem = format!("it says no length of {}", file.path.escape_debug());
            return Err(Error::Listing { url: plain(&url), problem });
        }
        Ok(etag)
    }
    /// What a file's content is called: its digest, else its ETag, else its commit and path.
    fn name(&self, listing: &Listing, file: &Entry, etag: Option<&str>) -> String {
        if let Some(digest) = file.digest {
            return digest.to_string();
        }
        let text = etag.map_or_else(|| format!("{}-{}", listing.commit, file.path), str::to_owned);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let text: String = text.trim_matches('"').chars().map(plain).take(100).collect();
        format!("etag-{text}")
    }
    /// A file's content, if it is here: in our cache, or in another's.
    fn blob(&self, listing: &Listing, file: &Entry, etag: Option<&str>) -> Option<PathBuf> {
        let name = self.name(listing, file, etag);
        let caches =
            std::iter::once(&self.own).chain(self.others.iter().filter(|_| file.digest.is_some()));
        let paths = caches.map(|cache| cache.blob(&listing.repo, &name));
        let whole = |path: &PathBuf| {
            let data = fs::symlink_metadata(path);
            data.is_ok_and(|data| data.is_file() && Some(data.len()) == file.size)
        };
        paths.into_iter().find(whole).and_then(|path| fs::canonicalize(&path).ok().map(|_| path))
    }
    /// Says what will be fetched, having checked that there is room.
    fn announce(
        &self,
        listing: &Listing,
        choice: &Choice,
        here: &[Option<PathBuf>],
        watch: &dyn Watch,
    ) -> Result<(), Error> {
        let missing: Vec<&Entry> = choice
            .files
            .iter()
            .zip(here)
            .filter(|(_, here)| here.is_none())
            .map(|(file, _)| file)
            .collect();
        let needed: u64 = missing.iter().filter_map(|file| file.size).sum();
        let parts = self.own.unfinished(&listing.repo);
        let of = |file: &&Entry| {
            let name = format!("{}.part", self.name(listing, file, None));
            parts.iter().find(|(path, _)| path.ends_with(&name)).map_or(0, |(_, held)| *held)
        };
        let held: u64 = missing.iter().map(of).sum();
        space::check(&self.own.of(&listing.repo), needed.saturating_sub(held))?;
        watch.needs(missing.len(), needed);
        if let [first, ..] = missing[..] {
            let rest = if missing.len() > 1 {
                format!(" and {} more files", missing.len() - 1)
            } else {
                String::new()
            };
            let licence = listing.licence.as_deref().unwrap_or("not stated");
            watch.tell(&format!(
                "fetching {}{rest}, {}; licence: {licence}",
                first.path,
                bytes(needed)
            ));
        }
        for file in choice.files.iter().filter(|file| file.digest.is_none()) {
            watch.note(&format!(
                "the hub declares no digest of {}: only its length is checked",
                file.path
            ));
        }
        Ok(())
    }
    /// Fetches a file; the place of its content.
    fn file(
        &self,
        listing: &Listing,
        file: &Entry,
        etag: Option<String>,
        watch: &dyn Watch,
    ) -> Result<PathBuf, Fault> {
        let name = self.name(listing, file, etag.as_deref());
        let blob = self.own.blob(&listing.repo, &name);
        let part = self.own.blob(&listing.repo, &format!("{name}.part"));
        let waits =
            || watch.note(&format!("another process fetches {}: waiting for it", file.path));
        let Held::Ours(held) = hold(&part, &blob, waits)? else { return Ok(blob) };
        let size = file.size.unwrap_or_default();
        let part = Part::new(held, &part, size, self.config.range)?;
        let repo = listing.repo.to_string();
        let source = Source {
            client: self.client()?,
            url: self.url(listing, &file.path)?,
            asked: Asked { repo: &repo, revision: &listing.commit, file: true },
            size,
            declared: file.digest,
            etag: Mutex::new(etag),
            connections: self.config.connections,
            alone: self.config.alone,
            watch,
        };
        watch.begins(&file.path, size, part.done());
        let verified = verify(&source, &part);
        watch.ends();
        match verified {
            Ok(found) if found == file.digest => part.install(&blob)?,
            Ok(found) => {
                let text =
                    |digest: Option<Digest>| digest.map_or_else(String::new, |d| d.to_string());
                let (found, declared) = (text(found), text(file.digest));
                let etag = source.known().unwrap_or_else(|| "none".into());
                let url = plain(&source.url);
                part.discard()?;
                return Err(Error::Digest { url, etag, found, declared }.into());
            }
            Err(fault) => {
                if let Fault::Changed { .. } = fault {
                    part.discard()?;
                }
                return Err(fault);
            }
        }
        Ok(blob)
    }
}

/// Fills a part; the digest of it. Where that is not what is declared, what the disk lost is fetched again, and then what
/// the network may have changed.
fn verify(source: &Source, part: &Part) -> Result<Option<Digest>, Fault> {
    let mut found = source.fill(part)?;
    if found == source.declared {
        return Ok(found);
    }
    let mut lost = false;
    for range in 0..part.ranges() {
        if !part.intact(range)? {
            part.forget(range)?;
            lost = true;
        }
    }
    if lost {
        source
            .watch
            .note("the disk did not keep a part of what was fetched: that part is fetched again");
        found = source.fill(part)?;
        if found == source.declared {
            return Ok(found);
        }
    }
    source.watch.note("what came is not what the hub declares: it is fetched again, range by range, to find where");
    source.repair(part)
}

/// A part of a URL's path.
pub fn segment(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_urls() {
        assert_eq!(segment("refs/pr/1"), "refs%2Fpr%2F1");
        assert_eq!(segment("ü (1)+?#%.gguf"), "%C3%BC%20%281%29%2B%3F%23%25.gguf");
    }
}
