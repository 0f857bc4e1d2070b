//! Schemas that are joined: where a string or a key must be of several sets at once, each answer that is
//! begun can be finished, whatever a model likes.
#![expect(clippy::unwrap_used, reason = "tests")]
mod support;
use rinfer_grammar::{Constraint, Grammar, GrammarError, Spacing};
use serde_json::{Value, json};
use support::bytes;

const PATTERNS: [&str; 14] = [
    "^.*a.{3}$",
    "b.*c",
    "^[ab]*$",
    "^(ab|ba)+$",
    "a$",
    "^a",
    "^.{2}b",
    "[^a]{2}",
    "^(?:[a-c]{2})*$",
    "c{3}",
    "^[a-z]+-[0-9]+$",
    "(a|b)*a(a|b){6}$",
    "^\\w+$",
    "é|\"",
];

struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    fn string(&mut self) -> Value {
        let mut all: Vec<Value> = (0..1 + self.below(4))
            .map(|_| {
                let pattern = json!({"pattern": PATTERNS[self.below(PATTERNS.len())]});
                if self.below(4) == 0 { json!({"not": pattern}) } else { pattern }
            })
            .collect();
        if self.below(2) == 0 {
            let min = self.below(8);
            all.push(json!({"minLength": min, "maxLength": min + self.below(12)}));
        }
        json!({"type": "string", "allOf": all})
    }
    fn schema(&mut self) -> Value {
        match self.below(4) {
            0 | 1 => self.string(),
            2 => {
                json!({"type": "object", "propertyNames": self.string(), "minProperties": 0, "maxProperties": 2,
                "additionalProperties": {"type": "null"}})
            }
            _ => json!({"type": "object", "maxProperties": 3, "allOf": [
                {"patternProperties": {PATTERNS[self.below(PATTERNS.len())]: self.string()}},
                {"patternProperties": {PATTERNS[self.below(PATTERNS.len())]: self.string()}},
                {"additionalProperties": self.string()}]}),
        }
    }
}

#[test]
fn what_is_begun_can_be_finished() {
    let (mut r, mut taken, mut refused, mut long) = (Random(7), 0, 0, 0);
    for _ in 0..200 {
        let schema = r.schema();
        let matcher = match Grammar::Schema(schema.clone(), Spacing::Compact).compile(bytes()) {
            Ok(matcher) => matcher,
            Err(GrammarError::Schema { what, .. }) => {
                assert!(what.contains("too large together") || what.contains("no value"), "{what}");
                refused += 1;
                continue;
            }
            Err(other) => panic!("{schema}: {other}"),
        };
        taken += 1;
        for seed in 0..4 {
            let mut matcher = matcher.clone();
            let mut out = Vec::new();
            while !matcher.over() && out.len() < 60 {
                let ids = matcher.next_ids().unwrap_or_else(|e| {
                    panic!("{e} after {} of {schema}", String::from_utf8_lossy(&out))
                });
                assert!(
                    !ids.is_empty(),
                    "nothing after {} of {schema}",
                    String::from_utf8_lossy(&out)
                );
                let id = match seed {
                    0 => ids[0],
                    1 => *ids.iter().rfind(|id| **id < 256).unwrap_or(&ids[0]),
                    _ => ids[r.below(ids.len())],
                };
                if id == 256 {
                    break;
                }
                out.push(id as u8);
                matcher.accept(id).unwrap();
            }
            long += usize::from(out.len() == 60);
        }
    }
    println!("{taken} taken, {refused} refused, {long} cut");
    assert!(taken > 100);
}
