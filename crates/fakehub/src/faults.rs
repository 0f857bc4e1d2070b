//! What a hub can do wrong.
use std::time::Duration;

/// All of it; by default nothing.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The listing is refused.
    pub listing: Option<Refusal>,
    /// Files are refused.
    pub files: Option<Refusal>,
    /// The listing is this text.
    pub raw: Option<String>,
    /// The listing has this many more files.
    pub more: usize,
    /// The listing has no sizes and digests, as some mirrors'.
    pub bare: bool,
    /// Repositories that are called otherwise now.
    pub renamed: Vec<(String, String)>,
    /// Files lie on another host: to be asked there without a token.
    pub cdn: bool,
    /// Whole files are sent, whatever the range.
    pub whole: bool,
    /// After so many requests for files, the content and its ETag are others.
    pub change: Option<u32>,
    /// A byte is another.
    pub flip: Option<At>,
    /// The connection stops sending.
    pub stall: Option<At>,
    /// The connection ends.
    pub end: Option<At>,
    /// Bytes a second on each connection.
    pub rate: Option<u64>,
    /// A redirect to this address, whatever is asked.
    pub redirect: Option<String>,
}

/// Where something goes wrong, and how often.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The byte of the file.
    pub byte: u64,
    /// How many answers it happens to.
    pub times: u32,
}

/// An answer that is none.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Its status.
    pub status: u16,
    /// `X-Error-Code`, if any.
    pub code: &'static str,
    /// `Retry-After`, if any.
    pub wait: Option<Duration>,
    /// How often it happens.
    pub times: u32,
}

impl Refusal {
    /// Always.
    pub fn always(status: u16, code: &'static str) -> Option<Refusal> {
        Some(Refusal { status, code, wait: None, times: u32::MAX })
    }
}

impl Faults {
    /// Whether the content is another by now.
    pub(crate) fn changed(&mut self) -> bool {
        match &mut self.change {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }
    /// Whether this time a refusal happens.
    pub(crate) fn refuses(refusal: &mut Option<Refusal>) -> Option<Refusal> {
        let refusal = refusal.as_mut().filter(|refusal| refusal.times > 0)?;
        refusal.times -= 1;
        Some(refusal.clone())
    }
    /// The byte at which something happens to an answer of a span, which counts.
    pub(crate) fn happens(at: &mut Option<At>, from: u64, to: u64) -> Option<u64> {
        let at = at.as_mut().filter(|at| at.times > 0 && (from..to).contains(&at.byte))?;
        at.times -= 1;
        Some(at.byte)
    }
}
