//! A schema document: where its parts lie, and what its references mean.
//!
//! Every place is named by its JSON pointer. Bases and anchors are collected once, from all places
//! where a schema may stand.
use crate::error::GrammarError;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Deepest nesting of a schema.
const DEEPEST: usize = 200;
/// Most values in a schema.
const MOST: usize = 200_000;

/// The version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draft {
    Seven,
    Later,
}

/// A schema and its places.
pub struct Document<'a> {
    root: &'a Value,
    pub draft: Draft,
    /// Absolute address to the pointer of the schema that has it as `$id`.
    ids: HashMap<String, String>,
    /// Address with anchor to pointer.
    anchors: HashMap<String, String>,
    /// Those of its keys that change how others are read.
    keys: HashSet<&'static str>,
    /// How many schemas have a name as `$dynamicAnchor`.
    dynamic: HashMap<String, usize>,
    /// Pointer of a schema with `$id` to its address.
    bases: HashMap<String, String>,
}

impl<'a> Document<'a> {
    /// Checks sizes and collects names.
    ///
    /// # Errors
    /// If it is too deep or large, or of another version.
    pub fn new(root: &'a Value) -> Result<Document<'a>, GrammarError> {
        bounded(root)?;
        let mut document = Document {
            root,
            draft: draft(root)?,
            ids: HashMap::new(),
            anchors: HashMap::new(),
            keys: HashSet::new(),
            dynamic: HashMap::new(),
            bases: HashMap::new(),
        };
        document.collect(root, String::new(), String::new());
        Ok(document)
    }

    /// Whether any object in it has a key.
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// The value at a pointer.
    pub fn at(&self, pointer: &str) -> Option<&'a Value> {
        self.root.pointer(pointer)
    }

    fn collect(&mut self, value: &'a Value, pointer: String, base: String) {
        let mut base = base;
        if let Value::Object(map) = value {
            let hidden = self.draft == Draft::Seven && map.contains_key("$ref");
            if let Some(Value::String(id)) = map.get("$id")
                && !hidden
            {
                let address = join(&base, id);
                let (address, fragment) = address.split_once('#').unwrap_or((&address, ""));
                if !fragment.is_empty() {
                    self.anchors.insert(format!("{address}#{fragment}"), pointer.clone());
                } else {
                    base = address.to_owned();
                    self.ids.insert(base.clone(), pointer.clone());
                    self.bases.insert(pointer.clone(), base.clone());
                }
            }
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = map.get(key) {
                    self.anchors.insert(format!("{base}#{name}"), pointer.clone());
                }
            }
            let asking = ["unevaluatedProperties", "unevaluatedItems"];
            self.keys.extend(asking.into_iter().filter(|key| map.contains_key(*key)));
            if let Some(Value::String(name)) = map.get("$dynamicAnchor") {
                *self.dynamic.entry(name.clone()).or_default() += 1;
            }
            for (key, inner) in map.iter().filter(|(key, _)| !VALUES.contains(&key.as_str())) {
                self.collect(inner, format!("{pointer}/{}", escape(key)), base.clone());
            }
        } else if let Value::Array(items) = value {
            for (i, inner) in items.iter().enumerate() {
                self.collect(inner, format!("{pointer}/{i}"), base.clone());
            }
        }
    }

    /// The pointer that a reference at `pointer` leads to.
    ///
    /// # Errors
    /// What it refers to instead of a place in this document.
    pub fn resolve(&self, pointer: &str, reference: &str) -> Result<String, String> {
        let address = join(self.base(pointer), reference);
        let (base, fragment) = address.split_once('#').unwrap_or((&address, ""));
        let Some(fragment) = decoded(fragment) else {
            return Err(format!("{reference:?} has a broken % escape"));
        };
        let start = match self.ids.get(base) {
            Some(start) => start.as_str(),
            None if base.is_empty() => "",
            None => {
                return Err(format!(
                    "{reference:?} leads out of this schema; nothing is fetched: copy what it \
                     refers to into $defs"
                ));
            }
        };
        if fragment.is_empty() {
            return Ok(start.to_owned());
        }
        if !fragment.starts_with('/') {
            let anchor = self.anchors.get(&format!("{base}#{fragment}"));
            return anchor.cloned().ok_or_else(|| format!("no schema has the anchor {fragment:?}"));
        }
        let target = format!("{start}{fragment}");
        match self.at(&target) {
            Some(_) => Ok(target),
            None => Err(format!("{reference:?} leads to nothing")),
        }
    }

    /// The pointer that a dynamic reference leads to, wherever it is come from.
    ///
    /// # Errors
    /// As [`Document::resolve`], or that the place hangs on where it is come from.
    pub fn resolve_dynamic(&self, pointer: &str, reference: &str) -> Result<String, String> {
        let target = self.resolve(pointer, reference)?;
        let name = self.at(&target).and_then(|schema| schema.get("$dynamicAnchor")?.as_str());
        let asked = reference.split_once('#').map(|(_, fragment)| fragment);
        let count = name.filter(|name| Some(*name) == asked).and_then(|n| self.dynamic.get(n));
        match count {
            Some(2..) => Err(format!(
                "several schemas have the $dynamicAnchor {:?}: use $ref",
                name.unwrap_or_default()
            )),
            _ => Ok(target),
        }
    }

    /// The address that references at `pointer` are relative to.
    fn base(&self, pointer: &str) -> &str {
        let mut place = pointer;
        loop {
            if let Some(base) = self.bases.get(place) {
                return base;
            }
            match place.rfind('/') {
                Some(at) => place = &place[..at],
                None => return "",
            }
        }
    }
}

