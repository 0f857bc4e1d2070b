//! A bundle at the end of a program: one file that runs by itself.
//!
//! A program has a slot: 64 bytes of its data that begin with a mark. Whoever appends a bundle
//! writes into the slot where it lies, so the program knows without looking, and a program that was
//! cut short knows what it misses. Nothing of the program moves. ELF and PE let bytes follow a
//! program; of Mach-O see `macho`.
mod macho;

use crate::bundle::Bundle;
use crate::error::{Cause, Error, Looks};
use crate::map::Bytes;
use macho::MachO;
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of a slot.
pub const SLOT: usize = 64;
/// A bundle begins at a multiple of this, which every system's pages are parts of.
const PAGE: u64 = 1 << 16;
/// The mark, each byte flipped: so that a program has the mark once, in its slot.
const FLIPPED: [u8; 16] = *b"\x8d\x96\x91\x99\x9a\x8d\xd2\x8c\x93\x90\x8b\xd2\xff\x07\x5a\xa3";
/// Windows runs no larger program, and the parts of a Mach-O file are found by 32 bits.
const MOST: u64 = u32::MAX as u64;

/// A slot without a bundle, for a program to have.
pub const fn slot() -> [u8; SLOT] {
    let (mut slot, mut i) = ([0; SLOT], 0);
    while i < FLIPPED.len() {
        slot[i] = !FLIPPED[i];
        i += 1;
    }
    slot
}

/// Where a program's bundle lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the program's first byte.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
    /// The program's length without it, and without its signature.
    pub program: u64,
}

impl Place {
    /// Of a program's own slot; none if it has no bundle.
    ///
    /// # Errors
    /// That the slot holds neither a place nor nothing.
    pub fn of(slot: &[u8; SLOT]) -> Result<Option<Place>, Cause> {
        let number = |at: usize| u64::from_le_bytes(*slot[at..].first_chunk().expect("8 of 64"));
        if slot[16..].iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if u64::from(crc32fast::hash(&slot[..40])) != number(40) {
            let what = "the program's note of its model".to_owned();
            return Err(Cause::Damaged { what, from: 0, to: SLOT as u64 });
        }
        Ok(Some(Place { offset: number(16), length: number(24), program: number(32) }))
    }
    /// A slot that says so.
    fn slot(self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        slot[..FLIPPED.len()].copy_from_slice(&mark());
        for (at, n) in [(16, self.offset), (24, self.length), (32, self.program)] {
            slot[at..at + 8].copy_from_slice(&n.to_le_bytes());
        }
        let crc32 = u64::from(crc32fast::hash(&slot[..40]));
        slot[40..48].copy_from_slice(&crc32.to_le_bytes());
        slot
    }
    /// The bundle of the program at `path`, mapped.
    ///
    /// # Errors
    /// That the file is cut short, and what is wrong with the bundle.
    pub fn open(self, path: &Path) -> Result<Bundle, Error> {
        let bytes = Bytes::map(path).map_err(|cause| Error::at(path, cause))?;
        let (size, end) = (bytes.len() as u64, self.offset.saturating_add(self.length));
        if end > size {
            let what = "the model at the program's end".to_owned();
            return Err(Error::at(path, Cause::Truncated { what, end, size }));
        }
        Bundle::over(path, bytes.part(self.offset as usize..end as usize))
    }
}

/// The bundle that the file at `path` is, or that is at its end.
///
/// # Errors
/// That there is none, and what is wrong with it.
pub fn bundle(path: &Path) -> Result<Bundle, Error> {
    let bytes = Bytes::map(path).map_err(|cause| Error::at(path, cause))?;
    if Bundle::begins(&bytes) {
        return Bundle::over(path, bytes);
    }
    let place = find(&bytes).and_then(|slot| Place::of(slot.1)?.ok_or(Cause::NoSlot));
    place.map_err(|cause| Error::at(path, cause))?.open(path)
}

/// Where a program's slot is, and what it holds.
fn find(bytes: &[u8]) -> Result<(usize, &[u8; SLOT]), Cause> {
    let mark = mark();
    let slot = bytes.windows(mark.len()).position(|w| w == mark).ok_or(Cause::NoSlot)?;
    Ok((slot, bytes[slot..].first_chunk().ok_or(Cause::NoSlot)?))
}

