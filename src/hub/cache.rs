//! Where models lie: Hugging Face's own layout, so that its caches can be read and ours by its tools.
//!
//! `models--OWNER--REPO` has `blobs/DIGEST`, the contents; `snapshots/COMMIT/PATH`, links to them; `refs/REVISION`, a commit;
//! and, in ours alone, `listings/COMMIT.json`, what the hub listed. A snapshot gets its links when all of a model is there.
use super::Error;
use super::choose::{Choice, choose};
use super::listing::{Entry, Listing};
use super::part;
use super::reference::{Pick, Repo, path as check_path};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One cache.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// A model that is there.
#[derive(Clone, Debug)]
pub struct Here {
    /// Its repository.
    pub repo: Repo,
    /// Its commit.
    pub commit: String,
    /// Its files.
    pub choice: Choice,
    /// What is opened.
    pub path: PathBuf,
}

impl Cache {
    /// Of a folder, which need not exist.
    pub fn new(root: PathBuf) -> Cache {
        Cache { root }
    }
    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// A repository's folder.
    pub fn of(&self, repo: &Repo) -> PathBuf {
        self.root.join(repo.folder())
    }
    /// A file's content.
    pub fn blob(&self, repo: &Repo, name: &str) -> PathBuf {
        self.of(repo).join("blobs").join(name)
    }
    fn snapshot(&self, repo: &Repo, commit: &str) -> PathBuf {
        self.of(repo).join("snapshots").join(commit)
    }
    /// The commit that a revision was when it was last asked for.
    pub fn commit(&self, repo: &Repo, revision: &str) -> Option<String> {
        let text = if is_commit(revision) {
            revision.to_owned()
        } else {
            fs::read_to_string(self.of(repo).join("refs").join(revision)).ok()?.trim().to_owned()
        };
        is_commit(&text).then_some(text)
    }
    /// What the hub listed, or, in a cache of others, what is there.
    pub fn listing(&self, repo: &Repo, commit: &str) -> Option<Listing> {
        let kept = self.of(repo).join("listings").join(format!("{commit}.json"));
        let read = |bytes: Vec<u8>| Listing::read(&bytes, "").ok();
        let kept = fs::read(kept).ok().and_then(read);
        kept.filter(|listing| listing.repo == *repo && listing.commit == commit).or_else(|| {
            let folder = self.snapshot(repo, commit);
            let mut files = Vec::new();
            scan(&folder, "", &mut files);
            files.sort_by(|a, b| a.path.cmp(&b.path));
            let (repo, commit) = (repo.clone(), commit.to_owned());
            (!files.is_empty()).then_some(Listing { repo, commit, licence: None, files })
        })
    }
    /// The model that is meant, if all of it is there.
    ///
    /// # Errors
    /// If what is there leads out of the cache.
    pub fn find(&self, repo: &Repo, revision: &str, pick: &Pick) -> Result<Option<Here>, Error> {
        let Some(commit) = self.commit(repo, revision) else { return Ok(None) };
        let Some(listing) = self.listing(repo, &commit) else { return Ok(None) };
        let Ok(choice) = choose(&listing, pick) else { return Ok(None) };
        self.whole(&listing, choice)
    }
    /// A choice, if all of it is there.
    fn whole(&self, listing: &Listing, choice: Choice) -> Result<Option<Here>, Error> {
        let folder = self.snapshot(&listing.repo, &listing.commit);
        for file in &choice.files {
            let path = folder.join(&file.path);
            let Ok(data) = fs::metadata(&path) else { return Ok(None) };
            if !data.is_file() || file.size.is_some_and(|size| size != data.len()) {
                return Ok(None);
            }
            self.within(&path)?;
        }
        if choice.folder && !indexed(&folder) {
            return Ok(None);
        }
        let path = if choice.folder { folder } else { folder.join(&choice.files[0].path) };
        let (repo, commit) = (listing.repo.clone(), listing.commit.clone());
        Ok(Some(Here { repo, commit, choice, path }))
    }
    /// Whether a link stays in a cache: this one, or, of a link that we made, another's `blobs`.
    fn within(&self, path: &Path) -> Result<(), Error> {
        let real = fs::canonicalize(path).map_err(Error::file(path))?;
        let root = fs::canonicalize(&self.root).map_err(Error::file(&self.root))?;
        let blob = real.parent().is_some_and(|folder| {
            let repo = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            folder.ends_with("blobs") && repo.is_some_and(|name| Repo::of_folder(name).is_some())
        });
        if real.starts_with(root) || blob {
            return Ok(());
        }
        let problem =
            format!("leads out of the cache, to {}: remove it and pull again", real.display());
        Err(Error::Cache { path: path.to_owned(), problem })
    }
    /// Makes room for a repository.
    ///
    /// # Errors
    /// If a folder can't be made.
    pub fn prepare(&self, repo: &Repo) -> Result<(), Error> {
        let blobs = self.of(repo).join("blobs");
        fs::create_dir_all(&blobs).map_err(Error::file(&blobs))
    }
    /// Links a model's files, and notes what the hub listed and what the revision is. `blobs` are the files' contents.
    ///
    /// # Errors
    /// If a link or note can't be made.
    pub fn link(
        &self,
        listing: &Listing,
        revision: &str,
        choice: &Choice,
        blobs: &[PathBuf],
    ) -> Result<Here, Error> {
        let folder = self.snapshot(&listing.repo, &listing.commit);
        for (file, blob) in choice.files.iter().zip(blobs) {
            link(&folder.join(&file.path), blob, &self.of(&listing.repo))?;
        }
        let note = |path: PathBuf, text: &str| {
            let parent = path.parent().unwrap_or(&path);
            fs::create_dir_all(parent).map_err(Error::file(parent))?;
            fs::write(&path, text).map_err(Error::file(&path))
        };
        let kept = self.of(&listing.repo);
        note(kept.join("listings").join(format!("{}.json", listing.commit)), &listing.write())?;
        if !is_commit(revision) {
            note(kept.join("refs").join(revision), &listing.commit)?;
        }
        let here = self.whole(listing, choice.clone())?;
        here.ok_or_else(|| Error::Cache {
            path: folder,
            problem: "was changed by another program: pull again".into(),
        })
    }
    /// Every repository.
    pub fn repos(&self) -> Vec<Repo> {
        let mut repos: Vec<Repo> =
            names(&self.root).iter().filter_map(|name| Repo::of_folder(name)).collect();
        repos.sort();
        repos
    }
    /// Every commit of a repository that has files.
    pub fn commits(&self, repo: &Repo) -> Vec<String> {
        let mut commits = names(&self.of(repo).join("snapshots"));
        commits.retain(|name| is_commit(name));
        commits.sort();
        commits
    }
    /// Every model of a repository that is there.
    pub fn models(&self, repo: &Repo) -> Vec<Here> {
        let listings =
            self.commits(repo).into_iter().filter_map(|commit| self.listing(repo, &commit));
        let models = |listing: Listing| {
            let all = super::choose::models(&listing).into_iter();
            all.filter_map(|choice| self.whole(&listing, choice).ok().flatten()).collect::<Vec<_>>()
        };
        listings.flat_map(models).collect()
    }
    /// Fetches that have not ended, and the bytes that they hold.
    pub fn unfinished(&self, repo: &Repo) -> Vec<(PathBuf, u64)> {
        let folder = self.of(repo).join("blobs");
        let parts = names(&folder).into_iter().filter(|name| name.ends_with(".part"));
        parts.map(|name| folder.join(name)).map(|path| (path.clone(), part::held(&path))).collect()
    }
    /// Removes a model, or all of a repository; the bytes that this frees.
    ///
    /// # Errors
    /// If something can't be removed, or is being fetched.
    pub fn remove(&self, repo: &Repo, model: Option<&Here>) -> Result<u64, Error> {
        let folder = self.of(repo);
        let before = held(&folder);
        let Some(model) = model else {
            for (part, _) in self.unfinished(repo) {
                let file = fs::File::open(&part).map_err(Error::file(&part))?;
                if file.try_lock().is_err() {
                    let problem = "is being fetched by another process: end that first".into();
                    return Err(Error::Cache { path: part, problem });
                }
            }
            fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
            return Ok(before);
        };
        let snapshot = self.snapshot(repo, &model.commit);
        for file in &model.choice.files {
            let path = snapshot.join(&file.path);
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
        self.sweep(repo)?;
        Ok(before - held(&folder))
    }
    /// Removes contents that no snapshot links, and folders that are empty.
    fn sweep(&self, repo: &Repo) -> Result<(), Error> {
        let folder = self.of(repo);
        let mut linked = HashSet::new();
        for commit in self.commits(repo) {
            let snapshot = self.snapshot(repo, &commit);
            let mut files = Vec::new();
            scan(&snapshot, "", &mut files);
            linked.extend(files.iter().filter_map(|file| file_id(&snapshot.join(&file.path))));
            if files.is_empty() {
                fs::remove_dir_all(&snapshot).map_err(Error::file(&snapshot))?;
            }
        }
        if self.commits(repo).is_empty() && self.unfinished(repo).is_empty() {
            return fs::remove_dir_all(&folder).map_err(Error::file(&folder));
        }
        for name in names(&folder.join("blobs")).into_iter().filter(|name| !name.ends_with(".part"))
        {
            let blob = folder.join("blobs").join(name);
            if file_id(&blob).is_some_and(|id| !linked.contains(&id)) {
                fs::remove_file(&blob).map_err(Error::file(&blob))?;
            }
        }
        Ok(())
    }
}

/// What tells a file from others, through links: its place, and where links are hard, its number.
fn file_id(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    #[cfg(unix)]
    return Some(real);
    #[cfg(not(unix))]
    {
        // A hard link has its content's length and time: two contents of one repository that share both are kept.
        let data = fs::metadata(&real).ok()?;
        Some(PathBuf::from(format!("{}-{:?}", data.len(), data.modified().ok()?)))
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The names in a folder; none if there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The files of a snapshot, as a listing has them.
fn scan(folder: &Path, within: &str, files: &mut Vec<Entry>) {
    const DEEPEST: usize = 8;
    for name in names(folder) {
        let path = format!("{within}{name}");
        if check_path(&path).is_err() || path.matches('/').count() > DEEPEST {
            continue;
        }
        let place = folder.join(&name);
        match fs::metadata(&place) {
            Ok(data) if data.is_file() => {
                files.push(Entry { path, size: Some(data.len()), digest: None })
            }
            // A link to a folder is none of a snapshot's.
            Ok(data) if data.is_dir() && !place.is_symlink() => {
                scan(&place, &format!("{path}/"), files)
            }
            _ => {}
        }
    }
}

/// Whether all files that a folder's index names are there.
fn indexed(folder: &Path) -> bool {
    let Ok(index) = fs::read(folder.join("model.safetensors.index.json")) else { return true };
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap_or_default();
    let Some(map) = index["weight_map"].as_object() else { return true };
    let named: HashSet<&str> = map.values().filter_map(serde_json::Value::as_str).collect();
    named.into_iter().all(|name| check_path(name).is_ok() && folder.join(name).exists())
}

/// Bytes that the files below a folder take, links not followed.
fn held(folder: &Path) -> u64 {
    let size = |name: String| {
        let path = folder.join(name);
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => held(&path),
            Ok(data) if data.is_file() && path.extension().is_some_and(|e| e == "part") => {
                part::held(&path)
            }
            Ok(data) if data.is_file() => data.len(),
            _ => 0,
        }
    };
    names(folder).into_iter().map(size).sum()
}

/// Links a snapshot's file to a content: relatively within `near`, so that the cache can be moved.
fn link(path: &Path, blob: &Path, near: &Path) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(Error::file(parent))?;
    let to = match (blob.strip_prefix(near), parent.strip_prefix(near)) {
        (Ok(below), Ok(depth)) => {
            let up: PathBuf = depth.components().map(|_| "..").collect();
            up.join(below)
        }
        _ => blob.to_owned(),
    };
    match symlink(&to, blob, path) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result.map_err(Error::file(path)),
    }
    if file_id(path).is_some() && file_id(path) == file_id(blob) {
        return Ok(());
    }
    fs::remove_file(path).map_err(Error::file(path))?;
    symlink(&to, blob, path).map_err(Error::file(path))
}

#[cfg(unix)]
fn symlink(to: &Path, _: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, path)
}

/// Symbolic links are a privilege elsewhere.
#[cfg(not(unix))]
fn symlink(_: &Path, blob: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(blob, path)
}
