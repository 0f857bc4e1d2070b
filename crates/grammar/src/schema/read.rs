//! A place in a schema, as the shapes that its values may have. Nothing is skipped: a keyword that
//! is not read here is an annotation, or refused.
use super::document::{Document, Draft, escape};
use super::keywords::refusal;
use super::shape::{Arrays, NEVER, NOT, Objects, Places, Shape, Strings, never};
use crate::error::GrammarError;
use crate::pattern::Pattern;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::rc::Rc;

type Result<T> = std::result::Result<T, GrammarError>;
pub(super) type Schema = Map<String, Value>;

/// Most shapes of one value.
const MOST_SHAPES: usize = 256;
/// Work that a schema may take.
const FUEL: usize = 50_000;
/// Marks the place of a constant, which is no schema.
const CONSTANT: char = '=';
/// Reads places of a document.
pub struct Reader<'a> {
    pub document: Document<'a>,
    open: Vec<String>,
    fuel: usize,
    patterns: HashMap<String, Rc<Pattern>>,
}

impl<'a> Reader<'a> {
    /// Of a schema.
    ///
    /// # Errors
    /// As [`Document::new`].
    pub fn new(schema: &'a Value) -> Result<Reader<'a>> {
        let document = Document::new(schema)?;
        Ok(Reader { document, open: Vec::new(), fuel: FUEL, patterns: HashMap::new() })
    }

    /// What a value that satisfies all of `places` may look like.
    ///
    /// # Errors
    /// What is refused, with its place.
    pub fn shapes(&mut self, places: &Places) -> Result<Vec<Shape>> {
        let mut shapes = Shape::all();
        for place in places {
            let more = self.shapes_at(place)?;
            shapes = self.product(&shapes, &more, place)?;
        }
        Ok(shapes)
    }

    pub(super) fn refuse<T>(&self, at: &str, what: impl Into<String>) -> Result<T> {
        let path = format!("#{}", at.trim_start_matches([CONSTANT, NOT]));
        Err(GrammarError::Schema { path, what: what.into() })
    }

    fn spend(&mut self, work: usize) -> Result<()> {
        self.fuel = self.fuel.saturating_sub(work);
        if self.fuel > 0 {
            return Ok(());
        }
        Err(GrammarError::TooLarge("the schema has too many combinations of alternatives".into()))
    }

    pub(super) fn product(&mut self, a: &[Shape], b: &[Shape], at: &str) -> Result<Vec<Shape>> {
        self.spend(1 + a.len() * b.len() / 8)?;
        let mut all: Vec<Shape> = Vec::new();
        for x in a {
            for y in b {
                let both = x.and(y).or_else(|e| self.refuse(at, e))?;
                all.extend(both.filter(|s| !all.contains(s)));
            }
        }
        if all.len() > MOST_SHAPES {
            return Err(GrammarError::TooLarge(format!(
                "the schema's #{at} has more than {MOST_SHAPES} alternatives"
            )));
        }
        Ok(all)
    }

    pub(super) fn shapes_at(&mut self, at: &str) -> Result<Vec<Shape>> {
        self.spend(1)?;
        if at == NEVER {
            return Ok(Vec::new());
        }
        if let Some(place) = at.strip_prefix(NOT) {
            return self.complement(place);
        }
        if let Some(pointer) = at.strip_prefix(CONSTANT) {
            let Some(value) = self.document.at(pointer) else { return Ok(Vec::new()) };
            return Ok(vec![self.constant(value, pointer)?]);
        }
        if self.open.iter().any(|open| open == at) {
            return self.refuse(at, "refers to itself with nothing in between");
        }
        if self.open.len() >= 100 {
            return Err(GrammarError::TooLarge(format!(
                "the schema's #{at} is reached through more than 100 references and combinations"
            )));
        }
        match self.document.at(at) {
            Some(Value::Bool(true)) => Ok(Shape::all()),
            Some(Value::Bool(false)) => Ok(Vec::new()),
            Some(Value::Object(schema)) => {
                self.open.push(at.to_owned());
                let shapes = self.schema(schema, at);
                self.open.pop();
                shapes
            }
            _ => self.refuse(at, "a schema is an object, true or false"),
        }
    }

    fn schema(&mut self, schema: &'a Schema, at: &str) -> Result<Vec<Shape>> {
        if self.document.draft == Draft::Seven && schema.contains_key("$ref") {
            // In draft 7, what stands beside $ref is not there.
            return self.reference("$ref", &schema["$ref"], at);
        }
        for key in schema.keys() {
            if let Some(why) = refusal(key, self.document.draft) {
                return self.refuse(&format!("{at}/{}", escape(key)), why);
            }
        }
        let mut shapes = self.own(schema, at)?;
        // Constants have their own order of properties.
        let constant = |(key, _): &(&String, _)| matches!(key.as_str(), "const" | "enum");
        let (first, then): (Vec<_>, Vec<_>) = schema.iter().partition(constant);
        for (key, value) in first.into_iter().chain(then) {
            let here = format!("{at}/{key}");
            let more = match key.as_str() {
                "const" => vec![self.constant(value, &here)?],
                "enum" => self.constants(value, &here)?,
                "$ref" | "$dynamicRef" => self.reference(key, value, at)?,
                "allOf" => {
                    for i in 0..self.list(value, &here)?.len() {
                        let more = self.shapes_at(&format!("{here}/{i}"))?;
                        shapes = self.product(&shapes, &more, &here)?;
                    }
                    continue;
                }
                "anyOf" => self.any_of(value, &here)?,
                "oneOf" => self.one_of(value, &here)?,
                "not" => self.complement(&here)?,
                "if" => self.cases(schema, at)?,
                "dependentRequired" | "dependentSchemas" | "dependencies" => {
                    shapes = self.dependent(value, &here, shapes)?;
                    continue;
                }
                _ => continue,
            };
            shapes = self.product(&shapes, &more, &here)?;
        }
        self.unevaluated(schema, at, shapes)
    }

    fn reference(&mut self, key: &str, reference: &Value, at: &str) -> Result<Vec<Shape>> {
        let here = format!("{at}/{key}");
        let Some(text) = reference.as_str() else { return self.refuse(&here, "is no string") };
        let target = match key {
            "$ref" => self.document.resolve(at, text),
            _ => self.document.resolve_dynamic(at, text),
        };
        match target {
            Ok(target) => self.shapes_at(&target),
            Err(why) => self.refuse(&here, why),
        }
    }

    pub(super) fn union(&mut self, value: &Value, at: &str) -> Result<Vec<Vec<Shape>>> {
        let count = self.list(value, at)?.len();
        (0..count).map(|i| self.shapes_at(&format!("{at}/{i}"))).collect()
    }

    pub(super) fn some_live(&mut self, shapes: &[Shape], depth: usize) -> Result<bool> {
        for shape in shapes {
            if !self.dead(shape, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether no value has this shape, as far as is looked.
    fn dead(&mut self, shape: &Shape, depth: usize) -> Result<bool> {
        if depth == 0 {
            return Ok(false);
        }
        let inner: Vec<Places> = match shape {
            Shape::Array(a) => {
                let at = |i: usize| a.prefix.get(i).unwrap_or(&a.rest).clone();
                (0..(a.min as usize).min(a.prefix.len() + 1)).map(at).collect()
            }
            Shape::Object(o) => {
                let places = o.required.iter().map(|name| o.places(name));
                places.collect::<std::result::Result<_, _>>().or_else(|e| self.refuse("", e))?
            }
            _ => return Ok(false),
        };
        for places in inner {
            let shapes = self.shapes_unopened(&places)?;
            if !self.some_live(&shapes, depth - 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Shapes of what lies inside: a step down, where coming back to an open place is no circle.
    fn shapes_unopened(&mut self, places: &Places) -> Result<Vec<Shape>> {
        let open = std::mem::take(&mut self.open);
        let shapes = self.shapes(places);
        self.open = open;
        shapes
    }

    /// Objects without a property, and those with it that satisfy more.
    fn dependent(&mut self, value: &Value, at: &str, shapes: Vec<Shape>) -> Result<Vec<Shape>> {
        let Some(map) = value.as_object() else { return self.refuse(at, "is no object") };
        let mut shapes = shapes;
        for (name, needs) in map {
            let here = format!("{at}/{}", escape(name));
            let mut with = Objects { required: vec![name.clone()], ..Objects::default() };
            let more = match needs {
                Value::Array(_) if !at.ends_with("dependentSchemas") => {
                    for other in self.strings(needs, &here)? {
                        if !with.required.contains(&other) {
                            with.required.push(other);
                        }
                    }
                    vec![Shape::Object(with)]
                }
                _ if !at.ends_with("dependentRequired") => {
                    let inner = self.shapes_at(&here)?;
                    self.product(&[Shape::Object(with)], &inner, &here)?
                }
                _ => return self.refuse(&here, "is no list of names"),
            };
            let mut options: Vec<Shape> =
                Shape::all().into_iter().filter(|s| !matches!(s, Shape::Object(_))).collect();
            options.push(Shape::Object(without(name)));
            options.extend(more);
            shapes = self.product(&shapes, &options, &here)?;
        }
        Ok(shapes)
    }

    fn constants(&mut self, value: &Value, at: &str) -> Result<Vec<Shape>> {
        let mut strings = Vec::new();
        let mut shapes: Vec<Shape> = Vec::new();
        for (i, value) in self.list(value, at)?.iter().enumerate() {
            match value {
                Value::String(s) => strings.push(s.clone()),
                _ => shapes.push(self.constant(value, &format!("{at}/{i}"))?),
            }
        }
        if !strings.is_empty() {
            shapes.push(Shape::String(Strings::one_of(strings)));
        }
        Ok(shapes)
    }

    fn constant(&mut self, value: &Value, at: &str) -> Result<Shape> {
        let inside = |part: &str| Places::from([Rc::from(format!("{CONSTANT}{at}/{part}"))]);
        Ok(match value {
            Value::Null => Shape::Null,
            Value::Bool(b) => Shape::Bool(*b),
            Value::String(s) => Shape::String(Strings::one_of(vec![s.clone()])),
            Value::Number(n) => {
                let n = super::number::Decimal::new(n).or_else(|e| self.refuse(at, e))?;
                Shape::Number(super::number::Numbers::one(n))
            }
            Value::Array(items) => {
                let prefix = (0..items.len()).map(|i| inside(&i.to_string())).collect();
                let count = items.len() as u64;
                let (min, max) = (count, Some(count));
                Shape::Array(Arrays { prefix, rest: never(), min, max, ..Arrays::default() })
            }
            Value::Object(map) => {
                let named = map.keys().map(|k| (k.clone(), inside(&escape(k)))).collect();
                let required = map.keys().cloned().collect();
                let other = Vec::new();
                Shape::Object(Objects { named, required, other, ..Objects::default() })
            }
        })
    }

    pub(super) fn list<'v>(&self, value: &'v Value, at: &str) -> Result<&'v [Value]> {
        match value {
            Value::Array(items) => Ok(items),
            _ => self.refuse(at, "is no list"),
        }
    }

    pub(super) fn strings(&self, value: &Value, at: &str) -> Result<Vec<String>> {
        let items = self.list(value, at)?.iter();
        let strings: Option<Vec<String>> = items.map(|v| v.as_str().map(str::to_owned)).collect();
        strings.map_or_else(|| self.refuse(at, "is no list of strings"), Ok)
    }

    pub(super) fn pattern(&mut self, source: &str, at: &str) -> Result<Rc<Pattern>> {
        if let Some(known) = self.patterns.get(source) {
            return Ok(known.clone());
        }
        let quote = |e| format!("{:?}: {e}", crate::error::short(source));
        let pattern = Pattern::new(source).or_else(|e| self.refuse(at, quote(e)))?;
        let search = pattern.whole(crate::pattern::Spelling::Plain, true);
        search.or_else(|e| self.refuse(at, quote(e)))?;
        let pattern = Rc::new(pattern);
        self.patterns.insert(source.to_owned(), pattern.clone());
        Ok(pattern)
    }

    /// The place of a schema, or none if it allows anything.
    pub(super) fn place(&self, at: String) -> Places {
        match self.document.at(&at) {
            Some(Value::Bool(true)) => Places::new(),
            Some(Value::Bool(false)) => never(),
            Some(Value::Object(schema)) if schema.is_empty() => Places::new(),
            _ => Places::from([Rc::from(at)]),
        }
    }
}

/// Objects without a property.
pub(super) fn without(name: &str) -> Objects {
    Objects { named: vec![(name.to_owned(), never())], ..Objects::default() }
}
