//! What a value may look like, one type at a time: a schema is a list of shapes, of which a value
//! has one. What lies inside arrays and objects stays a list of places in the schema, so that
//! recursion ends.
use super::number::Numbers;
use crate::pattern::Pattern;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Places whose schemas a value must all satisfy, or, after [`NOT`], must not; none means anything goes.
pub type Places = BTreeSet<Rc<str>>;
/// Marks a place whose schema a value must not satisfy.
pub const NOT: char = '!';
/// The place of a schema that nothing satisfies.
pub const NEVER: &str = "\0never";

/// One kind of value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Null,
    Bool(bool),
    Number(Numbers),
    String(Strings),
    Array(Arrays),
    Object(Objects),
}

/// Strings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strings {
    /// In characters.
    pub min: u64,
    pub max: Option<u64>,
    /// All found in it, or, `whole`, all of it.
    pub patterns: Vec<(Rc<Pattern>, bool)>,
    /// If some, it is one of these.
    pub values: Option<Vec<String>>,
    /// It is none of these.
    pub not: Vec<String>,
    /// None found in it, or, `whole`, all of it.
    pub absent: Vec<(Rc<Pattern>, bool)>,
}

/// Arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrays {
    pub prefix: Vec<Places>,
    pub rest: Places,
    pub min: u64,
    pub max: Option<u64>,
    /// No two items are equal.
    pub unique: bool,
    /// How many items satisfy some places.
    pub contains: Option<Contains>,
    /// How many first items the schema's keywords speak of, and whether they speak of all.
    pub spoken: usize,
    pub all_spoken: bool,
}

/// At least `min` and at most `max` items that satisfy `places`.
#[derive(Debug, Clone, PartialEq)]
pub struct Contains {
    pub places: Places,
    pub min: u64,
    pub max: Option<u64>,
}

/// Keys that match some expressions and do not match others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys {
    pub all: Vec<Rc<Pattern>>,
    pub none: Vec<Rc<Pattern>>,
}

/// Objects. Properties come in the order in which the schema names them.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    pub named: Vec<(String, Places)>,
    pub required: Vec<String>,
    /// Other keys: disjoint sets that cover all.
    pub other: Vec<(Keys, Places)>,
    /// What all keys are.
    pub names: Vec<Strings>,
    pub min: u64,
    pub max: Option<u64>,
    /// The named properties that the schema's keywords speak of, and whether they speak of all.
    pub spoken: Vec<String>,
    pub all_spoken: bool,
}

impl Default for Objects {
    fn default() -> Objects {
        Objects {
            named: Vec::new(),
            required: Vec::new(),
            other: vec![(Keys::default(), Places::new())],
            names: Vec::new(),
            min: 0,
            max: None,
            spoken: Vec::new(),
            all_spoken: false,
        }
    }
}

/// What does not satisfy the schema at a place.
pub fn opposite(place: &str) -> Places {
    match place.strip_prefix(NOT) {
        Some(inner) => Places::from([Rc::from(inner)]),
        None => Places::from([Rc::from(format!("{NOT}{place}"))]),
    }
}

/// The place that nothing satisfies.
pub fn never() -> Places {
    Places::from([Rc::from(NEVER)])
}

