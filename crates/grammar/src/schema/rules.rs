//! The rules of a schema's grammar: one for each set of places that a value must satisfy.
use super::Spacing;
use super::number::Written;
use super::read::Reader;
use super::shape::{NOT, Objects, Places, Shape, Strings};
use super::text::counts;
use crate::error::GrammarError;
use crate::pattern::{ANY_JSON, Spelling};
use std::collections::HashMap;
use std::fmt::Write;

type Result<T> = std::result::Result<T, GrammarError>;

/// Most rules of a schema.
const MOST_RULES: usize = 5_000;
/// Most bytes of a grammar.
const MOST_BYTES: usize = 4 << 20;
/// A character of a string that is nothing but a string: any spelling of one character.
const FREE: &str = concat!(
    r"(?:[^\x{0}-\x{1F}\x{22}\x{5C}]|\x{5C}(?:[\x{22}\x{5C}\x{2F}bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}",
    r"|[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\x{5C}u[dD][c-fC-F][0-9a-fA-F]{2})))"
);

/// A value: what it may be, and whether any finite value is.
pub(super) struct Rule {
    /// A place that it is for.
    at: String,
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

    fn shape_lives(&self, shape: &Shape) -> bool {
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

    /// The name of the rule for these places.
    pub(super) fn name(&self, places: &Places) -> String {
        format!("v{}", self.numbers.get(places).copied().unwrap_or_default())
    }

    /// Writes the grammar.
    ///
    /// # Errors
    /// What is too large to be written, with its place.
    pub fn lark(&self, spacing: Spacing) -> Result<String> {
        let mut out = "start: v0\n".to_owned();
        for (i, rule) in self.rules.iter().enumerate().filter(|(_, r)| r.live) {
            self.rule(i, rule, spacing, &mut out)
                .map_err(|what| GrammarError::Schema { path: rule.at.clone(), what })?;
            if out.len() > MOST_BYTES {
                return Err(GrammarError::TooLarge(format!(
                    "the schema's grammar has more than {MOST_BYTES} bytes"
                )));
            }
        }
        Ok(out)
    }

    fn rule(
        &self,
        number: usize,
        rule: &Rule,
        spacing: Spacing,
        out: &mut String,
    ) -> std::result::Result<(), String> {
        let (mut scalars, mut options) = (Vec::new(), Vec::new());
        for (i, shape) in rule.shapes.iter().enumerate().filter(|(_, s)| self.shape_lives(s)) {
            match shape {
                Shape::Null => scalars.push("\"null\"".to_owned()),
                Shape::Bool(b) => scalars.push(format!("\"{b}\"")),
                Shape::String(s) => scalars.push(string(s)?),
                Shape::Number(n) => match n.lark()? {
                    Written::Terminal(terminal) => scalars.push(terminal),
                    Written::Rule(rule) => options.push(rule),
                },
                Shape::Array(a) => {
                    let name = format!("a{number}_{i}");
                    self.array(&name, a, spacing, out)?;
                    options.push(name);
                }
                Shape::Object(o) => {
                    let name = format!("o{number}_{i}");
                    self.object(&name, o, spacing, out)?;
                    options.push(name);
                }
            }
        }
        if !scalars.is_empty() {
            let _ = writeln!(out, "S{number}: {}", scalars.join(" | "));
            options.push(format!("S{number}"));
        }
        let _ = writeln!(out, "v{number}: {}", options.join(" | "));
        Ok(())
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

/// A string as a terminal.
fn string(strings: &Strings) -> std::result::Result<String, String> {
    if let Some(values) = &strings.values {
        let all: Vec<String> = values.iter().map(|v| literal(&quoted(v))).collect();
        return Ok(all.join(" | "));
    }
    if strings.patterns.is_empty() && strings.not.is_empty() && strings.absent.is_empty() {
        let counts = counts(strings.min, strings.max)?;
        return Ok(format!(r"/\x{{22}}{FREE}{counts}\x{{22}}/"));
    }
    terminal(strings, "")
}

/// Strings in their one spelling, followed by `after`.
pub(super) fn terminal(strings: &Strings, after: &str) -> std::result::Result<String, String> {
    let tail = literal(after);
    let tail = if after.is_empty() { String::new() } else { format!(" {tail}") };
    let mut all = Vec::new();
    if let Some(values) = &strings.values {
        let values: Vec<String> = values.iter().map(|v| literal(&quoted(v))).collect();
        return Ok(format!("({}){tail}", values.join(" | ")));
    }
    for (pattern, whole) in &strings.patterns {
        let body = pattern.whole(Spelling::Json, !whole)?;
        all.push(format!(r"/\x{{22}}(?:{body})\x{{22}}/"));
    }
    if all.is_empty() || strings.min > 0 || strings.max.is_some() {
        let counts = counts(strings.min, strings.max)?;
        all.push(format!(r"/\x{{22}}{ANY_JSON}{counts}\x{{22}}/"));
    }
    for (pattern, whole) in &strings.absent {
        let body = pattern.whole(Spelling::Json, !whole)?;
        all.push(format!(r"~(/\x{{22}}(?:{body})\x{{22}}/)"));
    }
    if !strings.not.is_empty() {
        let not: Vec<String> = strings.not.iter().map(|v| literal(&quoted(v))).collect();
        all.push(format!("~({})", not.join(" | ")));
    }
    Ok(format!("({}){tail}", all.join(" & ")))
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
