//! What the other keywords of a schema, and those that it applies, say nothing about:
//! `unevaluatedProperties` and `unevaluatedItems`.
//!
//! A shape notes which properties and items the keywords that made it speak of. So where several
//! schemas of an `anyOf` hold at once, that is a shape of its own: what they speak of together.
use super::read::{Reader, Schema};
use super::shape::{Places, Shape};
use crate::error::GrammarError;
use serde_json::Value;

type Result<T> = std::result::Result<T, GrammarError>;

const PROPERTIES: &str = "unevaluatedProperties";
const ITEMS: &str = "unevaluatedItems";
/// Most schemas whose combinations are told apart.
const MOST: usize = 4;

impl Reader<'_> {
    /// Whether what shapes speak of matters here: somewhere in the document is a keyword that asks.
    pub(super) fn asked(&self) -> bool {
        self.document.has_key(PROPERTIES) || self.document.has_key(ITEMS)
    }

    pub(super) fn any_of(&mut self, value: &Value, at: &str) -> Result<Vec<Shape>> {
        let options = self.union(value, at)?;
        if !self.asked() {
            return Ok(options.concat());
        }
        if options.len() > MOST {
            let what = format!(
                "has {} schemas, and {PROPERTIES} or {ITEMS} is used: at most {MOST} are supported then",
                options.len()
            );
            return self.refuse(at, what);
        }
        let mut all = Vec::new();
        for set in 1u32..1 << options.len() {
            let mut shapes = Shape::all();
            for (_, option) in options.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1) {
                shapes = self.product(&shapes, option, at)?;
            }
            all.extend(shapes);
        }
        Ok(all)
    }

    /// Holds what no keyword spoke of to the schemas for it.
    pub(super) fn unevaluated(
        &mut self,
        schema: &Schema,
        at: &str,
        mut shapes: Vec<Shape>,
    ) -> Result<Vec<Shape>> {
        let place = |key: &str| format!("{at}/{key}");
        if schema.contains_key(PROPERTIES) {
            let places = self.place(place(PROPERTIES));
            for shape in &mut shapes {
                if let Shape::Object(object) = shape {
                    let spoken = std::mem::take(&mut object.spoken);
                    for (name, inner) in &mut object.named {
                        if !object.all_spoken && !spoken.contains(name) {
                            inner.extend(places.iter().cloned());
                        }
                    }
                    for (keys, inner) in &mut object.other {
                        if !object.all_spoken && keys.all.is_empty() {
                            inner.extend(places.iter().cloned());
                        }
                    }
                    object.all_spoken = true;
                }
            }
        }
        if schema.contains_key(ITEMS) {
            let places: Places = self.place(place(ITEMS));
            for shape in &mut shapes {
                if let Shape::Array(array) = shape {
                    if array.contains.is_some() && !array.all_spoken {
                        return self.refuse(&place(ITEMS), "beside contains is not supported");
                    }
                    if !array.all_spoken {
                        for inner in array.prefix.iter_mut().skip(array.spoken) {
                            inner.extend(places.iter().cloned());
                        }
                        array.rest.extend(places.iter().cloned());
                    }
                    array.all_spoken = true;
                }
            }
        }
        Ok(shapes)
    }
}
