//! Mach-O, whose signature covers all of the file: the bundle becomes the end of the string table,
//! which is the last thing in the last segment, and a new ad-hoc signature follows it.
//!
//! Nothing of the program moves, and Apple's tools find the file in an order that they can sign
//! again. The signature is the one that linkers make: a code directory with a SHA-256 of each page.
use crate::error::Cause;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom, Write};

/// Where what has to change is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachO {
    /// The command of the last segment, and where that begins.
    linkedit: (usize, u64),
    /// The command of the symbol table, and where its strings begin.
    symbols: (usize, u64),
    /// The command of the signature.
    signature: usize,
    /// The signature's first byte.
    pub code: u64,
    /// The executable segment: its first byte and its length.
    text: (u64, u64),
    /// What the program is called where it is signed.
    identifier: Vec<u8>,
    /// Bytes that a code directory hashes at a time, as a power of two.
    page: u8,
}

/// Segments end at a multiple of this in memory.
const SEGMENT: u64 = 1 << 14;
/// A signature begins at a multiple of this.
const GRID: u64 = 16;
/// Bytes of a code directory before the name, and of what is before it.
const DIRECTORY: usize = 88;
const BEFORE: usize = 20;

impl MachO {
    /// Of a whole program.
    pub fn read(bytes: &[u8]) -> std::result::Result<MachO, Cause> {
        let wrong = |what: &'static str| Cause::MachO { what };
        let u32_at = |at: usize| {
            let bytes = bytes.get(at..).and_then(|b| b.first_chunk());
            bytes.map(|b| u32::from_le_bytes(*b)).ok_or(wrong("is cut short"))
        };
        let u64_at = |at: usize| -> std::result::Result<u64, Cause> {
            Ok(u64::from(u32_at(at)?) | u64::from(u32_at(at + 4)?) << 32)
        };
        if u32_at(0)? != 0xfeed_facf || u32_at(12)? != 2 {
            return Err(wrong("is no 64-bit program of one architecture (see lipo -thin)"));
        }
        let (mut at, mut linkedit, mut symbols, mut signature, mut text) =
            (32, None, None, None, None);
        for _ in 0..u32_at(16)? {
            match (u32_at(at)?, bytes.get(at + 8..at + 24)) {
                (0x19, Some(name)) if name.starts_with(b"__LINKEDIT\0") => {
                    linkedit = Some((at, u64_at(at + 40)?, u64_at(at + 48)?));
                }
                (0x19, Some(name)) if name.starts_with(b"__TEXT\0") => {
                    text = Some((u64_at(at + 40)?, u64_at(at + 48)?));
                }
                (0x02, _) => symbols = Some((at, u64::from(u32_at(at + 16)?))),
                (0x1d, _) => signature = Some((at, u32_at(at + 8)?, u32_at(at + 12)?)),
                _ => {}
            }
            at += u32_at(at + 4)?.max(8) as usize;
        }
        let (linkedit, from, length) = linkedit.ok_or(wrong("has no segment __LINKEDIT"))?;
        let (signature, code, signed) =
            signature.ok_or(wrong("is not signed: sign it first (codesign -s - FILE)"))?;
        let (end, code) = (bytes.len() as u64, u64::from(code));
        let symbols = symbols.filter(|(_, strings)| (from..code).contains(strings));
        if from.checked_add(length) != Some(end) || code + u64::from(signed) != end {
            return Err(wrong("does not end with its signature"));
        }
        let (name, page) = signed_as(&bytes[code as usize..]).unwrap_or((None, 12));
        Ok(MachO {
            linkedit: (linkedit, from),
            symbols: symbols.ok_or(wrong("has no string table before its signature"))?,
            signature,
            code,
            text: text.ok_or(wrong("has no segment __TEXT"))?,
            identifier: name.unwrap_or(b"rinfer").to_vec(),
            page,
        })
    }

    /// Signs a program that has `end` bytes before its signature; its length then.
    pub fn sign(&self, out: &mut File, end: u64) -> Result<u64> {
        let code = end.next_multiple_of(GRID);
        out.set_len(code)?;
        let signed = self.signed(code);
        let all = code + signed;
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let length = all - self.linkedit.1;
        let in_memory = length.next_multiple_of(SEGMENT);
        for (at, number) in [
            (self.linkedit.0 + 32, &in_memory.to_le_bytes()[..]),
            (self.linkedit.0 + 48, &length.to_le_bytes()),
            (self.symbols.0 + 20, &small(end - self.symbols.1)),
            (self.signature + 8, &small(code)),
            (self.signature + 12, &small(signed)),
        ] {
            out.seek(SeekFrom::Start(at as u64))?;
            out.write_all(number)?;
        }
        let signature = self.signature(out, code)?;
        out.seek(SeekFrom::Start(code))?;
        out.write_all(&signature)?;
        Ok(all)
    }

    /// Bytes up to the hashes.
    fn heads(&self) -> usize {
        BEFORE + DIRECTORY + self.identifier.len() + 1
    }
    /// Bytes of the signature of `code` bytes.
    fn signed(&self, code: u64) -> u64 {
        self.heads() as u64 + 32 * code.div_ceil(1 << self.page)
    }

