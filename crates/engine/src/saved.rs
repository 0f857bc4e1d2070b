//! A file of what a model keeps of earlier requests: a header that says for which model, a note of whoever
//! saved it, and what the [state](crate::backend::State::save) writes. It is written whole or not at
//! all, and read only if every byte of it is as it was written.
use crate::backend::Kv;
use crate::error::{Error, Result};
use rinfer_formats::replace::replace;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"rinferKV";
const VERSION: u32 = 3;
/// Magic; version, precision of keys and values; model, context, positions, bytes of the note, bytes
/// in all; digest of the header before it and all that follows.
const HEADER: usize = 64;

/// What must agree for a file to be read, and what it says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// [What the model says](crate::engine::Engine) to a fixed prompt, as a digest.
    pub model: u64,
    /// How keys and values are stored.
    pub kv: Kv,
    /// Positions of a sequence.
    pub context: usize,
}

/// What a file held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Positions whose state was kept.
    pub positions: usize,
    /// What was noted.
    pub note: Vec<u8>,
}

impl Header {
    /// Writes a file, in whose place an older one stays until this one is whole and on the disk. `state`
    /// writes what is kept and returns how many positions that are, as this does.
    ///
    /// # Errors
    /// Those of writing; a file without a note and without positions.
    pub fn write(
        &self,
        path: &Path,
        note: &[u8],
        state: impl FnOnce(&mut dyn Write) -> io::Result<usize>,
    ) -> Result<usize> {
        let written = replace(path, |file: &mut File| {
            file.write_all(&[0; HEADER])?;
            let (positions, mut sum) = body(file, note, state)?;
            let mut header = MAGIC.to_vec();
            header.extend(VERSION.to_le_bytes());
            header.extend(code(self.kv).to_le_bytes());
            let length = HEADER as u64 + sum.length;
            let numbers = [self.context, positions, note.len()].map(|n| n as u64);
            for n in [self.model].into_iter().chain(numbers).chain([length]) {
                header.extend(n.to_le_bytes());
            }
            sum.add(&header);
            header.extend(sum.end().to_le_bytes());
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header)?;
            Ok::<usize, io::Error>(positions)
        });
        written.map_err(|cause| Error::Write { file: path.display().to_string(), cause })
    }

    /// Reads a file: `state` reads what is kept and returns how many positions that are.
    ///
    /// # Errors
    /// A file that can't be read, is cut or changed, or is another model's; what `state` refuses.
    pub fn read(
        &self,
        path: &Path,
        state: impl FnOnce(&mut dyn Read) -> std::result::Result<usize, String>,
    ) -> Result<Restored> {
        let refuse = |problem| Error::Saved { file: path.display().to_string(), problem };
        let io = |cause: io::Error| refuse(cause.to_string());
        let mut file = File::open(path).map_err(io)?;
        let note = self.check(&mut file).map_err(refuse)?;
        file.seek(SeekFrom::Start(HEADER as u64)).map_err(io)?;
        let mut rest = BufReader::with_capacity(1 << 16, file);
        let mut noted = Vec::new();
        rest.by_ref().take(note).read_to_end(&mut noted).map_err(io)?;
        let positions = state(&mut rest).map_err(refuse)?;
        Ok(Restored { positions, note: noted })
    }

    /// The length of the note, if all is as it was written, for this model.
    fn check(&self, file: &mut File) -> std::result::Result<u64, String> {
        let io = |cause: io::Error| cause.to_string();
        let length = file.metadata().map_err(io)?.len();
        let mut header = Vec::new();
        file.take(HEADER as u64).read_to_end(&mut header).map_err(io)?;
        if !header.starts_with(MAGIC) {
            return Err("it holds no saved state".into());
        }
        let Ok(header) = <[u8; HEADER]>::try_from(&header[..]) else {
            return Err(format!("it is cut short: {length} bytes, less than its header"));
        };
        let word = |at: usize| header[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let (version, kv) = (word(8) as u32, (word(8) >> 32) as u32);
        if version != VERSION {
            return Err(format!("it has version {version}, expected {VERSION}: save it again"));
        }
        if word(48) != length {
            return Err(format!(
                "it is cut short or longer: {length} bytes, expected {}",
                word(48)
            ));
        }
        let mut sum = Sum::default();
        let mut part = vec![0; 1 << 16];
        loop {
            match file.read(&mut part).map_err(io)? {
                0 => break,
                n => sum.add(&part[..n]),
            }
        }
        sum.add(&header[..56]);
        if sum.end() != word(56) {
            return Err("it is damaged: its digest is wrong".into());
        }
        if word(16) != self.model {
            return Err(
                "it is of another model, or of this one held otherwise (--quant, adapters, \
                        another version of rinfer)"
                    .into(),
            );
        }
        if kv != code(self.kv) {
            let found = Kv::ALL.into_iter().find(|found| code(*found) == kv).map(Kv::name);
            let (found, own) = (found.unwrap_or("other"), self.kv.name());
            return Err(format!("it has {found} keys and values, this model is loaded with {own}"));
        }
        Ok(word(40).min(length - HEADER as u64))
    }
}

/// Writes what follows the header.
fn body(
    file: &mut File,
    note: &[u8],
    state: impl FnOnce(&mut dyn Write) -> io::Result<usize>,
) -> io::Result<(usize, Sum)> {
    let mut out = Summed { inner: BufWriter::new(file), sum: Sum::default() };
    out.write_all(note)?;
    let positions = state(&mut out)?;
    if positions == 0 && note.is_empty() {
        return Err(io::Error::other("nothing is kept of these tokens"));
    }
    out.flush()?;
    Ok((positions, out.sum))
}

/// How a file names the precision of its keys and values.
fn code(kv: Kv) -> u32 {
    match kv {
        Kv::Q8 => 1,
        Kv::F16 => 2,
        Kv::F32 => 4,
    }
}

/// A 64-bit digest against accidents: FNV-1a over words.
pub(crate) struct Sum {
    hash: u64,
    /// Of the word under way.
    word: [u8; 8],
    length: u64,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { hash: 0xCBF2_9CE4_8422_2325, word: [0; 8], length: 0 }
    }
}

impl Sum {
    /// Goes on with these.
    pub fn add(&mut self, mut bytes: &[u8]) {
        let open = (self.length % 8) as usize;
        self.length += bytes.len() as u64;
        if open > 0 {
            let n = bytes.len().min(8 - open);
            self.word[open..open + n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if open + n < 8 {
                return;
            }
            self.mix(u64::from_le_bytes(self.word));
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        self.word[..rest.len()].copy_from_slice(rest);
    }
    /// Of all.
    pub fn end(mut self) -> u64 {
        self.word[(self.length % 8) as usize..].fill(0);
        self.mix(u64::from_le_bytes(self.word));
        self.mix(self.length);
        self.hash
    }
    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(29);
    }
}

/// Writes, and sums up what.
struct Summed<W> {
    inner: W,
    sum: Sum,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.sum.add(&bytes[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However bytes come, their sum is the same, and no two of these are alike.
    #[test]
    fn sums() {
        let bytes: Vec<u8> = (0..40).collect();
        let of = |parts: &[&[u8]]| {
            let mut sum = Sum::default();
            parts.iter().for_each(|part| sum.add(part));
            sum.end()
        };
        for n in 0..40 {
            for at in 0..=n {
                assert_eq!(of(&[&bytes[..at], &bytes[at..n]]), of(&[&bytes[..n]]), "{n} at {at}");
            }
            assert_ne!(of(&[&bytes[..n]]), of(&[&bytes[..n], &[0]]));
        }
    }
}
