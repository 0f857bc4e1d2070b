//! What can be wrong with a checkpoint, one variant a cause.
use crate::bundle::Bundle;
use std::fmt;
use std::path::Path;

/// A checkpoint that can't be read: which file, and why.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {cause}")]
pub struct Error {
    /// The file, or the folder.
    pub file: String,
    /// Why.
    pub cause: Box<Cause>,
}

impl Error {
    /// `cause` in the file at `path`.
    pub fn at(path: &Path, cause: Cause) -> Error {
        Error { file: path.display().to_string(), cause: Box::new(cause) }
    }
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Cause {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A folder, pipe or device where a file must be.
    #[error("not a regular file; give the path of a .gguf file or of a model's folder")]
    NotAFile,
    /// A file of another kind.
    #[error("not a GGUF file: it looks like {looks}; {}", looks.advice())]
    NotGguf { looks: Looks },
    /// A file of another kind.
    #[error("not a safetensors file: it looks like {looks}; {}", looks.advice())]
    NotSafetensors { looks: Looks },
    /// A file of another kind.
    #[error("not a bundle: it looks like {looks}; {}", looks.advice())]
    NotBundle { looks: Looks },
    /// A bundle of a version to come.
    #[error(
        "written by a newer rinfer: format {found}, this one reads up to {most}; take a newer \
         rinfer, or bundle the model again with this one"
    )]
    Newer { found: u32, most: u32 },
    /// Bytes that are not those that were written.
    #[error(
        "{what} (bytes {from} to {to}) is damaged: it is not what was written; fetch the file \
         again, or bundle the model again"
    )]
    Damaged { what: String, from: u64, to: u64 },
    /// More bytes than there must be.
    #[error(
        "the bundle ends at byte {end}, the file has {size}: something was added; fetch it again"
    )]
    Beyond { end: u64, size: u64 },
    /// A file that no system runs.
    #[error("not a program: it looks like {looks}; give a rinfer")]
    NoProgram { looks: Looks },
    /// A program without a place to note a bundle, or with several.
    #[error(
        "a program that has no model, and is no rinfer of this version that one can be put into"
    )]
    NoSlot,
    /// A program for macOS that nothing can be put into.
    #[error("the program for macOS {what}")]
    MachO { what: &'static str },
    /// A program that its system would not run.
    #[error(
        "the program would have {size} bytes, and Windows and macOS run none beyond {most}: ship \
         rinfer and a .rinf beside it (rinfer bundle MODEL -o FILE)"
    )]
    LargeProgram { size: u64, most: u64 },
    /// A GGUF for big-endian machines.
    #[error(
        "a big-endian GGUF (version {version}); fetch a little-endian one, or convert it \
         (gguf-py/gguf/scripts/gguf_convert_endian.py of llama.cpp)"
    )]
    BigEndian { version: u32 },
    /// A GGUF version other than 2 and 3.
    #[error("GGUF version {version} is not supported; versions 2 and 3 are")]
    Version { version: u32 },
    /// The file ends too early.
    #[error(
        "the file is cut short: {what} ends at byte {end}, the file has {size}; fetch it again"
    )]
    Truncated { what: String, end: u64, size: u64 },
    /// More elements than the rest of the file can hold.
    #[error(
        "{what}: {count} elements of at least {least} bytes can't be in the {left} bytes that \
         follow; the file is cut short or damaged: fetch it again"
    )]
    Count { what: String, count: u64, least: u64, left: u64 },
    /// A name or string that is not UTF-8.
    #[error("{what} is not UTF-8")]
    Utf8 { what: String },
    /// A metadata key that occurs twice.
    #[error("the metadata key '{key}' occurs twice")]
    DuplicateKey { key: String },
    /// A tensor that occurs twice.
    #[error("the tensor '{tensor}' occurs twice")]
    DuplicateTensor { tensor: String },
    /// Too many axes.
    #[error("the tensor '{tensor}' has {count} dimensions, max {max}")]
    Dimensions { tensor: String, count: u32, max: u32 },
    /// An axis of length zero in a GGUF.
    #[error("the tensor '{tensor}' has shape {shape:?}; no dimension can be 0")]
    ZeroDimension { tensor: String, shape: Vec<u64> },
    /// A size beyond 64 bits.
    #[error("the tensor '{tensor}' of shape {shape:?} is larger than any memory")]
    Overflow { tensor: String, shape: Vec<u64> },
    /// A GGUF tensor type that we can't read.
    #[error("the tensor '{tensor}' uses type id {id} ({name}), which is not supported")]
    UnknownType { tensor: String, id: u32, name: &'static str },
    /// Rows that are no whole blocks.
    #[error("the tensor '{tensor}' has rows of {width} elements; {dtype} stores blocks of {block}")]
    BlockWidth { tensor: String, width: u64, dtype: &'static str, block: usize },
    /// A tensor that starts off the grid.
    #[error("the tensor '{tensor}' starts at offset {offset}, no multiple of {alignment}")]
    Misaligned { tensor: String, offset: u64, alignment: u64 },
    /// An impossible `general.alignment`.
    #[error("general.alignment is {value}; expected a power of two of at most {max}")]
    Alignment { value: u64, max: u64 },
    /// A metadata value of no known type.
    #[error("the metadata key '{key}' has value type {id}; types 0 to 12 exist")]
    ValueType { key: String, id: u32 },
    /// Arrays nested too deep.
    #[error("the metadata key '{key}' nests arrays deeper than {max}")]
    Nesting { key: String, max: usize },
    /// A metadata key that a model must have.
    #[error("the metadata key '{key}' is missing")]
    MissingKey { key: String },
    /// A metadata value of the wrong type, or out of range.
    #[error("the metadata key '{key}' is {found}, expected {expected}")]
    WrongType { key: String, found: String, expected: &'static str },
    /// One part of a GGUF in several files.
    #[error("part {part} of a GGUF split into {count} files; open it where the others are")]
    Split { part: u64, count: u64 },
    /// One part of a GGUF in several files, under a name that does not say so.
    #[error(
        "part {part} of a GGUF split into {count} files, which are found by names like {name}; give \
         them the names that they had"
    )]
    SplitName { part: u64, count: u64, name: String },
    /// One part of a GGUF in several files, in another's place.
    #[error(
        "by its name it is {says}, by its metadata {is}; give it the name that it had, or fetch it again"
    )]
    SplitPlace { says: String, is: String },
    /// Parts of a GGUF that contradict each other.
    #[error(
        "the metadata key '{key}' has {value}, against {first}; the files are not of one model: fetch \
         them again"
    )]
    SplitKey { key: String, value: String, first: String },
    /// A safetensors header beyond our limit.
    #[error("the header has {size} bytes, more than the limit of {limit}")]
    HeaderSize { size: u64, limit: u64 },
    /// A safetensors header that is not the JSON it should be.
    #[error("the header is not valid: {0}")]
    Header(String),
    /// Offsets that are no range.
    #[error("the tensor '{tensor}' has data_offsets {found:?}, expected [begin, end]")]
    Offsets { tensor: String, found: Vec<u64> },
    /// Bytes and shape that disagree.
    #[error("the tensor '{tensor}' of shape {shape:?} needs {need} bytes and has {found}")]
    Span { tensor: String, shape: Vec<u64>, need: u64, found: u64 },
    /// Bytes that belong to no tensor.
    #[error("bytes {from} to {to} of the data belong to no tensor; the file is damaged")]
    Hole { from: u64, to: u64 },
    /// Bytes that belong to two tensors.
    #[error("the tensors '{first}' and '{second}' overlap; the file is damaged")]
    Overlap { first: String, second: String },
    /// An element type of safetensors that we can't read.
    #[error("the tensor '{tensor}' is stored as {dtype}, which is not supported")]
    UnknownDType { tensor: String, dtype: String },
    /// JSON that does not parse, or has another shape.
    #[error("not valid JSON for its purpose: {0}")]
    Json(String),
    /// A file too large to be read whole.
    #[error("the file has {size} bytes, more than the limit of {limit}")]
    FileSize { size: u64, limit: u64 },
    /// A file that the folder must have.
    #[error("the folder has no {name}, {why}; fetch the model again")]
    MissingFile { name: String, why: String },
    /// A shard's name that is no plain file name.
    #[error("the shard name {name:?} is no plain file name")]
    ShardName { name: String },
    /// A tensor that is not where the index says.
    #[error("the index puts the tensor '{tensor}' in {shard}, which does not have it")]
    NotInShard { tensor: String, shard: String },
    /// A quantised folder that is stored in a way that is not known.
    #[error("{key} is {found}; known: {known}")]
    Scheme { key: String, found: String, known: String },
    /// A quantised matrix that lacks a part.
    #[error("the tensor '{part}' is missing, which '{tensor}' needs; fetch the model again")]
    Part { tensor: String, part: String },
    /// A part of a quantised matrix that disagrees with the others.
    #[error("the tensor '{tensor}' is {found}, expected {expected}")]
    PartShape { tensor: String, found: String, expected: String },
    /// A value of a part of a quantised matrix that can't be.
    #[error("the tensor '{tensor}' has {found} at {at}, expected {expected}; the file is damaged")]
    PartValue { tensor: String, at: usize, found: i64, expected: String },
    /// A folder with no model in it.
    #[error("the folder holds no model: neither a GGUF file nor config.json with safetensors")]
    NoModel,
    /// A folder with several models in it.
    #[error("the folder holds several GGUF files ({}); give the path of one", names.join(", "))]
    SeveralModels { names: Vec<String> },
}