    /// Of the first `code` bytes.
    fn signature(&self, file: &mut (impl Read + Seek), code: u64) -> Result<Vec<u8>> {
        let (page, pages) = (1 << self.page, code.div_ceil(1 << self.page));
        let mut out = Vec::with_capacity(self.signed(code) as usize);
        let big = |out: &mut Vec<u8>, numbers: &[u32]| {
            numbers.iter().for_each(|n| out.extend(n.to_be_bytes()));
        };
        // One blob: magic, length, count; its kind and place.
        big(&mut out, &[0xfade_0cc0, self.signed(code) as u32, 1, 0, BEFORE as u32]);
        // The directory: a version with the executable segment; made by a linker, ad hoc.
        let directory = (self.signed(code) - BEFORE as u64) as u32;
        big(&mut out, &[0xfade_0c02, directory, 0x2_0400, 0x2_0002]);
        let hashes = (self.heads() - BEFORE) as u32;
        big(&mut out, &[hashes, DIRECTORY as u32, 0, pages as u32, code as u32]);
        // Hashes of 32 bytes, SHA-256, no platform.
        out.extend([32, 2, 0, self.page]);
        big(&mut out, &[0, 0, 0, 0, 0, 0]);
        for n in [self.text.0, self.text.1, 1] {
            out.extend(n.to_be_bytes());
        }
        out.extend(&self.identifier);
        out.resize(self.heads(), 0);
        file.seek(SeekFrom::Start(0))?;
        let mut left = file.take(code);
        let mut some = Vec::with_capacity(page << 8);
        loop {
            some.clear();
            (&mut left).take((page << 8) as u64).read_to_end(&mut some)?;
            if some.is_empty() {
                return Ok(out);
            }
            some.chunks(page).for_each(|page| out.extend(Sha256::digest(page)));
        }
    }
}

/// The name within a signature, and the size of its pages as a power of two.
fn signed_as(signature: &[u8]) -> Option<(Option<&[u8]>, u8)> {
    let big = |at: usize| {
        let bytes = signature.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes) as usize)
    };
    let directory = (0..big(8)?.min(16)).find(|i| big(12 + 8 * i) == Some(0))?;
    let directory = big(16 + 8 * directory)?;
    let page = *signature.get(directory.checked_add(39)?)?;
    let name = signature.get(directory.checked_add(big(directory + 20)?)?..)?;
    let length = name.iter().take(256).position(|byte| *byte == 0)?;
    let page = if (12..=14).contains(&page) { page } else { 12 };
    Some(((length > 0).then_some(&name[..length]), page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A program that returns 0, as Zig's linker made and signed it.
    const PROGRAM: &[u8] = include_bytes!("macho_program.bin");

    /// Our signature of a linker's program is the linker's.
    #[test]
    fn a_linkers_signature() {
        let macho = MachO::read(PROGRAM).unwrap();
        assert_eq!((&macho.identifier[..], macho.page), (&b"tinymac"[..], 14));
        let ours = macho.signature(&mut Cursor::new(PROGRAM), macho.code).unwrap();
        let theirs = &PROGRAM[macho.code as usize..];
        assert_eq!(ours, theirs[..ours.len()]);
        assert!(theirs[ours.len()..].iter().all(|byte| *byte == 0));
    }

    /// What is signed again reads as a program that ends with its signature, and nothing else of it
    /// has changed.
    #[test]
    fn signed_again() {
        let macho = MachO::read(PROGRAM).unwrap();
        let path = std::env::temp_dir().join(format!("rinfer-macho-{}", std::process::id()));
        let program = &PROGRAM[..macho.code as usize];
        std::fs::write(&path, [program, &[7; 100_001]].concat()).unwrap();
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        let length = macho.sign(&mut file, macho.code + 100_001).unwrap();
        let signed = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(signed.len() as u64, length);
        let again = MachO::read(&signed).unwrap();
        assert_eq!(MachO { code: macho.code, ..again.clone() }, macho);
        assert_eq!(again.code, (macho.code + 100_001).next_multiple_of(16));
        let signature = again.signature(&mut Cursor::new(&signed), again.code).unwrap();
        assert_eq!(signed[again.code as usize..], signature);
        let commands = 0x1000;
        assert_eq!(signed[commands..program.len()], program[commands..]);
        let u64_at = |at: usize| u64::from_le_bytes(*signed[at..].first_chunk().unwrap());
        let (at, from) = again.linkedit;
        assert_eq!(from + u64_at(at + 48), length);
        assert!(u64_at(at + 32) >= u64_at(at + 48) && u64_at(at + 32).is_multiple_of(SEGMENT));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Vec<u8>), says: &str| {
            let mut bytes = PROGRAM.to_vec();
            change(&mut bytes);
            let error = MachO::read(&bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        check(&|b| b[0] = 0xce, "of one architecture");
        check(&|b| b.push(0), "does not end with its signature");
        check(&|b| b.truncate(40), "is cut short");
        let at = MachO::read(PROGRAM).unwrap();
        check(&|b| b[at.signature] = 0x1c, "is not signed");
        check(&|b| b[at.linkedit.0 + 8] = b'x', "no segment __LINKEDIT");
        check(&|b| b[at.symbols.0] = 0x1c, "no string table");
        // Any bytes: named or read, and no panic.
        for i in 0..4096.min(PROGRAM.len()) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = PROGRAM.to_vec();
                bytes[i] = value;
                drop(MachO::read(&bytes));
            }
        }
    }
}
