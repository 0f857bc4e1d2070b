//! A file that is being fetched: its bytes in place, and after them a note of which are there.
//!
//! The note has a record for each range: how many of its bytes are written, and their CRC-32. A record is written after the
//! bytes that it counts, so whenever the program is killed, all that a record counts is there. The file is locked while it is
//! written; when all is there and right, the note is cut off and the file gets its name.
use super::Error;
use crc32fast::Hasher as Crc;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MAGIC: &[u8; 8] = b"rfpart1\n";
const HEADER: u64 = 32;
const RECORD: u64 = 16;

/// A file with gaps.
pub struct Part {
    file: File,
    path: PathBuf,
    size: u64,
    range: u64,
    ranges: Vec<Mutex<Record>>,
}

#[derive(Clone, Default)]
struct Record {
    done: u64,
    crc: Crc,
    claimed: bool,
}

/// A lock on a file's part, or the news that there is nothing left to do.
pub enum Held {
    /// The part is ours.
    Ours(File),
    /// Another process has made the file in the meantime.
    Made,
}

/// Waits until the part is ours or `made` is there; `waits` is called once if another process has it.
///
/// # Errors
/// If the part can't be made or locked.
pub fn hold(path: &Path, made: &Path, waits: impl Fn()) -> Result<Held, Error> {
    let at = Error::file(path);
    let mut told = false;
    loop {
        if made.exists() {
            return Ok(Held::Made);
        }
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = options.map_err(&at)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    waits();
                }
                file.lock().map_err(&at)?;
            }
            Err(TryLockError::Error(cause)) => return Err(at(cause)),
        }
        // Whoever had it may have given it its name, or up.
        if !same(&file, path) {
            continue;
        }
        if made.exists() {
            std::fs::remove_file(path).map_err(&at)?;
            return Ok(Held::Made);
        }
        return Ok(Held::Ours(file));
    }
}

#[cfg(unix)]
fn same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let ids = |data: io::Result<std::fs::Metadata>| data.ok().map(|data| (data.dev(), data.ino()));
    let open = ids(file.metadata());
    open.is_some() && open == ids(std::fs::metadata(path))
}

/// Elsewhere an open file's name can't be another's.
#[cfg(not(unix))]
fn same(_: &File, path: &Path) -> bool {
    path.exists()
}

