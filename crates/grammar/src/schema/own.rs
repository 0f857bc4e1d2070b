//! A schema's own assertions about each type.
use super::document::{Draft, escape};
use super::format::{FLOATS, FORMATS, INTEGERS};
use super::number::{Bound, Decimal, Numbers};
use super::read::{Reader, Schema};
use super::shape::{Arrays, Contains, Keys, Objects, Places, Shape, Strings};
use crate::error::GrammarError;
use serde_json::Value;

type Result<T> = std::result::Result<T, GrammarError>;

/// Most items that are counted.
const MOST_ITEMS: u64 = 10_000;
/// Most expressions for keys of an object.
const MOST_PATTERNS: usize = 4;
const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl<'a> Reader<'a> {
    /// What the assertions that stand in the schema itself allow.
    pub(super) fn own(&mut self, schema: &'a Schema, at: &str) -> Result<Vec<Shape>> {
        let here = format!("{at}/type");
        let types: Vec<String> = match schema.get("type") {
            None => TYPES.iter().filter(|t| **t != "integer").map(|t| (*t).to_owned()).collect(),
            Some(Value::String(name)) => vec![name.clone()],
            Some(list) => self.strings(list, &here)?,
        };
        let mut shapes = Vec::new();
        for name in &types {
            match name.as_str() {
                "null" => shapes.push(Shape::Null),
                "boolean" => shapes.extend([Shape::Bool(true), Shape::Bool(false)]),
                "number" => shapes.extend(self.numbers(schema, at, false)?),
                "integer" if types.iter().any(|t| t == "number") => {}
                "integer" => shapes.extend(self.numbers(schema, at, true)?),
                "string" => shapes.extend(self.texts(schema, at)?),
                "array" => shapes.extend(self.arrays(schema, at)?),
                "object" => shapes.extend(self.objects(schema, at)?),
                _ => {
                    let what = format!("{name:?} is no type: {} are", TYPES.join(", "));
                    return self.refuse(&here, what);
                }
            }
        }
        Ok(shapes)
    }

    fn numbers(&mut self, schema: &Schema, at: &str, integer: bool) -> Result<Option<Shape>> {
        let mut all = Numbers { integer, ..Numbers::default() };
        for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"] {
            let Some(value) = schema.get(key) else { continue };
            let here = format!("{at}/{key}");
            let Value::Number(value) = value else { return self.refuse(&here, "is no number") };
            let value = Decimal::new(value).or_else(|e| self.refuse(&here, e))?;
            let bound = Some(Bound { at: value, open: key.starts_with("exclusive") });
            let one = match key {
                "minimum" | "exclusiveMinimum" => Numbers { low: bound, ..Numbers::default() },
                "maximum" | "exclusiveMaximum" => Numbers { high: bound, ..Numbers::default() },
                _ if value <= Decimal::whole(0) => return self.refuse(&here, "must be positive"),
                _ => Numbers { multiple: Some(value), ..Numbers::default() },
            };
            all = all.and(&one).or_else(|e| self.refuse(&here, e))?;
        }
        let format = schema.get("format").and_then(Value::as_str);
        if let Some((_, low, high)) = INTEGERS.iter().find(|(name, ..)| Some(*name) == format) {
            let end = |n: i128| Some(Bound { at: Decimal::whole(n), open: false });
            let range = Numbers { low: end(*low), high: end(*high), ..Numbers::default() };
            all = all.and(&range).or_else(|e| self.refuse(at, e))?;
        }
        let empty = all.is_empty().or_else(|e| self.refuse(at, e))?;
        if !empty {
            // Told where the schema says it.
            all.lark().or_else(|e| self.refuse(at, e))?;
        }
        Ok((!empty).then_some(Shape::Number(all)))
    }

    fn texts(&mut self, schema: &Schema, at: &str) -> Result<Option<Shape>> {
        let mut all = Strings {
            min: self.count(schema, at, "minLength")?.unwrap_or(0),
            max: self.count(schema, at, "maxLength")?,
            ..Strings::default()
        };
        super::text::counts(all.min, all.max).or_else(|e| self.refuse(at, e))?;
        if let Some(source) = schema.get("pattern") {
            let here = format!("{at}/pattern");
            let Some(source) = source.as_str() else { return self.refuse(&here, "is no string") };
            all.patterns.push((self.pattern(source, &here)?, false));
        }
        if let Some(format) = schema.get("format") {
            let here = format!("{at}/format");
            let name = format.as_str().unwrap_or_default();
            let integer = INTEGERS.iter().any(|(n, ..)| *n == name);
            if let Some((_, source, _)) = FORMATS.iter().find(|(n, ..)| *n == name) {
                all.patterns.push((self.pattern(source, &here)?, true));
            } else if !(integer || FLOATS.contains(&name)) {
                let known: Vec<&str> = FORMATS.iter().map(|(n, ..)| *n).collect();
                let what = format!("{format} is not supported: {} are", known.join(", "));
                return self.refuse(&here, what);
            }
        }
        let settled = all.settled().or_else(|e| self.refuse(at, e))?;
        Ok(settled.map(Shape::String))
    }

    fn arrays(&mut self, schema: &'a Schema, at: &str) -> Result<Option<Shape>> {
        let later = self.document.draft == Draft::Later;
        let listed = matches!(schema.get("items"), Some(Value::Array(_)));
        if later && listed {
            let what = "is a list, as in draft 7: say so in $schema, or use prefixItems";
            return self.refuse(&format!("{at}/items"), what);
        }
        let (prefix, rest) = match (later, listed) {
            (true, _) => ("prefixItems", "items"),
            (false, true) => ("items", "additionalItems"),
            (false, false) => ("", "items"),
        };
        let prefix = match schema.get(prefix) {
            None => Vec::new(),
            Some(list) => {
                let here = format!("{at}/{prefix}");
                let count = self.list(list, &here)?.len();
                (0..count).map(|i| self.place(format!("{here}/{i}"))).collect()
            }
        };
        let has_rest = schema.contains_key(rest);
        let rest = if has_rest { self.place(format!("{at}/{rest}")) } else { Places::new() };
        let min = self.count(schema, at, "minItems")?.unwrap_or(0);
        let max = self.count(schema, at, "maxItems")?;
        for (key, n) in [("minItems", Some(min)), ("maxItems", max)] {
            if n.is_some_and(|n| n > MOST_ITEMS) {
                return self.refuse(&format!("{at}/{key}"), format!("is above {MOST_ITEMS}"));
            }
        }
        let unique = match schema.get("uniqueItems") {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Bool(true)) => max.is_none_or(|max| max > 1),
            _ => return self.refuse(&format!("{at}/uniqueItems"), "is neither true nor false"),
        };
        let contains = self.contains(schema, at)?;
        let never = max.is_some_and(|max| max < min)
            || contains.as_ref().is_some_and(|c| c.max.is_some_and(|max| max < c.min));
        let asked = self.asked();
        let (spoken, all_spoken) = (if asked { prefix.len() } else { 0 }, asked && has_rest);
        let array = Arrays { prefix, rest, min, max, unique, contains, spoken, all_spoken };
        Ok((!never).then_some(Shape::Array(array)))
    }

    fn contains(&mut self, schema: &'a Schema, at: &str) -> Result<Option<Contains>> {
        let min = self.count(schema, at, "minContains")?.unwrap_or(1);
        let max = self.count(schema, at, "maxContains")?;
        if !schema.contains_key("contains") {
            return Ok(None);
        }
        if min == 0 && max.is_none() {
            // It allows all arrays, but unevaluatedItems would have to know what it speaks of.
            let what = "with minContains 0 is not supported where unevaluatedItems is used";
            return if self.asked() {
                self.refuse(&format!("{at}/contains"), what)
            } else {
                Ok(None)
            };
        }
        let places = self.place(format!("{at}/contains"));
        if places.len() != 1 {
            // True: all items count.
            return self.refuse(&format!("{at}/contains"), "is true: use minItems and maxItems");
        }
        Ok(Some(Contains { places, min, max }))
    }

    fn objects(&mut self, schema: &'a Schema, at: &str) -> Result<Option<Shape>> {
        let asked = self.asked();
        let mut all = Objects {
            min: self.count(schema, at, "minProperties")?.unwrap_or(0),
            max: self.count(schema, at, "maxProperties")?,
            other: self.other(schema, at)?,
            all_spoken: asked && schema.contains_key("additionalProperties"),
            ..Objects::default()
        };
        if let Some(list) = schema.get("required") {
            let names = self.strings(list, &format!("{at}/required"))?;
            for name in names {
                if !all.required.contains(&name) {
                    all.required.push(name);
                }
            }
        }
        if let Some(named) = schema.get("properties") {
            let here = format!("{at}/properties");
            let Some(named) = named.as_object() else { return self.refuse(&here, "is no object") };
            let expressions = schema.get("patternProperties").is_some();
            for name in named.keys() {
                let mut places = self.place(format!("{here}/{}", escape(name)));
                if expressions {
                    for (keys, more) in &all.other {
                        let held = keys.hold(name).or_else(|e| self.refuse(at, e))?;
                        if held && !keys.all.is_empty() {
                            places.extend(more.iter().cloned());
                        }
                    }
                }
                all.spoken.extend(asked.then(|| name.clone()));
                all.named.push((name.clone(), places));
            }
        }
        if schema.contains_key("propertyNames") {
            match self.names(&format!("{at}/propertyNames"))? {
                Some(names) => all.names.extend(names),
                None => all.max = Some(0),
            }
        }
        let need = all.min.max(all.required.len() as u64);
        Ok(all.max.is_none_or(|max| max >= need).then_some(Shape::Object(all)))
    }

    /// What keys are; `None` if no string may be one.
    fn names(&mut self, at: &str) -> Result<Option<Option<Strings>>> {
        let places = self.place(at.to_owned());
        let mut strings = self.shapes(&places)?.into_iter().filter_map(|s| match s {
            Shape::String(s) => Some(s),
            _ => None,
        });
        match (strings.next(), strings.next()) {
            (None, _) => Ok(None),
            (Some(one), None) => Ok(Some((one != Strings::default()).then_some(one))),
            _ => self.refuse(at, "has alternatives: one pattern, enum or length is supported"),
        }
    }

    /// The keys that are not named: a set for each combination of expressions that match.
    fn other(&mut self, schema: &'a Schema, at: &str) -> Result<Vec<(Keys, Places)>> {
        let mut sets = Vec::new();
        if let Some(patterns) = schema.get("patternProperties") {
            let here = format!("{at}/patternProperties");
            let Some(map) = patterns.as_object() else { return self.refuse(&here, "is no object") };
            if map.len() > MOST_PATTERNS {
                let what = format!("has {} expressions: at most {MOST_PATTERNS} are", map.len());
                return self.refuse(&here, what);
            }
            for source in map.keys() {
                let here = format!("{here}/{}", escape(source));
                sets.push((self.pattern(source, &here)?, self.place(here)));
            }
        }
        let additional = if schema.contains_key("additionalProperties") {
            self.place(format!("{at}/additionalProperties"))
        } else {
            Places::new()
        };
        let mut all = Vec::new();
        for mask in (0..1usize << sets.len()).rev() {
            let mut keys = Keys::default();
            let mut places = if mask == 0 { additional.clone() } else { Places::new() };
            for (i, (pattern, more)) in sets.iter().enumerate() {
                if mask >> i & 1 == 1 {
                    keys.all.push(pattern.clone());
                    places.extend(more.iter().cloned());
                } else {
                    keys.none.push(pattern.clone());
                }
            }
            let empty = keys.is_empty(&[], &[]).or_else(|e| self.refuse(at, e))?;
            if !empty {
                all.push((keys, places));
            }
        }
        Ok(all)
    }

    fn count(&self, schema: &Schema, at: &str, key: &str) -> Result<Option<u64>> {
        let Some(value) = schema.get(key) else { return Ok(None) };
        let whole = |f: f64| (f.fract() == 0.0 && (0.0..1e15).contains(&f)).then_some(f as u64);
        match value.as_u64().or_else(|| value.as_f64().and_then(whole)) {
            Some(n) => Ok(Some(n)),
            None => self.refuse(&format!("{at}/{key}"), format!("{value} is no count")),
        }
    }
}
