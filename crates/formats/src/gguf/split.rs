//! A GGUF in several files: `NAME-00001-of-00003.gguf` and so on, each of which says in its metadata
//! which one it is. Any of them opens all.
use super::Gguf;
use super::write::{Item, Planned};
use crate::error::{Cause, Error};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a file says of the set that it is of, counting from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub part: u64,
    pub count: u64,
    /// Of all files together, if it says so.
    pub tensors: Option<u64>,
}

/// The keys of it.
const KEYS: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];

impl Place {
    /// Of an open file.
    pub fn of(gguf: &Gguf) -> Result<Place, Cause> {
        let number = |key| {
            let number = gguf.metadata().u32(key).map_err(|e| *e.cause)?;
            Ok::<_, Cause>(number.map(u64::from))
        };
        let part = number(KEYS[0])?.unwrap_or(0) + 1;
        Ok(Place { part, count: number(KEYS[1])?.unwrap_or(1), tensors: number(KEYS[2])? })
    }
}

/// A part's stem, number and count, by its name.
fn parse(name: &str) -> Option<(&str, u64, u64)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |digits: &str| digits.parse().ok().filter(|_| digits.len() == 5);
    Some((stem, number(part)?, number(count)?))
}

/// Whether two names are of one set's files.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let set = |name| parse(name).map(|(stem, _, count)| (stem, count));
    set(a).is_some_and(|a| set(b) == Some(a))
}

/// What part `part` of `count` is called.
fn name(stem: &str, part: u64, count: u64) -> String {
    format!("{stem}-{part:05}-of-{count:05}.gguf")
}

/// How tensors are shared out to files: as many to each as take no more than `most` bytes, at least one.
pub fn shares(tensors: &[Planned], most: u64) -> Vec<Range<usize>> {
    let (mut all, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (i, tensor) in tensors.iter().enumerate() {
        if i > from && bytes + tensor.len() > most {
            all.push(from..i);
            (from, bytes) = (i, 0);
        }
        bytes += tensor.len();
    }
    all.push(from..tensors.len());
    all
}

/// The files of a set of so many that is to be called `path`: that itself, if it is one.
pub fn paths(path: &Path, count: usize) -> Vec<PathBuf> {
    if count < 2 {
        return vec![path.to_owned()];
    }
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = own.strip_suffix(".gguf").unwrap_or(&own);
    let part = |part| path.with_file_name(name(stem, part as u64, count as u64));
    (1..=count).map(part).collect()
}

/// What file `part` of a set says of itself, counting from 0.
pub fn place(part: usize, count: usize, tensors: usize) -> Vec<(String, Item)> {
    let values = [Item::u16(part as u16), Item::u16(count as u16), Item::i32(tensors as i32)];
    KEYS.iter().map(|key| (*key).to_owned()).zip(values).collect()
}

/// All files of the set that `one` is of.
///
/// # Errors
/// A file that is not there, is none of the set, or contradicts the first.
pub(super) fn open(one: Gguf) -> Result<Gguf, Error> {
    let path = one.path.clone();
    let fail = |cause| Error::at(&path, cause);
    let place = Place::of(&one).map_err(fail)?;
    let own = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = parse(own);
    let (stem, part, count) = match named {
        Some(named) if place.count > 1 => named,
        None if place.count > 1 => {
            let Place { part, count, .. } = place;
            return Err(fail(Cause::SplitName { part, count, name: name("NAME", part, count) }));
        }
        Some((_, part, count)) if count > 1 => {
            let (says, is) = (format!("part {part} of {count}"), "one whole file".to_owned());
            return Err(fail(Cause::SplitPlace { says, is }));
        }
        _ => return Ok(one),
    };
    if (part, count) != (place.part, place.count) {
        let says = format!("part {part} of {count}");
        let is = format!("part {} of {}", place.part, place.count);
        return Err(fail(Cause::SplitPlace { says, is }));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let other = |part| open_part(folder, &name(stem, part, count), place, part);
    let mut whole = if place.part == 1 { None } else { Some(other(1)?) };
    let mut own = Some(one);
    for part in 1..=count {
        let next = match (part == place.part, part) {
            (true, _) => own.take(),
            (false, 1) => None,
            _ => Some(other(part)?),
        };
        match (&mut whole, next) {
            (Some(first), Some(next)) => first.join(next)?,
            (None, next) => whole = next,
            (_, None) => {}
        }
    }
    let mut whole = whole.expect("a set has a first file");
    whole.sort();
    whole.check().map_err(fail)?;
    let (found, said) = (whole.tensors.len() as u64, place.tensors);
    if said.is_some_and(|said| said != found) {
        let (key, value) = (KEYS[2].to_owned(), said.unwrap_or(0).to_string());
        return Err(fail(Cause::SplitKey { key, value, first: format!("{found} tensors in all") }));
    }
    Ok(whole)
}

fn open_part(folder: &Path, name: &str, of: Place, part: u64) -> Result<Gguf, Error> {
    let path = folder.join(name);
    if !path.exists() {
        let why = format!("part {part} of the {} of its model", of.count);
        return Err(Error::at(folder, Cause::MissingFile { name: name.to_owned(), why }));
    }
    let next = Gguf::open_one(&path)?;
    let place = Place::of(&next).map_err(|cause| Error::at(&path, cause))?;
    if place == (Place { part, ..of }) {
        return Ok(next);
    }
    let is = match place.tensors == of.tensors {
        true => format!("part {} of {}", place.part, place.count),
        false => format!("of {} tensors in all", place.tensors.unwrap_or(0)),
    };
    let total = of.tensors.map_or(String::new(), |n| format!(", {n} tensors in all"));
    let says = format!("part {part} of {}{total}", of.count);
    Err(Error::at(&path, Cause::SplitPlace { says, is }))
}

impl Gguf {
    /// Adds the next file's tensors.
    fn join(&mut self, next: Gguf) -> Result<(), Error> {
        let own = |key: &&str| !KEYS.contains(key);
        for key in next.metadata.keys().filter(own) {
            let (first, value) =
                (self.metadata.raw(&self.files[0], key), next.metadata.raw(&next.files[0], key));
            if first != value {
                let first = "another in the first file, or none".to_owned();
                let cause =
                    Cause::SplitKey { key: key.to_owned(), value: "one value".into(), first };
                return Err(Error::at(&next.path, cause));
            }
        }
        let file = self.files.len();
        self.files.extend(next.files);
        self.tensors.extend(next.tensors.into_iter().map(|entry| super::Entry { file, ..entry }));
        Ok(())
    }
}
