//! What becomes of each keyword.
use super::document::Draft;

/// What becomes of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Every output keeps it.
    Kept,
    /// Kept where it can be; refused, by path, where not. The words say when.
    Partly(&'static str),
    /// Says nothing about which values are valid.
    Annotation,
    /// Refused, by path. The words say what to do instead.
    Refused(&'static str),
}

use Fate::{Annotation, Kept, Partly, Refused};

/// Keywords of draft 2020-12 and of draft 7, in the order of the document that lists them.
pub const KEYWORDS: [(&str, Fate); 61] = [
    ("$schema", Partly("draft 2020-12 and draft 7")),
    ("$id", Kept),
    ("$anchor", Kept),
    ("$defs", Kept),
    ("definitions", Kept),
    ("$ref", Partly("places in the same document, by pointer, anchor or $id; nothing is fetched")),
    ("$dynamicAnchor", Kept),
    ("$dynamicRef", Partly("where one schema has the $dynamicAnchor")),
    ("$recursiveRef", Refused("use $ref")),
    ("$vocabulary", Refused("the standard vocabulary is used")),
    ("type", Kept),
    ("enum", Kept),
    ("const", Kept),
    ("allOf", Kept),
    ("anyOf", Kept),
    (
        "oneOf",
        Partly("where its schemas are disjoint, or what two share can be left out, as of `not`"),
    ),
    (
        "not",
        Partly(
            "not of integers among numbers, multipleOf, items, and limits on names of properties",
        ),
    ),
    ("if", Partly("where `not` of it is supported")),
    ("then", Kept),
    ("else", Kept),
    ("dependentRequired", Kept),
    ("dependentSchemas", Kept),
    ("dependencies", Partly("in draft 7")),
    ("minimum", Partly("bounds of 64 bits and 18 decimals")),
    ("maximum", Partly("bounds of 64 bits and 18 decimals")),
    ("exclusiveMinimum", Partly("bounds of 64 bits and 18 decimals")),
    ("exclusiveMaximum", Partly("bounds of 64 bits and 18 decimals")),
    (
        "multipleOf",
        Partly(
            "whole numbers up to 4096, zeros after a divisor of 1000, fractions that divide a power of ten",
        ),
    ),
    ("minLength", Kept),
    ("maxLength", Kept),
    ("pattern", Partly("without look-around, back-references and word boundaries")),
    ("format", Partly("the formats below")),
    ("items", Kept),
    ("prefixItems", Kept),
    ("additionalItems", Partly("in draft 7")),
    ("minItems", Partly("up to 10000")),
    ("maxItems", Partly("up to 10000")),
    ("contains", Partly("one of an array, where counts need at most 2000 states")),
    ("minContains", Kept),
    ("maxContains", Partly("where `not` of `contains` is supported")),
    ("uniqueItems", Partly("of up to eight constants, in any order")),
    ("unevaluatedItems", Partly("beside `anyOf` of up to four schemas, without `contains`")),
    ("properties", Kept),
    ("required", Kept),
    ("patternProperties", Partly("up to four expressions an object")),
    ("additionalProperties", Kept),
    ("minProperties", Partly("where named properties suffice")),
    ("maxProperties", Partly("up to 64")),
    ("propertyNames", Partly("of strings, without references to itself")),
    ("unevaluatedProperties", Partly("beside `anyOf` of up to four schemas")),
    ("title", Annotation),
    ("description", Annotation),
    ("default", Annotation),
    ("examples", Annotation),
    ("deprecated", Annotation),
    ("readOnly", Annotation),
    ("writeOnly", Annotation),
    ("$comment", Annotation),
    ("contentEncoding", Annotation),
    ("contentMediaType", Annotation),
    ("contentSchema", Annotation),
];

/// Keywords that one draft has and the other has not.
const ONLY: [(&str, Draft); 11] = [
    ("dependencies", Draft::Seven),
    ("additionalItems", Draft::Seven),
    ("prefixItems", Draft::Later),
    ("$anchor", Draft::Later),
    ("$dynamicAnchor", Draft::Later),
    ("dependentRequired", Draft::Later),
    ("dependentSchemas", Draft::Later),
    ("minContains", Draft::Later),
    ("maxContains", Draft::Later),
    ("unevaluatedItems", Draft::Later),
    ("unevaluatedProperties", Draft::Later),
];

/// Why a keyword is refused, if it is.
pub fn refusal(keyword: &str, draft: Draft) -> Option<String> {
    if keyword.starts_with("x-") {
        return None;
    }
    let Some((_, fate)) = KEYWORDS.iter().find(|(name, _)| *name == keyword) else {
        return Some(
            "is no keyword of JSON Schema, so it would say nothing: correct it, or leave it out \
             (names that start with x- are left alone)"
                .to_owned(),
        );
    };
    if let Some((_, only)) = ONLY.iter().find(|(name, only)| *name == keyword && *only != draft) {
        return Some(match only {
            Draft::Seven => "is of draft 7: say so in $schema, or use 2020-12's keyword".to_owned(),
            Draft::Later => "is of draft 2020-12, and $schema says draft 7".to_owned(),
        });
    }
    match fate {
        Refused(instead) => Some(format!("is not supported: {instead}")),
        _ => None,
    }
}