/// What a file's first bytes look like, when they are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum Looks {
    Empty,
    GitLfsPointer,
    Html,
    Json,
    Text,
    Zip,
    Gzip,
    Gguf,
    Bundle,
    Program,
    Safetensors,
    OldGgml,
    Unknown,
}

impl Looks {
    /// Looks at a file's bytes.
    pub fn at(bytes: &[u8]) -> Looks {
        let head = &bytes[..bytes.len().min(512)];
        let text = head.trim_ascii_start();
        let starts = |prefix: &[u8]| {
            text.len() >= prefix.len() && text[..prefix.len()].eq_ignore_ascii_case(prefix)
        };
        match head {
            [] => Looks::Empty,
            [b'G', b'G', b'U', b'F', ..] => Looks::Gguf,
            _ if Bundle::begins(head) => Looks::Bundle,
            [0x7f, b'E', b'L', b'F', ..] | [b'M', b'Z', ..] => Looks::Program,
            [0xcf, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => Looks::Program,
            // Before what is known by fewer bytes: these are a length.
            [_, _, _, _, _, 0, 0, 0, b'{', ..] => Looks::Safetensors,
            [b'P', b'K', 3 | 5 | 7, ..] => Looks::Zip,
            [0x1f, 0x8b, ..] => Looks::Gzip,
            [b't', b'j' | b'm', b'g', b'g', ..] | [b'l', b'm', b'g', b'g', ..] => Looks::OldGgml,
            _ if starts(b"version https://git-lfs") => Looks::GitLfsPointer,
            _ if starts(b"<!doctype") || starts(b"<html") || starts(b"<?xml") => Looks::Html,
            _ if starts(b"{") || starts(b"[") => Looks::Json,
            _ if head.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => {
                Looks::Text
            }
            _ => Looks::Unknown,
        }
    }
    /// What to do about it.
    fn advice(self) -> &'static str {
        match self {
            Looks::Empty => "fetch it again",
            Looks::GitLfsPointer => "fetch the file itself, with `git lfs pull` or from the hub",
            Looks::Html => {
                "the address gave a web page, perhaps one to log in: fetch the file itself"
            }
            Looks::Zip | Looks::Gzip => "unpack it, or fetch the model itself",
            Looks::Gguf => "open it as GGUF",
            Looks::Bundle => "open it as a bundle",
            Looks::Program => "give a model, or a program that rinfer put one into",
            Looks::Safetensors => "give the folder that holds it and its config.json",
            Looks::OldGgml => "fetch the model as GGUF",
            Looks::Json | Looks::Text | Looks::Unknown => {
                "give a .gguf file, or a folder with config.json and safetensors"
            }
        }
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Looks::Empty => "an empty file",
            Looks::GitLfsPointer => "a Git LFS pointer",
            Looks::Html => "a web page (HTML)",
            Looks::Json => "JSON",
            Looks::Text => "plain text",
            Looks::Zip => "a ZIP archive (or a PyTorch checkpoint)",
            Looks::Gzip => "a gzip archive",
            Looks::Gguf => "GGUF",
            Looks::Bundle => "a bundle",
            Looks::Program => "a program",
            Looks::Safetensors => "safetensors",
            Looks::OldGgml => "a GGML file from before GGUF",
            Looks::Unknown => "nothing known",
        })
    }
}
