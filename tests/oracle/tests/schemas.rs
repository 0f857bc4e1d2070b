//! Random schemas under models that always prefer the worst token: what they finish is valid, by
//! the crate `jsonschema`, and they finish: where a form has no bound, as soon as the model likes. Multiples are whole here: the judge divides doubles.
use rinfer_grammar::{Constraint, Grammar, GrammarError, Matcher, Spacing, Token, Vocabulary};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const END: u32 = 256;

fn bytes() -> Vocabulary {
    let mut tokens: Vec<Token> = (0..=255).map(|b| Token::Text(vec![b])).collect();
    tokens.push(Token::Control("<end>".to_owned()));
    let tokenise = Arc::new(|text: &str| text.bytes().map(u32::from).collect());
    Vocabulary::new(&tokens, &[END], tokenise).unwrap()
}

/// Numbers that look random (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

fn number(r: &mut Random) -> Value {
    match r.below(4) {
        0 => json!(r.below(30) as i64 - 15),
        1 => json!((r.below(4000) as f64 - 2000.0) / 100.0),
        2 => json!(10i64.pow(r.below(12) as u32) * if r.below(2) == 0 { 1 } else { -1 }),
        _ => json!((r.next() >> r.below(63)) as i64),
    }
}

fn schema(r: &mut Random, depth: u64) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| map.insert(key.to_owned(), value);
    match r.below(if depth == 0 { 6 } else { 11 }) {
        0 => drop(set(
            "enum",
            json!([r.one(&["a", "é\"", "\\\n", ""]), r.below(5), null, [1, {"k": "v"}], {"z": 1, "a": []}]),
        )),
        1 => drop(set(
            "const",
            r.one(&[json!("x\u{1}"), json!(1.5), json!(false), json!({"b": [null]})]),
        )),
        2 | 3 => {
            set("type", r.one(&[json!("integer"), json!("number"), json!(["integer", "null"])]));
            if r.below(2) == 0 {
                set(r.one(&["minimum", "exclusiveMinimum"]), number(r));
            }
            if r.below(2) == 0 {
                set(r.one(&["maximum", "exclusiveMaximum"]), number(r));
            }
            if r.below(3) == 0 {
                set(
                    "multipleOf",
                    r.one(&[json!(1), json!(2), json!(3), json!(7), json!(10), json!(25)]),
                );
            }
        }
        4 | 5 => {
            set("type", json!("string"));
            let min = r.below(4);
            set("minLength", json!(min));
            set("maxLength", json!(min + r.below(6)));
            match r.below(4) {
                0 => drop(set(
                    "pattern",
                    json!(r.one(&[
                        "^[a-c\"]+$",
                        "\\d",
                        "^a|b$",
                        "\\d\\D",
                        "^[^x]*$",
                        "[\\n\\\\]",
                        "(ab)?c"
                    ])),
                )),
                1 => {
                    set(
                        "format",
                        json!(r.one(&[
                            "date",
                            "time",
                            "date-time",
                            "uuid",
                            "ipv4",
                            "ipv6",
                            "duration",
                            "email",
                            "hostname"
                        ])),
                    );
                    set("minLength", json!(0));
                    set("maxLength", json!(60));
                }
                _ => {}
            }
        }
        6 => {
            set("type", json!("array"));
            if r.below(4) == 0 {
                let values = [json!([true, 2, "x", null]), json!(["a", "b", 3, 4.5, false])];
                set("items", json!({"enum": r.one(&values)}));
                set("uniqueItems", json!(true));
                set("minItems", json!(r.below(4)));
                return map.into();
            }
            if r.below(4) == 0 {
                set("contains", schema(r, 0));
                set("minContains", json!(1 + r.below(2)));
            }
            if r.below(2) == 0 {
                set("prefixItems", json!([schema(r, depth - 1), schema(r, depth - 1)]));
            }
            set("items", schema(r, depth - 1));
            let min = r.below(3);
            set("minItems", json!(min));
            set("maxItems", json!(min + r.below(3)));
        }
        7 | 8 => {
            set("type", json!("object"));
            let names = ["a", "b\"c", "ü", "xx", "d"];
            let count = r.below(5) as usize;
            let named: Map<String, Value> =
                names[..count].iter().map(|n| ((*n).to_owned(), schema(r, depth - 1))).collect();
            set("properties", named.into());
            let required: Vec<&str> = names.iter().copied().filter(|_| r.below(3) == 0).collect();
            set("required", json!(required));
            if r.below(3) == 0 {
                set(
                    "patternProperties",
                    json!({"^x": schema(r, depth - 1), "y$": {"type": "null"}}),
                );
            }
            if r.below(2) == 0 {
                set("additionalProperties", json!(false));
            } else {
                set("additionalProperties", schema(r, depth - 1));
                set("propertyNames", json!({"maxLength": 4}));
            }
            set("maxProperties", json!(required.len() as u64 + r.below(4)));
            if r.below(4) == 0 {
                set("minProperties", json!(r.below(4)));
            }
            if r.below(5) == 0 {
                set("dependentRequired", json!({"a": ["d"]}));
            }
        }
        9 => drop(set(
            r.one(&["anyOf", "anyOf", "oneOf"]),
            json!([schema(r, depth - 1), schema(r, depth - 1)]),
        )),
        _ => match r.below(4) {
            3 => {
                let case = json!([
                    {"properties": {"a": {"const": 1}}, "required": ["a"]},
                    {"properties": {"a": {"type": "string"}, "d": {"minimum": 0}}},
                    {"required": ["a", "xx"]}, {"maxLength": 2}, {"minimum": 0}, {"pattern": "a"},
                    {"prefixItems": [{"type": "null"}]}, {"type": ["string", "null"]}
                ]);
                set("if", r.one(case.as_array().unwrap()));
                set("then", schema(r, depth - 1));
                set("else", schema(r, depth - 1));
            }
            0 => drop(set("allOf", json!([schema(r, depth - 1), schema(r, depth - 1)]))),
            1 => drop(set("$ref", json!(r.one(&["#/$defs/one", "#/$defs/two"])))),
            _ => {
                set(
                    "not",
                    r.one(&[
                        json!({"type": "null"}),
                        json!({"enum": ["a", ""]}),
                        json!({"required": ["a"]}),
                        json!({"required": ["a", "d"]}),
                        json!({"properties": {"a": {"type": ["null", "integer"]}}}),
                        json!({"minLength": 1, "maxLength": 3}),
                        json!({"pattern": "^a|b"}),
                        json!({"minItems": 1}),
                        json!({"minimum": 0, "exclusiveMaximum": 7.5}),
                        json!({"prefixItems": [true, {"type": "string"}]}),
                    ]),
                );
                set("anyOf", json!([schema(r, depth - 1), schema(r, depth - 1)]));
            }
        },
    }
    map.into()
}

