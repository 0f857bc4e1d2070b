//! Schemas that others wrote, such as tools': what is refused in one is left out and reported, so
//! that one keyword does not take all tools away.
use crate::{Grammar, GrammarError, Matcher, Notation, Spacing, Vocabulary, schema};
use serde_json::{Value, json};

/// Most keywords that are left out of a schema. Beyond that it is any object, or any JSON.
const MOST: usize = 32;
/// Keywords whose values are schemas by name, lists of schemas, and schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SCHEMAS: [&str; 4] = ["items", "additionalItems", "additionalProperties", "propertyNames"];

impl Grammar {
    /// A schema of objects without what is refused in it: what satisfies the schema satisfies the
    /// rest. None if an object of it can't be told in these notations.
    pub fn loosened(schema: &Value, notations: &[Notation]) -> Option<Value> {
        let mut left = schema.clone();
        for _ in 0..MOST {
            match schema::objects(&left, notations) {
                Ok(_) => return Some(left),
                Err(GrammarError::Schema { path, .. }) if path.len() > 1 => {
                    if !remove(&mut left, &parts(&path)) {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let any = json!({"type": "object"});
        let free = notations.iter().all(|notation| !notation.object.named);
        (free && schema::objects(&any, notations).is_ok()).then_some(any)
    }

    /// Compiles a schema without what is refused in it, and says what that was: the answer satisfies
    /// the rest, which is never narrower than the schema.
    ///
    /// # Errors
    /// If the vocabulary can't be used.
    pub fn lenient(
        schema: &Value,
        spacing: Spacing,
        vocabulary: &Vocabulary,
    ) -> Result<(Matcher, Vec<GrammarError>), GrammarError> {
        let (mut left, mut warnings) = (schema.clone(), Vec::new());
        loop {
            let error = match Grammar::Schema(left.clone(), spacing).compile(vocabulary) {
                Ok(matcher) => return Ok((matcher, warnings)),
                Err(error @ GrammarError::Vocabulary(_)) => return Err(error),
                Err(error) => error,
            };
            let removed = match &error {
                GrammarError::Schema { path, .. } if warnings.len() < MOST => {
                    remove(&mut left, &parts(path))
                }
                _ => false,
            };
            warnings.push(error);
            if !removed {
                let object = schema.get("type").is_some_and(|t| t == "object");
                let whole = if object { Grammar::Object(spacing) } else { Grammar::Json(spacing) };
                return Ok((whole.compile(vocabulary)?, warnings));
            }
        }
    }
}

/// The names in a JSON pointer.
fn parts(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|p| p.replace("~1", "/").replace("~0", "~")).collect()
}

/// Takes the keyword that a path leads to, or into, out of its schema: what stands in a `not` would
/// be narrower without a part of it. Returns whether anything changed.
fn remove(schema: &mut Value, path: &[String]) -> bool {
    let ([keyword, after @ ..], Value::Object(map)) = (path, &mut *schema) else {
        return loosen(schema);
    };
    let is = |keywords: &[&str]| keywords.contains(&keyword.as_str());
    let inner = match (map.get_mut(keyword), after) {
        (Some(Value::Object(named)), [name, after @ ..]) if is(&MAPS) => {
            named.get_mut(name).map(|inner| (inner, after))
        }
        (Some(Value::Array(list)), [at, after @ ..]) if is(&LISTS) => {
            at.parse().ok().and_then(|at: usize| list.get_mut(at)).map(|inner| (inner, after))
        }
        (Some(inner @ Value::Object(_)), [_, ..]) if is(&SCHEMAS) => Some((inner, after)),
        _ => None,
    };
    match inner {
        Some((inner, after)) => remove(inner, after),
        None => map.shift_remove(keyword).is_some(),
    }
}

/// Leaves nothing of a schema but its type.
fn loosen(schema: &mut Value) -> bool {
    let looser = match schema.get("type") {
        Some(kind) if schema.as_object().is_some_and(|map| map.len() > 1) => json!({"type": kind}),
        _ => Value::Bool(true),
    };
    std::mem::replace(schema, looser.clone()) != looser
}
