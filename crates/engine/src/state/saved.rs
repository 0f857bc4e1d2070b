//! A sequence's state as bytes: a header that says for which model, then its prompt's length and what
//! is used of its pages.
use crate::backend::Kv;
use crate::spec::ModelSpec;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"rinferKV";
const VERSION: u32 = 2;
/// Magic, version, bytes to an element, model, length, digest.
const HEADER: usize = 8 + 4 + 4 + 8 + 8 + 8;

/// What must agree for a saved state to be continued.
pub(crate) struct Header {
    model: u64,
    kv: Kv,
}

impl Header {
    /// Of states of `spec`, kept as `kv`.
    pub fn new(spec: &ModelSpec, kv: Kv) -> Header {
        Header { model: digest(format!("{spec:?}").as_bytes()), kv }
    }
    /// The saved form of `len` positions that `body` holds.
    pub fn around(&self, len: usize, body: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + body.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(code(self.kv).to_le_bytes());
        out.extend(self.model.to_le_bytes());
        out.extend((len as u64).to_le_bytes());
        out.extend(digest(&body).to_le_bytes());
        out.extend(body);
        out
    }
    /// The number of positions, and the body.
    ///
    /// # Errors
    /// What does not agree.
    pub fn check<'a>(&self, bytes: &'a [u8]) -> Result<(usize, &'a [u8]), String> {
        let short = || "the saved state is cut short".to_owned();
        let (header, body) = bytes.split_at_checked(HEADER).ok_or_else(short)?;
        let word = |at: usize| {
            let bytes = header[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        let half = |at: usize| (word(at) & 0xFFFF_FFFF) as u32;
        if header[..8] != *MAGIC {
            return Err("this is no saved state".into());
        }
        if half(8) != VERSION {
            return Err(format!("the saved state has version {}, expected {VERSION}", half(8)));
        }
        if word(16) != self.model {
            return Err("the saved state is of another model".into());
        }
        if half(12) != code(self.kv) {
            let spell =
                |code| Kv::ALL.iter().find(|kv| self::code(**kv) == code).map(|kv| kv.name());
            let (found, expected) = (spell(half(12)).unwrap_or("unknown"), self.kv.name());
            return Err(format!(
                "the saved state is of {found} keys and values, this model's of {expected}"
            ));
        }
        if word(32) != digest(body) {
            return Err("the saved state is damaged: its digest is wrong".into());
        }
        let len = usize::try_from(word(24)).map_err(|_| short())?;
        Ok((len, body))
    }
}

/// How a saved state names the precision of its keys and values.
fn code(kv: Kv) -> u32 {
    match kv {
        Kv::Q8 => 1,
        Kv::F16 => 2,
        Kv::F32 => 4,
    }
}

/// Appends what is used of a page.
pub(crate) fn read_page(page: &[u8], used: Vec<Range<usize>>, out: &mut Vec<u8>) {
    for at in used {
        out.extend_from_slice(&page[at]);
    }
}

/// The opposite; the body has the length that its pages need.
pub(crate) fn write_page(page: &mut [u8], used: Vec<Range<usize>>, body: &mut Reader<'_>) {
    for at in used {
        let part = body.take(at.len());
        page[at].copy_from_slice(part);
    }
}

/// Bytes not yet read.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// A number of eight.
    pub fn number(&mut self) -> Option<usize> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    }
    /// A number of four bytes, which are there.
    pub fn float(&mut self) -> f32 {
        f32::from_le_bytes(self.take(4).try_into().unwrap_or_default())
    }
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (part, rest) = self.0.split_at(n);
        self.0 = rest;
        part
    }
}

/// A 64-bit digest against accidents: FNV-1a over words.
fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|w| u64::from_le_bytes(*w));
    words.chain([bytes.len() as u64]).fold(0xCBF2_9CE4_8422_2325, |h, word| {
        (h ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(29)
    })
}