/// What a model writes that likes tokens by `rank`, the lowest best. After `most` of them it would
/// rather be done; the second value tells whether it was.
fn written(
    matcher: &Matcher,
    most: usize,
    rank: &mut dyn FnMut(usize, u32) -> u64,
    schema: &Value,
) -> (Vec<u8>, bool) {
    let mut matcher = matcher.clone();
    let mut out = Vec::new();
    while !matcher.over() {
        let ids = matcher.next_ids();
        let ids = ids
            .unwrap_or_else(|e| panic!("{e} after {} of {schema}", String::from_utf8_lossy(&out)));
        let at = out.len();
        assert!(at < 5 * most, "{schema} can't be ended: {}", String::from_utf8_lossy(&out));
        let id = ids
            .into_iter()
            .min_by_key(|id| if at < most { rank(at, *id) } else { done(&out, *id) });
        let id = id.expect("a token may come");
        if id == END {
            break;
        }
        out.push(id as u8);
        matcher.accept(id).unwrap();
    }
    let waited = out.len() > most;
    (out, waited)
}

/// Likes what closes, and never another item; in strings by turns their ends, what the patterns ask for,
/// or anything.
fn done(out: &[u8], id: u32) -> u64 {
    let at = out.len();
    let any = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ u64::from(id).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let within = out.iter().fold((false, false), |(within, escaped), byte| match byte {
        _ if escaped => (within, false),
        b'\\' => (within, true),
        b'"' => (!within, false),
        _ => (within, false),
    });
    match u8::try_from(id) {
        _ if id == END => 0,
        Ok(b'}' | b']') if !within.0 => 1,
        Ok(byte) if within.0 && at % 2 == 1 && byte == b"y1ac"[at / 2 % 4] => 1,
        Ok(b'"') => 2,
        Ok(b',') => 5000,
        Ok(b'\\') => 4000,
        _ => 10 + (any >> 40) % 1000,
    }
}

#[test]
fn adversaries_finish_what_is_valid() {
    let vocabulary = bytes();
    let mut r = Random(0x9E37_79B9_7F4A_7C15);
    let (mut taken, mut refused, mut outputs, mut endless) = (0, 0, 0, 0);
    for round in 0..1500 {
        let mut whole = schema(&mut r, 3);
        whole["$defs"] = json!({
            "one": schema(&mut r, 1),
            "two": {"type": "object", "properties": {"next": {"$ref": "#/$defs/two"}, "v": schema(&mut r, 1)},
                    "additionalProperties": false},
        });
        let spacing = if round % 2 == 0 { Spacing::Spaced } else { Spacing::Compact };
        let matcher = match Grammar::Schema(whole.clone(), spacing).compile(&vocabulary) {
            Ok(matcher) => matcher,
            Err(GrammarError::Schema { .. } | GrammarError::TooLarge(_)) => {
                refused += 1;
                continue;
            }
            Err(other) => panic!("{whole}: {other}"),
        };
        taken += 1;
        let judge = jsonschema::options().should_validate_formats(true).build(&whole).unwrap();
        let seed = r.next();
        let spread = move |at: usize, id: u32| {
            let x = (at as u64 + 1).wrapping_mul(seed | 1)
                ^ u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 7
        };
        let worst: [&mut dyn FnMut(usize, u32) -> u64; 6] = [
            &mut |_, id| u64::from(id),
            &mut |_, id| u64::from(1000 - id),
            &mut |_, id| u64::from(!b"\n \t\r\\\"".contains(&(id as u8))) * 1000 + u64::from(id),
            &mut |_, id| {
                u64::from(!(id < 256 && (id as u8).is_ascii_digit())) * 1000 + u64::from(id)
            },
            &mut |at, id| if id == END { u64::MAX } else { spread(at, id) },
            &mut |at, id| if id == END { u64::MAX } else { spread(at + 77, id) },
        ];
        for rank in worst {
            let (out, waited) = written(&matcher, 800, rank, &whole);
            outputs += 1;
            endless += usize::from(waited);
            let text = String::from_utf8(out).unwrap();
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e} of {whole}"));
            let errors: Vec<String> = judge.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{text} of {whole}: {errors:?}");
        }
    }
    println!(
        "{taken} schemas taken, {refused} refused; {outputs} outputs, {endless} without end of themselves"
    );
    assert!(taken > 600 && outputs > 8 * endless, "{taken} {outputs} {endless}");
}