/// A program that a bundle can be appended to.
#[derive(Debug)]
pub struct Program {
    bytes: Vec<u8>,
    /// Where its slot is.
    slot: usize,
    kind: Kind,
}

/// A format of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Elf,
    Pe,
    MachO(MachO),
}

impl Program {
    /// Reads a program without the bundle that it may have.
    ///
    /// # Errors
    /// A file that is no program, or none of ours.
    pub fn read(path: &Path) -> Result<Program, Error> {
        let read = || {
            let file = Bytes::map(path)?;
            let kind = kind(&file)?;
            let (slot, found) = find(&file)?;
            let length = match (Place::of(found)?, &kind) {
                (Some(place), _) => place.program,
                (None, Kind::MachO(macho)) => macho.code,
                (None, _) => file.len() as u64,
            };
            let bytes = usize::try_from(length).ok().and_then(|n| file.get(..n));
            let bytes = bytes.filter(|bytes| slot + SLOT <= bytes.len()).ok_or(Cause::NoSlot)?;
            match find(&bytes[slot + 1..]) {
                Err(_) => Ok(Program { bytes: bytes.to_vec(), slot, kind }),
                Ok(_) => Err(Cause::NoSlot),
            }
        };
        read().map_err(|cause| Error::at(path, cause))
    }
    /// Writes the program to `out` and, through `write`, a bundle of at least `least` bytes behind it,
    /// which begins at the byte that it is given; the whole's length. Errors call it `path`.
    ///
    /// # Errors
    /// As `write`'s and the system's; that the platform runs no program so long, before anything is
    /// written if that is known then.
    pub fn append<E: From<std::io::Error> + From<Error>>(
        &self,
        path: &Path,
        out: &mut File,
        least: u64,
        write: impl FnOnce(&mut File, u64) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let program = self.bytes.len() as u64;
        let offset = program.next_multiple_of(PAGE);
        self.runs(path, offset.saturating_add(least))?;
        out.write_all(&self.bytes)?;
        out.set_len(offset)?;
        let length = write(out, offset)?;
        let end = offset + length;
        self.runs(path, end)?;
        out.seek(SeekFrom::Start(self.slot as u64))?;
        out.write_all(&Place { offset, length, program }.slot())?;
        let_run(out)?;
        match &self.kind {
            Kind::MachO(macho) => Ok(macho.sign(out, end)?),
            _ => Ok(end),
        }
    }
    /// Whether its platform runs one of so many bytes, with a signature of all of them.
    fn runs(&self, path: &Path, size: u64) -> Result<(), Error> {
        if self.kind != Kind::Elf && size > MOST - PAGE - size / 64 {
            return Err(Error::at(path, Cause::LargeProgram { size, most: MOST }));
        }
        Ok(())
    }
}

/// Whoever may read the file may run it.
#[cfg(unix)]
fn let_run(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = file.metadata()?.permissions();
    let mode = permissions.mode();
    permissions.set_mode(mode | mode >> 2 & 0o111);
    file.set_permissions(permissions)
}
#[cfg(not(unix))]
fn let_run(_: &File) -> std::io::Result<()> {
    Ok(())
}

/// What a program's first bytes say that it is.
fn kind(bytes: &[u8]) -> Result<Kind, Cause> {
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => Ok(Kind::Elf),
        [b'M', b'Z', ..] => Ok(Kind::Pe),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => {
            MachO::read(bytes).map(Kind::MachO)
        }
        _ => Err(Cause::NoProgram { looks: Looks::at(bytes) }),
    }
}

