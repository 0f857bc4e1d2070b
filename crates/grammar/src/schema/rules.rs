//! The rules of a schema's grammar: one for each set of places that a value must satisfy.
use super::read::Reader;
use super::shape::{NOT, Objects, Places, Shape, Strings};
use crate::error::GrammarError;
use std::collections::HashMap;
use std::fmt::Write;

type Result<T> = std::result::Result<T, GrammarError>;

/// Most rules of a schema.
const MOST_RULES: usize = 5_000;
/// A value: what it may be, and whether any finite value is.
pub(super) struct Rule {
    /// A place that it is for.
    pub(super) at: String,
    pub(super) shapes: Vec<Shape>,
    pub(super) live: bool,
}

/// All rules of a schema.
pub struct Rules {
    numbers: HashMap<Places, usize>,
    pub(super) rules: Vec<Rule>,
}

impl Rules {
    /// Follows a schema from its root.
    ///
    /// # Errors
    /// What is refused, or that nothing satisfies the schema.
    pub fn collect(mut reader: Reader) -> Result<Rules> {
        let root = Places::from([std::rc::Rc::from("")]);
        let mut all = Rules { numbers: HashMap::from([(root.clone(), 0)]), rules: Vec::new() };
        let mut open = vec![root];
        while all.rules.len() < open.len() {
            let places = open[all.rules.len()].clone();
            let shapes = reader.shapes(&places)?;
            for inner in shapes.iter().flat_map(inside) {
                if !all.numbers.contains_key(&inner) {
                    all.numbers.insert(inner.clone(), open.len());
                    open.push(inner);
                }
            }
            if open.len() > MOST_RULES {
                return Err(GrammarError::TooLarge(format!(
                    "the schema needs more than {MOST_RULES} rules"
                )));
            }
            let at = places.first().map_or_else(String::new, |place| {
                format!("#{}", place.trim_start_matches(['=', NOT]))
            });
            all.rules.push(Rule { at, shapes, live: false });
        }
        all.settle();
        if !all.rules[0].live {
            return reader.refuse("", "no value satisfies it");
        }
        for (rule, places) in all.rules.iter().zip(&open) {
            if let Some(why) = rule.shapes.iter().find_map(|s| all.unlisted(s)) {
                let at = places.first().map_or("", |place| place);
                return reader.refuse(&format!("{at}/uniqueItems"), why);
            }
        }
        Ok(all)
    }

    /// Finds the rules that finite values have.
    fn settle(&mut self) {
        loop {
            let found: Vec<usize> = (0..self.rules.len())
                .filter(|i| !self.rules[*i].live)
                .filter(|i| self.rules[*i].shapes.iter().any(|s| self.shape_lives(s)))
                .collect();
            if found.is_empty() {
                return;
            }
            found.into_iter().for_each(|i| self.rules[i].live = true);
        }
    }

    pub(super) fn shape_lives(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Array(a) => self.array_lives(a),
            Shape::Object(o) => self.object_lives(o),
            _ => true,
        }
    }

    /// Whether a value can satisfy these places.
    pub(super) fn lives(&self, places: &Places) -> bool {
        self.numbers.get(places).is_some_and(|i| self.rules[*i].live)
    }

    /// What values that satisfy these places look like.
    pub(super) fn shapes(&self, places: &Places) -> Option<&[Shape]> {
        self.numbers.get(places).and_then(|i| self.rules.get(*i)).map(|rule| &rule.shapes[..])
    }

    /// The number of the rule for these places.
    pub(super) fn number(&self, places: &Places) -> usize {
        self.numbers.get(places).copied().unwrap_or_default()
    }

    /// The strings of a rule, and its other shapes that live.
    pub(super) fn parted(&self, number: usize) -> (Vec<&Strings>, Vec<&Shape>) {
        let (mut strings, mut others) = (Vec::new(), Vec::new());
        for shape in self.rules[number].shapes.iter().filter(|s| self.shape_lives(s)) {
            match shape {
                Shape::String(s) => strings.push(s),
                other => others.push(other),
            }
        }
        (strings, others)
    }
}

/// Places of what lies directly inside.
fn inside(shape: &Shape) -> Vec<Places> {
    match shape {
        Shape::Array(a) => a.inside(),
        Shape::Object(o) => {
            let named = o.named.iter().map(|(_, p)| p);
            named.chain(o.other.iter().map(|(_, p)| p)).cloned().collect()
        }
        _ => Vec::new(),
    }
}

impl Objects {
    /// With every required property named.
    pub(super) fn spelled_out(mut self) -> std::result::Result<Objects, String> {
        for name in self.required.clone() {
            if !self.named.iter().any(|(n, _)| *n == name) {
                let places = self.places(&name)?;
                self.named.push((name, places));
            }
        }
        Ok(self)
    }
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text as Lark writes it.
pub(crate) fn literal(text: &str) -> String {
    let mut out = "\"".to_owned();
    let mut units = [0; 2];
    for c in text.chars() {
        match c {
            ' '..='!' | '#'..='[' | ']'..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}
