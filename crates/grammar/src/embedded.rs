//! JSON Schemas in Lark grammars: `%json {…}` stands for the values of a schema, which is read as all
//! schemas are here, so that nothing in it is ignored.
use crate::compound::renamed;
use crate::error::GrammarError;
use crate::schema::{self, Spacing};
use serde_json::Value;

/// What stands before a schema.
const MARK: &str = "%json";

/// The grammar with rules in the place of its schemas.
///
/// # Errors
/// What is refused of a schema, with the line it begins on.
pub(crate) fn lark(source: &str) -> Result<String, GrammarError> {
    let (mut out, mut rules, mut left, mut count) = (String::new(), String::new(), source, 0);
    while let Some(at) = found(left) {
        let after = &left[at + MARK.len()..];
        let line = source[..source.len() - after.len()].matches('\n').count() + 1;
        let wrong = |what: String| GrammarError::Grammar { kind: "Lark", line: Some(line), what };
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let schema = match values.next() {
            Some(Ok(schema)) => schema,
            Some(Err(e)) => return Err(wrong(format!("what follows {MARK} is not JSON: {e}"))),
            None => return Err(wrong(format!("nothing follows {MARK}: a JSON Schema does"))),
        };
        count += 1;
        // Without letters: rules have lower-case names, and terminals upper-case ones.
        let suffix = format!("__{count}");
        let grammar = schema::lark(&schema, Spacing::default());
        let grammar = grammar.map_err(|e| wrong(e.to_string()))?;
        rules += &renamed(&grammar, &suffix);
        out.extend([&left[..at], "start", &suffix]);
        left = &after[values.byte_offset()..];
    }
    Ok(out + left + "\n" + &rules)
}

/// Where the next schema is announced, outside of literals and comments.
fn found(source: &str) -> Option<usize> {
    let mut chars = source.char_indices();
    while let Some((at, c)) = chars.next() {
        let rest = &source[at..];
        if rest.starts_with(MARK) {
            return Some(at);
        }
        if rest.starts_with("//") || c == '#' {
            _ = chars.find(|(_, c)| *c == '\n');
        } else if c == '"' || c == '/' {
            while let Some((_, inner)) = chars.next() {
                match inner {
                    '\\' => _ = chars.next(),
                    end if end == c || end == '\n' => break,
                    _ => {}
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_become_rules_and_literals_stay() {
        let source = "start: \"%json\" a // %json\na: %json {\"const\": 1}\n | \"x\"";
        let lark = lark(source).unwrap();
        assert!(lark.starts_with("start: \"%json\" a // %json\na: start__1\n | \"x\"\n"));
        assert!(lark.contains("start__1: v0__1"), "{lark}");
    }

    #[test]
    fn what_is_refused_of_a_schema_names_its_line() {
        let of = |source: &str| lark(source).unwrap_err().to_string();
        let error = of("start: \"a\"\n | %json {\"minimal\": 1}");
        assert!(error.starts_with("the Lark grammar, line 2: the schema's #/minimal:"), "{error}");
        assert!(of("start: %json {").contains("line 1: what follows %json is not JSON"));
        assert!(of("start: %json").contains("nothing follows"));
    }
}
