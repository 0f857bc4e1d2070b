//! The `model` of a `tokenizer.json`, read without a string for each of its hundred thousands of
//! tokens and merges.
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::ops::Range;

/// A model as the file has it.
#[derive(Default)]
pub(super) struct RawModel {
    /// All fields but the two big ones.
    pub fields: Map<String, Value>,
    pub vocab: RawVocab,
    /// Left and right of each merge, in `merge_text`.
    pub merges: Vec<(Range<usize>, Range<usize>)>,
    pub merge_text: String,
    pub has_merges: bool,
}

/// Tokens in the order of the file.
#[derive(Default)]
pub(super) struct RawVocab {
    pub text: String,
    pub tokens: Vec<(Range<usize>, Number)>,
}

/// An id where the vocabulary is a map, a score where it is a list.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Id(u32),
    Score(f64),
}

struct ModelVisitor;
struct VocabVisitor<'a>(&'a mut RawVocab);
struct EntryVisitor<'a>(&'a mut RawVocab);
struct MergesVisitor<'a>(&'a mut RawModel);
struct MergeVisitor<'a>(&'a mut RawModel);
/// Appends a string to another.
struct Text<'a>(&'a mut String);

pub(super) struct ModelSeed;

impl<'de> DeserializeSeed<'de> for ModelSeed {
    type Value = RawModel;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<RawModel, D::Error> {
        d.deserialize_map(ModelVisitor)
    }
}

impl<'de> Visitor<'de> for ModelVisitor {
    type Value = RawModel;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a model")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawModel, A::Error> {
        let mut m = RawModel::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "vocab" => {
                    m.vocab = RawVocab::default();
                    map.next_value_seed(VocabVisitor(&mut m.vocab))?;
                }
                "merges" => {
                    m.merges.clear();
                    m.has_merges = true;
                    map.next_value_seed(MergesVisitor(&mut m))?;
                }
                _ => {
                    let value = map.next_value()?;
                    m.fields.insert(key, value);
                }
            }
        }
        Ok(m)
    }
}

impl<'de> DeserializeSeed<'de> for VocabVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}
impl<'de> Visitor<'de> for VocabVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tokens to ids or a list of tokens with scores")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(range) = map.next_key_seed(Text(&mut self.0.text))? {
            let id = map.next_value()?;
            self.0.tokens.push((range, Number::Id(id)));
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(EntryVisitor(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for EntryVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_seq(self)
    }
}
impl<'de> Visitor<'de> for EntryVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token and its score")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let short = |n| A::Error::invalid_length(n, &"a token and its score");
        let range = seq.next_element_seed(Text(&mut self.0.text))?.ok_or_else(|| short(0))?;
        let score = seq.next_element()?.ok_or_else(|| short(1))?;
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(short(3));
        }
        self.0.tokens.push((range, Number::Score(score)));
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for MergesVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_seq(self)
    }
}
impl<'de> Visitor<'de> for MergesVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(MergeVisitor(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for MergeVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}
impl<'de> Visitor<'de> for MergeVisitor<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge: \"a b\" or [\"a\", \"b\"]")
    }
    fn visit_str<E: Error>(self, s: &str) -> Result<(), E> {
        if s.starts_with("#version") {
            return Ok(());
        }
        let (left, right) =
            s.split_once(' ').filter(|(_, r)| !r.contains(' ')).ok_or_else(|| {
                E::custom(format_args!("the merge {s:?} is not two tokens with a space between"))
            })?;
        let text = &mut self.0.merge_text;
        let start = text.len();
        text.push_str(left);
        let middle = text.len();
        text.push_str(right);
        self.0.merges.push((start..middle, middle..text.len()));
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let short = |n| A::Error::invalid_length(n, &"the two tokens of a merge");
        let text = &mut self.0.merge_text;
        let left = seq.next_element_seed(Text(text))?.ok_or_else(|| short(0))?;
        let right = seq.next_element_seed(Text(text))?.ok_or_else(|| short(1))?;
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(short(3));
        }
        self.0.merges.push((left, right));
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = Range<usize>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Range<usize>, D::Error> {
        d.deserialize_str(self)
    }
}
impl Visitor<'_> for Text<'_> {
    type Value = Range<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E>(self, s: &str) -> Result<Range<usize>, E> {
        let start = self.0.len();
        self.0.push_str(s);
        Ok(start..self.0.len())
    }
}