/// Made when it is asked for: this program is not to have it but in its slot.
fn mark() -> [u8; FLIPPED.len()] {
    black_box(FLIPPED).map(|byte| !byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Writer;
    use crate::replace::replace;

    fn fill(out: &mut File, base: u64) -> std::io::Result<u64> {
        let mut writer = Writer::new(out, base)?;
        writer.file("a", &[7; 1000])?;
        writer.finish(serde_json::json!({"name": "a model"}))
    }

    /// What a program is made to is found by its slot, and replaced by the next.
    #[test]
    fn programs_carry_one_bundle() {
        let dir = std::env::temp_dir().join(format!("rinfer-executable-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (plain, made) = (dir.join("plain"), dir.join("made"));
        let program = |head: &[u8]| [head, &[1; 5000], &slot(), &[2; 3000]].concat();
        for head in [&b"\x7fELF"[..], b"MZ\x90\0"] {
            std::fs::write(&plain, program(head)).unwrap();
            let mut from = &plain;
            for _ in 0..2 {
                let base = Program::read(from).unwrap();
                let end = replace(&made, |out| {
                    base.append::<Failed>(&made, out, 0, |o, at| Ok(fill(o, at)?))
                });
                let bytes = std::fs::read(&made).unwrap();
                assert_eq!(bytes.len() as u64, end.unwrap());
                let slot = bytes[5004..][..SLOT].try_into().unwrap();
                let place = Place::of(slot).unwrap().expect("a bundle");
                assert_eq!((place.program, place.offset), (8068, PAGE));
                // Nothing else of the program has changed, its headers among it.
                assert_eq!(bytes[..5004], program(head)[..5004]);
                assert_eq!(bytes[5068..8068], [2; 3000]);
                let bundle = place.open(&made).unwrap();
                bundle.verify().unwrap();
                assert_eq!(bundle.model()["name"], "a model");
                from = &made;
            }
        }
        // Cut short, and damaged where it says what it has.
        let bytes = std::fs::read(&made).unwrap();
        let place = Place::of(bytes[5004..][..SLOT].try_into().unwrap()).unwrap().unwrap();
        std::fs::write(&plain, &bytes[..bytes.len() - 1]).unwrap();
        let error = place.open(&plain).unwrap_err().to_string();
        assert!(error.contains("cut short: the model at the program's end"), "{error}");
        for at in 16..48 {
            let mut slot: [u8; SLOT] = bytes[5004..][..SLOT].try_into().unwrap();
            slot[at] ^= 4;
            assert!(Place::of(&slot).unwrap_err().to_string().contains("is damaged"));
        }
        assert_eq!(Place::of(&slot()).unwrap(), None);
        for (content, says) in [
            (program(b"\xca\xfe\xba\xbe"), "lipo -thin"),
            (program(b"#!/bin/sh"), "not a program"),
            (b"\x7fELF without".to_vec(), "is no rinfer"),
            ([program(b"MZ"), slot().to_vec()].concat(), "is no rinfer"),
        ] {
            std::fs::write(&plain, content).unwrap();
            let error = Program::read(&plain).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// E6: Windows runs no program of 4 GiB, so none is made.
    #[test]
    fn e6_windows_runs_no_large_program() {
        let path = std::env::temp_dir().join(format!("rinfer-large-{}", std::process::id()));
        let program = Program { bytes: [b"MZ", &slot()[..]].concat(), slot: 2, kind: Kind::Pe };
        let far = |out: &mut File, at: u64| -> Result<u64, Failed> {
            // A hole, which takes no room on the disk.
            out.set_len(at + MOST)?;
            Ok(MOST)
        };
        let never = |_: &mut File, _: u64| -> Result<u64, Failed> { panic!("it is written") };
        for made in [
            replace(&path, |out| program.append(&path, out, 0, far)),
            replace(&path, |out| program.append(&path, out, MOST, never)),
        ] {
            let Err(Failed(error)) = made else { panic!() };
            assert!(error.contains("4294967295") && error.contains("beside"), "{error}");
            assert!(!path.exists());
        }
        let elf = Program { kind: Kind::Elf, ..program };
        assert!(replace(&path, |out| elf.append(&path, out, MOST, far)).is_ok());
        std::fs::remove_file(path).unwrap();
    }

    #[derive(Debug)]
    struct Failed(String);
    impl From<std::io::Error> for Failed {
        fn from(error: std::io::Error) -> Failed {
            Failed(error.to_string())
        }
    }
    impl From<Error> for Failed {
        fn from(error: Error) -> Failed {
            Failed(error.to_string())
        }
    }
}