pub fn both(a: &Places, b: &Places) -> Places {
    a.union(b).cloned().collect()
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

impl Shape {
    /// All kinds, unrestricted.
    pub fn all() -> Vec<Shape> {
        vec![
            Shape::Null,
            Shape::Bool(true),
            Shape::Bool(false),
            Shape::Number(Numbers::default()),
            Shape::String(Strings::default()),
            Shape::Array(Arrays::default()),
            Shape::Object(Objects::default()),
        ]
    }

    /// Values of both shapes, if there may be any.
    ///
    /// # Errors
    /// If the result is out of range.
    pub fn and(&self, other: &Shape) -> Result<Option<Shape>, String> {
        Ok(match (self, other) {
            (Shape::Null, Shape::Null) => Some(Shape::Null),
            (Shape::Bool(a), Shape::Bool(b)) if a == b => Some(Shape::Bool(*a)),
            (Shape::Number(a), Shape::Number(b)) => {
                let both = a.and(b)?;
                if both.is_empty()? { None } else { Some(Shape::Number(both)) }
            }
            (Shape::String(a), Shape::String(b)) => a.and(b)?.map(Shape::String),
            (Shape::Array(a), Shape::Array(b)) => a.and(b)?.map(Shape::Array),
            (Shape::Object(a), Shape::Object(b)) => a.and(b)?.map(Shape::Object),
            _ => None,
        })
    }
}

impl Strings {
    /// One of some strings.
    pub fn one_of(values: Vec<String>) -> Strings {
        Strings { values: Some(values), ..Strings::default() }
    }

    /// Strings that are in both sets.
    ///
    /// # Errors
    /// As [`Strings::settled`].
    pub fn and(&self, other: &Strings) -> Result<Option<Strings>, String> {
        let values = match (&self.values, &other.values) {
            (Some(a), Some(b)) => Some(a.iter().filter(|v| b.contains(v)).cloned().collect()),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let mut patterns = self.patterns.clone();
        patterns.extend(other.patterns.iter().filter(|p| !self.patterns.contains(p)).cloned());
        let mut not = self.not.clone();
        not.extend(other.not.iter().filter(|v| !self.not.contains(v)).cloned());
        let mut absent = self.absent.clone();
        absent.extend(other.absent.iter().filter(|p| !self.absent.contains(p)).cloned());
        let (min, max) = (self.min.max(other.min), least(self.max, other.max));
        Strings { min, max, patterns, values, not, absent }.settled()
    }
}

impl Arrays {
    fn and(&self, other: &Arrays) -> Result<Option<Arrays>, String> {
        let contains = match (&self.contains, &other.contains) {
            (Some(a), Some(b)) if a != b => return Err("several contains of one array".to_owned()),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let unique = self.unique || other.unique;
        let count = self.prefix.len().max(other.prefix.len());
        let at = |a: &Arrays, i: usize| a.prefix.get(i).unwrap_or(&a.rest).clone();
        let prefix = (0..count).map(|i| both(&at(self, i), &at(other, i))).collect();
        let max = least(self.max, other.max);
        let min = self.min.max(other.min);
        let rest = both(&self.rest, &other.rest);
        let (spoken, all_spoken) =
            (self.spoken.max(other.spoken), self.all_spoken || other.all_spoken);
        let both = Arrays { prefix, rest, min, max, unique, contains, spoken, all_spoken };
        Ok((max.is_none_or(|max| max >= min)).then_some(both))
    }
}

impl Objects {
    /// What a property of this name must be.
    ///
    /// # Errors
    /// If an expression is too large to be tried.
    pub fn places(&self, key: &str) -> Result<Places, String> {
        if let Some((_, places)) = self.named.iter().find(|(name, _)| name == key) {
            return Ok(places.clone());
        }
        for (keys, places) in &self.other {
            if keys.hold(key)? {
                return Ok(places.clone());
            }
        }
        Ok(never())
    }

    /// Whether one of its expressions matches a name that it does not list.
    fn matched(&self, key: &str) -> Result<bool, String> {
        for (keys, _) in self.other.iter().filter(|(keys, _)| !keys.all.is_empty()) {
            if keys.hold(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn and(&self, other: &Objects) -> Result<Option<Objects>, String> {
        let mut named = Vec::new();
        for (name, places) in &self.named {
            named.push((name.clone(), both(places, &other.places(name)?)));
        }
        for (name, places) in &other.named {
            if !self.named.iter().any(|(n, _)| n == name) {
                named.push((name.clone(), both(places, &self.places(name)?)));
            }
        }
        let mut required = self.required.clone();
        required.extend(other.required.iter().filter(|n| !self.required.contains(n)).cloned());
        let mut rest = Vec::new();
        for (a, in_a) in &self.other {
            for (b, in_b) in &other.other {
                if let Some(keys) = a.and(b)? {
                    rest.push((keys, both(in_a, in_b)));
                }
            }
        }
        if rest.len() > 16 {
            return Err("more than 16 kinds of keys, of several patternProperties".to_owned());
        }
        let mut names = self.names.clone();
        names.extend(other.names.iter().filter(|n| !self.names.contains(n)).cloned());
        let (min, max) = (self.min.max(other.min), least(self.max, other.max));
        let fits = max.is_none_or(|max| max >= min && max >= required.len() as u64);
        let mut spoken = self.spoken.clone();
        spoken.extend(other.spoken.iter().filter(|n| !self.spoken.contains(n)).cloned());
        for (name, _) in &named {
            if !spoken.contains(name) && (self.matched(name)? || other.matched(name)?) {
                spoken.push(name.clone());
            }
        }
        let all_spoken = self.all_spoken || other.all_spoken;
        let other = rest;
        let both = Objects { named, required, other, names, min, max, spoken, all_spoken };
        Ok(fits.then_some(both))
    }
}