impl Part {
    /// Goes on with what the part has of `size` bytes; starts anew if that can't be told.
    ///
    /// # Errors
    /// If it can't be read or written.
    pub fn new(file: File, path: &Path, size: u64, range: u64) -> Result<Part, Error> {
        let (range, ranges) = match read_note(&file, size) {
            Some(note) => note,
            None => {
                let at = Error::file(path);
                file.set_len(0).map_err(&at)?;
                let ranges = vec![Record::default(); size.div_ceil(range) as usize];
                file.set_len(size + HEADER + RECORD * ranges.len() as u64).map_err(&at)?;
                write_at(&file, &header(size, range), size).map_err(&at)?;
                (range, ranges)
            }
        };
        let ranges = ranges.into_iter().map(Mutex::new).collect();
        Ok(Part { file, path: path.to_owned(), size, range, ranges })
    }
    /// Bytes of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }
    /// How many ranges there are.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }
    /// Where a range begins and ends.
    pub fn span(&self, range: usize) -> (u64, u64) {
        let from = range as u64 * self.range;
        (from, self.size.min(from + self.range))
    }
    /// Bytes that are there.
    pub fn done(&self) -> u64 {
        (0..self.ranges()).map(|range| self.record(range).done).sum()
    }
    /// Bytes that are there of a range.
    pub fn done_of(&self, range: usize) -> u64 {
        self.record(range).done
    }
    /// Bytes that are there without a gap before them.
    pub fn prefix(&self) -> u64 {
        for range in 0..self.ranges() {
            let (from, to) = self.span(range);
            let done = self.record(range).done;
            if from + done < to {
                return from + done;
            }
        }
        self.size
    }
    /// The first range with a gap that nobody fills.
    pub fn claim(&self) -> Option<usize> {
        (0..self.ranges()).find(|&range| {
            let (from, to) = self.span(range);
            let mut record = self.record(range);
            let free = !record.claimed && record.done < to - from;
            record.claimed |= free;
            free
        })
    }
    /// Gives ranges back, to be claimed anew.
    pub fn unclaim(&self) {
        (0..self.ranges()).for_each(|range| self.record(range).claimed = false);
    }
    /// Writes the next bytes of a range.
    ///
    /// # Errors
    /// If the disk is full, or can't be written.
    pub fn write(&self, range: usize, bytes: &[u8]) -> Result<(), Error> {
        let (from, _) = self.span(range);
        let mut record = self.record(range);
        let written = write_at(&self.file, bytes, from + record.done).and_then(|()| {
            record.done += bytes.len() as u64;
            record.crc.update(bytes);
            self.note(range, &record)
        });
        // What is said of a full disk counts all records, this one too.
        drop(record);
        written.map_err(|cause| self.full(cause))
    }
    /// Forgets what is there of a range.
    ///
    /// # Errors
    /// If it can't be noted.
    pub fn forget(&self, range: usize) -> Result<(), Error> {
        let mut record = self.record(range);
        *record = Record { claimed: record.claimed, ..Record::default() };
        self.note(range, &record).map_err(Error::file(&self.path))
    }
    /// Reads bytes that are there.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        read_at(&self.file, bytes, at).map_err(Error::file(&self.path))
    }
    /// Whether a range is as it was written.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn intact(&self, range: usize) -> Result<bool, Error> {
        let (mut at, to) = self.span(range);
        let mut crc = Crc::new();
        let mut buffer = vec![0; 1 << 18];
        while at < to {
            let next = (to - at).min(buffer.len() as u64) as usize;
            self.read(at, &mut buffer[..next])?;
            crc.update(&buffer[..next]);
            at += next as u64;
        }
        Ok(crc.finalize() == self.record(range).crc.clone().finalize())
    }
    /// Makes what was written last.
    ///
    /// # Errors
    /// If the disk can't.
    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|cause| self.full(cause))
    }
    /// Gives the file its name, all of it or nothing.
    ///
    /// # Errors
    /// If the disk can't.
    pub fn install(self, name: &Path) -> Result<(), Error> {
        self.file.set_len(self.size).map_err(Error::file(&self.path))?;
        self.file.sync_all().map_err(|cause| self.full(cause))?;
        std::fs::rename(&self.path, name).map_err(Error::file(name))
    }
    /// Removes it.
    ///
    /// # Errors
    /// If the disk can't.
    pub fn discard(self) -> Result<(), Error> {
        std::fs::remove_file(&self.path).map_err(Error::file(&self.path))
    }
    fn record(&self, range: usize) -> MutexGuard<'_, Record> {
        self.ranges[range].lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn note(&self, range: usize, record: &Record) -> io::Result<()> {
        let at = self.size + HEADER + RECORD * range as u64;
        let bytes = encode(range, record.done, record.crc.clone().finalize());
        write_at(&self.file, &bytes, at)
    }
    fn full(&self, cause: io::Error) -> Error {
        let folder = self.path.parent().unwrap_or(&self.path);
        if matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return super::space::full(folder, self.size - self.done());
        }
        Error::file(&self.path)(cause)
    }
}

/// Bytes that a part on the disk holds, by its note; what a part without one holds counts nothing.
pub fn held(path: &Path) -> u64 {
    let held = || {
        let file = File::open(path).ok()?;
        // The note is as long as it says, and begins where the content ends.
        let length = file.metadata().ok()?.len();
        let mut tail = vec![0; length.min(1 << 20) as usize];
        let from = length - tail.len() as u64;
        read_at(&file, &mut tail, from).ok()?;
        let at = tail.windows(MAGIC.len()).rposition(|bytes| bytes == MAGIC)?;
        let size = length - (tail.len() - at) as u64;
        let (_, records) = read_note(&file, size)?;
        Some(records.iter().map(|record| record.done).sum())
    };
    held().unwrap_or(0)
}

/// The note's first bytes: what it is, and of what.
fn header(size: u64, range: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&size.to_le_bytes());
    bytes[16..24].copy_from_slice(&range.to_le_bytes());
    let check = crc32fast::hash(&bytes[..24]);
    bytes[24..28].copy_from_slice(&check.to_le_bytes());
    bytes
}

fn encode(range: usize, done: u64, crc: u32) -> [u8; RECORD as usize] {
    let mut bytes = [0; RECORD as usize];
    bytes[..8].copy_from_slice(&done.to_le_bytes());
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    let check = check(range, &bytes[..12]);
    bytes[12..].copy_from_slice(&check.to_le_bytes());
    bytes
}

fn check(range: usize, bytes: &[u8]) -> u32 {
    let mut crc = Crc::new_with_initial(range as u32 ^ 0x5a5a_5a5a);
    crc.update(bytes);
    crc.finalize()
}