/// Keywords whose values are no schemas and hold none.
const VALUES: [&str; 4] = ["const", "enum", "default", "examples"];

/// A key as a part of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// `reference` as seen from `base` (RFC 3986 §5.2, for what schemas use).
fn join(base: &str, reference: &str) -> String {
    let scheme = |s: &str| {
        let name = s.split_once(':').map(|(name, _)| name);
        name.is_some_and(|n| {
            n.starts_with(|c: char| c.is_ascii_alphabetic())
                && n.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
    };
    let trimmed = |s: &str| s.strip_suffix('#').unwrap_or(s).to_owned();
    if scheme(reference) || base.is_empty() {
        return trimmed(reference);
    }
    if reference.is_empty() || reference.starts_with('#') {
        return trimmed(&format!("{base}{reference}"));
    }
    let after = base.find("://").map_or(0, |at| at + 3);
    let root = base[after..].find('/').map_or(base.len(), |at| after + at);
    if reference.starts_with('/') {
        return trimmed(&format!("{}{reference}", &base[..root]));
    }
    let folder = base.rfind('/').filter(|at| *at >= root).map_or("", |at| &base[..=at]);
    let mut path = reference;
    let mut folder = folder.to_owned();
    while let Some(rest) = path.strip_prefix("../") {
        path = rest;
        folder.pop();
        folder.truncate(folder.rfind('/').map_or(0, |at| at + 1));
    }
    trimmed(&format!("{folder}{}", path.strip_prefix("./").unwrap_or(path)))
}

fn draft(root: &Value) -> Result<Draft, GrammarError> {
    let Some(version) = root.get("$schema") else { return Ok(Draft::Later) };
    let text = version.as_str().unwrap_or_default();
    let bare = text.trim_end_matches('#').trim_start_matches("https://");
    match bare.trim_start_matches("http://") {
        "json-schema.org/draft-07/schema" => Ok(Draft::Seven),
        "json-schema.org/draft/2020-12/schema" => Ok(Draft::Later),
        _ => Err(GrammarError::Schema {
            path: "#/$schema".to_owned(),
            what: format!(
                "{version} is not supported: draft 2020-12 (https://json-schema.org/draft/2020-12/\
                 schema, also taken where $schema is missing) and draft 7 are"
            ),
        }),
    }
}

/// Walks without recursion: a deep value must not use up the stack.
fn bounded(root: &Value) -> Result<(), GrammarError> {
    let mut open = vec![(root, 1)];
    let mut seen = 0;
    while let Some((value, depth)) = open.pop() {
        seen += 1;
        if depth > DEEPEST {
            return Err(GrammarError::TooLarge(format!(
                "the schema is nested deeper than {DEEPEST} levels"
            )));
        }
        if seen > MOST {
            return Err(GrammarError::TooLarge(format!("the schema has more than {MOST} values")));
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|v| (v, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|v| (v, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}