/// The ranges' length and records, if the file ends with a note of `size` bytes.
fn read_note(file: &File, size: u64) -> Option<(u64, Vec<Record>)> {
    let mut head = [0; HEADER as usize];
    read_at(file, &mut head, size).ok()?;
    let range = u64::from_le_bytes(head[16..24].try_into().ok()?);
    if range == 0 || head != header(size, range) {
        return None;
    }
    let count = size.div_ceil(range);
    if file.metadata().ok()?.len() != size + HEADER + RECORD * count {
        return None;
    }
    let record = |index: u64| {
        let mut bytes = [0; RECORD as usize];
        read_at(file, &mut bytes, size + HEADER + RECORD * index).ok()?;
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).ok();
        let done = u64::from_le_bytes(bytes[..8].try_into().ok()?);
        let whole = number(&bytes[12..])? == check(index as usize, &bytes[..12]);
        // A record that was never written counts nothing.
        let done = if whole && done <= range.min(size - index * range) { done } else { 0 };
        let crc = if done == 0 {
            Crc::new()
        } else {
            Crc::new_with_initial_len(number(&bytes[8..12])?, done)
        };
        Some(Record { done, crc, claimed: false })
    };
    Some((range, (0..count).map(record).collect::<Option<_>>()?))
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, bytes, at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[count..];
        at += count as u64;
    }
    Ok(())
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        bytes = &bytes[count..];
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(test: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("rinfer-part-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn open(path: &Path, size: u64) -> Part {
        let Held::Ours(file) = hold(path, &path.with_extension("made"), || {}).unwrap() else {
            panic!("made");
        };
        Part::new(file, path, size, 10).unwrap()
    }

    #[test]
    fn goes_on_where_it_was() {
        let path = folder("goes_on").join("x.part");
        let part = open(&path, 25);
        assert_eq!(
            (part.ranges(), part.span(2), part.claim(), part.claim()),
            (3, (20, 25), Some(0), Some(1))
        );
        part.write(1, b"abc").unwrap();
        part.write(1, b"de").unwrap();
        part.write(0, b"0123456789").unwrap();
        assert_eq!((part.done(), part.prefix()), (15, 15));
        drop(part);
        let part = open(&path, 25);
        assert_eq!(
            (part.done(), part.done_of(1), part.claim(), part.claim(), part.claim()),
            (15, 5, Some(1), Some(2), None)
        );
        part.write(1, b"fghij").unwrap();
        assert!(part.intact(0).unwrap() && part.intact(1).unwrap());
        part.write(2, b"vwxyz").unwrap();
        assert_eq!(part.prefix(), 25);
        write_at(&part.file, b"!", 3).unwrap();
        assert!(!part.intact(0).unwrap() && part.intact(1).unwrap());
        part.forget(0).unwrap();
        part.write(0, b"0123456789").unwrap();
        part.install(&path.with_extension("whole")).unwrap();
        assert_eq!(
            std::fs::read(path.with_extension("whole")).unwrap(),
            b"0123456789abcdefghijvwxyz"
        );
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_note_starts_anew() {
        let path = folder("no_note").join("x.part");
        let whole = open(&path, 25);
        whole.write(0, b"0123456789").unwrap();
        drop(whole);
        let bytes = std::fs::read(&path).unwrap();
        let check = |change: &dyn Fn(&mut Vec<u8>), done: u64| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(open(&path, 25).done(), done);
        };
        check(&|_| {}, 10);
        check(&|bytes| bytes[25] ^= 1, 0);
        check(&|bytes| bytes[25 + 16] ^= 1, 0);
        check(&|bytes| bytes[25 + 32] ^= 1, 0);
        check(&|bytes| bytes[25 + 32 + 1] = 0xff, 0);
        check(&|bytes| bytes.truncate(25 + 40), 0);
        check(&|bytes| bytes.clear(), 0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(open(&path, 26).done(), 0);
        assert_eq!(open(&path, 0).ranges(), 0);
    }

    #[test]
    fn one_at_a_time() {
        let path = folder("one_at_a_time").join("x.part");
        let made = path.with_extension("made");
        let first = open(&path, 3);
        std::thread::scope(|s| {
            let (tell, told) = std::sync::mpsc::channel();
            let second = s.spawn(|| hold(&path, &made, move || tell.send(()).unwrap()).unwrap());
            told.recv().unwrap();
            first.write(0, b"abc").unwrap();
            first.install(&made).unwrap();
            assert!(matches!(second.join().unwrap(), Held::Made));
        });
        assert!(!path.exists());
    }
}
