//! JSON and its schemas, byte by byte: rows J of the field's faults.
#![expect(clippy::unwrap_used, reason = "tests")]
mod support;
use rinfer_grammar::{Constraint, Grammar, GrammarError, Spacing};
use serde_json::json;
use support::{END, bytes, compact, feed, matcher, takes, written};

fn refused(schema: &str) -> (String, String) {
    match compact(&serde_json::from_str(schema).unwrap()) {
        Err(GrammarError::Schema { path, what }) => (path, what),
        Err(other) => panic!("{schema}: {other}"),
        Ok(_) => panic!("{schema} was taken"),
    }
}

#[test]
fn j1_white_space_is_bounded_and_the_end_is_forced() {
    let spaces = [b'\n', b' ', b'\t', b'\r'].map(u32::from);
    for schema in [
        json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}},
               "required": ["a"], "additionalProperties": false}),
        json!({"type": "array", "items": {"type": "boolean"}, "maxItems": 3}),
        json!({"enum": ["x", 1, null]}),
    ] {
        for spacing in [Spacing::Spaced, Spacing::Compact] {
            let matcher = Grammar::Schema(schema.clone(), spacing).compile(bytes()).unwrap();
            let mut rank = |id| u64::from(!spaces.contains(&id)) * 1000 + u64::from(id == END);
            let out = written(&matcher, 200, &mut rank).expect("it ends");
            serde_json::from_slice::<serde_json::Value>(&out).unwrap();
        }
    }
    // After the root only the end may come.
    let mut object = matcher(r#"{"const": {"a": 1}}"#);
    for byte in br#"{"a":1}"# {
        object.accept(u32::from(*byte)).unwrap();
    }
    assert!(object.over() && object.complete());
    assert_eq!(object.next_ids().unwrap(), [END]);
}

#[test]
fn j2_j3_references() {
    let schema = r##"{"$defs": {"s": {"enum": ["a", "b"]}, "t~/ %": {"const": 7}, "b": true,
            "n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}},
                  "additionalProperties": false},
            "p": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/q"}}]},
            "q": {"$ref": "#/$defs/p"}},
        "properties": {"e": {"$ref": "#/$defs/s"}, "k": {"$ref": "#/$defs/t~0~1%20%25"},
            "i": {"$ref": "#/$defs/p/anyOf/0"}, "n": {"$ref": "#/$defs/n"},
            "q": {"$ref": "#/$defs/q"}, "r": {"$ref": "#"}},
        "additionalProperties": false, "type": "object"}"##;
    let m = matcher(schema);
    for good in [
        r#"{"e":"b"}"#,
        r#"{"k":7}"#,
        r#"{"i":null}"#,
        r#"{"n":{"next":{"next":{}}}}"#,
        r#"{"q":[[null,[]]]}"#,
        r#"{"r":{"r":{"e":"a"}}}"#,
    ] {
        assert!(takes(&m, good), "{good}");
    }
    for bad in [r#"{"e":"c"}"#, r#"{"k":8}"#, r#"{"i":1}"#, r#"{"n":{"x":1}}"#, r#"{"q":[1]}"#] {
        assert!(!takes(&m, bad), "{bad}");
    }
    let (path, what) = refused(r#"{"items": {"$ref": "https://example.org/x"}}"#);
    assert_eq!(path, "#/items/$ref");
    assert!(what.contains("nothing is fetched"), "{what}");
    assert_eq!(refused(r##"{"$ref": "#/nowhere"}"##).0, "#/$ref");
    assert_eq!(refused(r##"{"$ref": "#"}"##).0, "#");
    assert_eq!(refused(r##"{"anyOf": [{"$ref": "#"}]}"##).0, "#");
}

/// Enumerations, strings, arrays and booleans behind a reference keep what they are.
#[test]
fn j2_references_to_each_type() {
    let m = matcher(
        r##"{"$defs": {"e": {"enum": ["x", "y"]}, "c": {"const": 3}, "s": {"type": "string", "maxLength": 2},
            "a": {"type": "array", "items": {"$ref": "#/$defs/e"}}, "b": {"type": "boolean"}},
        "type": "array", "prefixItems": [{"$ref": "#/$defs/e"}, {"$ref": "#/$defs/c"}, {"$ref": "#/$defs/s"},
            {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}"##,
    );
    assert!(takes(&m, r#"["x",3,"ab",["y","x"],true]"#));
    for bad in
        [r#"[{"#, r#"["z"#, r#"["x",4"#, r#"["x",3,"abc"#, r#"["x",3,"",["z"#, r#"["x",3,"",[],0"#]
    {
        assert!(feed(&m, bad.as_bytes()).0 < bad.len(), "{bad}");
    }
}

/// Strings of a bounded length are counted, not spelled out; schemas may be deep.
#[test]
fn j6_large_counts_and_depth_compile_at_once() {
    let mut deep = json!({"type": "string", "maxLength": 2000});
    for _ in 0..30 {
        deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"]});
    }
    bytes();
    for schema in [deep, json!({"properties": {"s": {"type": "string", "maxLength": 1_000_000}}})] {
        let start = std::time::Instant::now();
        compact(&schema).unwrap();
        let took = start.elapsed();
        println!("{took:?}");
        // 50 ms where the code is optimised and the machine quiet.
        assert!(took < std::time::Duration::from_secs(5), "{took:?}");
    }
}

/// What one tool's schema has too much of is left out and said; the others never hear of it.
#[test]
fn j5_what_tools_may_not_say_is_left_out() {
    let lenient = |schema: &str| {
        let schema = serde_json::from_str(schema).unwrap();
        let (matcher, warnings) = Grammar::lenient(&schema, Spacing::Compact, bytes()).unwrap();
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        (matcher, said)
    };
    let (m, said) = lenient(
        r#"{"type": "object", "properties": {"path": {"type": "string", "pattern": "^(?!/)", "maxLength": 3},
            "kinds": {"items": {"enum": ["a", "b"], "typo": 1}}, "n": {"not": {"multipleOf": 2}, "type": "integer"}},
            "additionalProperties": false}"#,
    );
    for place in
        ["#/properties/path/pattern", "#/properties/kinds/items/typo", "#/properties/n/not"]
    {
        assert!(said.iter().any(|w| w.contains(place)), "{place}: {said:?}");
    }
    assert_eq!(said.len(), 3);
    assert!(takes(&m, r#"{"path":"/a","kinds":["b"],"n":3}"#));
    for bad in [r#"{"path":"abcd"#, r#"{"kinds":["c"#, r#"{"n":"#.to_owned().as_str()] {
        let bad = if bad.ends_with(':') { format!("{bad}true") } else { bad.to_owned() };
        assert!(feed(&m, bad.as_bytes()).0 < bad.len(), "{bad}");
    }
    // Names that are keywords, a schema that is none, one that nothing satisfies, a draft of another time.
    let (m, said) = lenient(
        r##"{"type": "object", "properties": {"not": {"$recursiveRef": "#", "type": "null"}}}"##,
    );
    assert!(
        said.len() == 1 && takes(&m, r#"{"not":null}"#) && !takes(&m, r#"{"not":1}"#),
        "{said:?}"
    );
    assert!(takes(&lenient(r#"{"properties": {"a": 7}}"#).0, r#"{"a":{}}"#));
    assert!(takes(
        &lenient(r#"{"type": "object", "required": ["a"], "properties": {"a": false}}"#).0,
        "{}"
    ));
    assert_eq!(
        lenient(r#"{"$schema": "http://json-schema.org/draft-04/schema#", "type": "null"}"#)
            .1
            .len(),
        1
    );
    let many: String = (0..60).map(|i| format!("\"p{i}\": {{\"typo\": 1}},")).collect();
    let (m, said) =
        lenient(&format!("{{\"type\": \"object\", \"properties\": {{{many} \"z\": true}}}}"));
    assert!(said.len() > 30 && takes(&m, r#"{"p1":1}"#) && !takes(&m, "1"));
    assert!(lenient(r#"{"type": "integer", "minimum": 3}"#).1.is_empty());
}

#[test]
fn j5_patterns_search() {
    for (pattern, good, bad) in [
        ("\\S", "a b", "  "),
        ("[0-9]", "x1y", "xy"),
        ("^a", "ab", "ba"),
        ("b$", "ab", "ba"),
        ("^a|b$", "xb", "xbx"),
        ("^(a|bc)$", "bc", "b"),
        ("\\d{2}", "a12", "a1b2"),
        ("^.$", "é", "\n"),
        ("^[^x]\\\"$", "a\"", "x\""),
        ("^\\u00e9\\n$", "é\n", "e\n"),
        ("^$", "", "a"),
        ("", "anything", "\u{1}no"),
    ] {
        let m = compact(&json!({"type": "string", "pattern": pattern})).unwrap();
        assert!(takes(&m, &json!(good).to_string()), "{pattern} {good:?}");
        if bad != "\u{1}no" {
            assert!(!takes(&m, &json!(bad).to_string()), "{pattern} {bad:?}");
        }
    }
    for (pattern, says) in [
        ("(?=a)", "look-ahead"),
        ("(?!a)b", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(a)\\1", "back-references"),
        ("\\bword", "word boundaries"),
        ("a{5,0}", "counts down"),
        ("(", ""),
        ("x^y", "at its ends"),
    ] {
        let schema = json!({"properties": {"p": {"type": "string", "pattern": pattern}}});
        match compact(&schema) {
            Err(GrammarError::Schema { path, what }) => {
                assert_eq!(path, "#/properties/p/pattern");
                assert!(what.contains(says), "{pattern}: {what}");
            }
            other => panic!("{pattern}: {:?}", other.err()),
        }
    }
}

#[test]
fn j9_strings_are_json_at_every_byte() {
    // Each prefix of a string, and all bytes that may come next, by the standard.
    let free = matcher(r#"{"type": "string"}"#);
    let bounded = matcher(r#"{"type": "string", "maxLength": 10}"#);
    let next = |m: &rinfer_grammar::Matcher, prefix: &[u8]| -> Vec<u32> {
        let mut m = m.clone();
        prefix.iter().for_each(|b| m.accept(u32::from(*b)).unwrap());
        m.next_ids().unwrap()
    };
    let ids = |bytes: &[u8]| -> Vec<u32> {
        let mut ids: Vec<u32> = bytes.iter().map(|b| u32::from(*b)).collect();
        ids.sort_unstable();
        ids
    };
    let starts: Vec<u8> = (0x20..=0x7F).chain(0xC2..=0xF4).collect();
    let hex = b"0123456789abcdefABCDEF";
    for m in [&free, &bounded] {
        assert_eq!(next(m, b""), ids(b"\""));
        assert_eq!(next(m, b"\""), ids(&starts));
        assert_eq!(next(m, b"\"a"), ids(&starts));
        assert_eq!(next(m, b"\"\\"), ids(b"\"\\/bfnrtu"));
        assert_eq!(next(m, b"\"\\u"), ids(hex));
        assert_eq!(next(m, b"\"\\u1"), ids(hex));
        assert_eq!(next(m, b"\"\\u12"), ids(hex));
        assert_eq!(next(m, b"\"\\u123"), ids(hex));
        // No lone surrogate.
        assert_eq!(next(m, b"\"\\ud"), ids(b"0123456789abAB"));
        assert_eq!(next(m, b"\"\\ud83d"), ids(b"\\"));
        assert_eq!(next(m, b"\"\\ud83d\\u"), ids(b"dD"));
        assert_eq!(next(m, b"\"\\ud83d\\ud"), ids(b"cdefCDEF"));
        // UTF-8: nothing overlong, no surrogate, nothing beyond U+10FFFF.
        let range = |from: u8, to: u8| ids(&(from..=to).collect::<Vec<_>>());
        assert_eq!(next(m, b"\"\xC3"), range(0x80, 0xBF));
        assert_eq!(next(m, b"\"\xE0"), range(0xA0, 0xBF));
        assert_eq!(next(m, b"\"\xED"), range(0x80, 0x9F));
        assert_eq!(next(m, b"\"\xF0"), range(0x90, 0xBF));
        assert_eq!(next(m, b"\"\xF4"), range(0x80, 0x8F));
        assert_eq!(next(m, b"\"\xF0\x9F"), range(0x80, 0xBF));
        assert_eq!(next(m, b"\"a\""), [END]);
    }
}

#[test]
fn j8_lengths_count_characters_and_escapes_stay_reachable() {
    let m = matcher(r#"{"type": "string", "minLength": 2, "maxLength": 3}"#);
    for good in [r#""\n\"""#, r#""\u0001\\x""#, r#""😀é漢""#, r#""\ud83d\ude00x""#] {
        assert!(takes(&m, good), "{good}");
    }
    for bad in [r#""😀""#, r#""\ud83d\ude00""#, "\"a\tb\"", r#""abcd""#] {
        assert!(!takes(&m, bad), "{bad}");
    }
    let m = matcher(r#"{"type": "string", "pattern": "^[\\s\\S]{0,10}$", "maxLength": 10}"#);
    assert!(takes(&m, r#""a\n\t\"\\\u000123""#));
    assert!(!takes(&m, "\"a\tb\""));
}

#[test]
fn j9_what_is_no_json_is_unreachable() {
    let any = Grammar::Json(Spacing::Compact).compile(bytes()).unwrap();
    for bad in [
        "",
        "[",
        "]",
        "{",
        "[1,]",
        "[,1]",
        "[1,,2]",
        "[\"\",]",
        "[\"a\"",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{null:1}",
        "{\"a\":1,,\"b\":2}",
        "tru",
        "True",
        "nul",
        "nan",
        "NaN",
        "Infinity",
        "-",
        "-Infinity",
        "+1",
        "01",
        "-01",
        ".5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "0x1",
        "1_0",
        "1 000",
        "[1 2]",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\a\"",
        "'a'",
        "\"a\nb\"",
        "\"\u{0}\"",
        "[1]x",
        "1 ",
        " 1",
        "\u{feff}1",
        "{\"a\":1}}",
        "[[]",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "//",
        "/**/1",
        "[a",
        "{]",
        "[}",
        "\"a\"\"b\"",
        "1e5.5",
        "--1",
        "-a",
        "1ee2",
        "{\"a\":1 \"b\":2}",
        "*",
        "<a>",
    ] {
        assert!(!takes(&any, bad), "{bad:?}");
    }
    for bad in [
        &b"\"\xff\""[..],
        b"\"\xc0\xaf\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xf5\x80\x80\x80\"",
        b"\"\x80\"",
    ] {
        assert!(feed(&any, bad).0 < bad.len());
    }
    for good in [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1.5",
        "1e5",
        "1.5E-7",
        "\"\"",
        "[]",
        "{}",
        "[[],{}]",
        "{\"\":{\"a\":[1,\"x\",null]}}",
        "\"\\/\"",
        "1e259",
        "\"\u{7f}\"",
    ] {
        assert!(takes(&any, good), "{good:?}");
    }
    let object = Grammar::Object(Spacing::Spaced).compile(bytes()).unwrap();
    assert!(takes(&object, "{\"a\": 1, \"b\": [1, 2]}"));
    assert!(!takes(&object, "[]"));
}

#[test]
fn j11_properties_keep_their_order() {
    let m = matcher(
        r#"{"type": "object", "required": ["m", "extra", "z"],
            "properties": {"z": {"type": "null"}, "a": {"type": "null"}, "m": {"type": "null"}}}"#,
    );
    assert!(takes(&m, r#"{"z":null,"a":null,"m":null,"extra":1,"other":2}"#));
    assert!(takes(&m, r#"{"z":null,"m":null,"extra":1}"#));
    assert!(!takes(&m, r#"{"a":null,"z":null,"m":null,"extra":1}"#));
    assert!(!takes(&m, r#"{"z":null,"m":null,"other":2,"extra":1}"#));
    assert!(!takes(&m, r#"{"z":null,"m":null}"#));
}

#[test]
fn j13_numbers_keep_their_bounds() {
    let cases = [
        (
            json!({"type": "integer", "minimum": -3, "maximum": 12}),
            "-3 -1 0 1 9 10 12",
            "-4 13 -0 1.0 01 1e1",
        ),
        (json!({"type": "integer", "exclusiveMinimum": 0}), "1 10 99999", "0 -1"),
        (
            json!({"type": "integer", "minimum": 100}),
            "100 101 199 200 999 1000 123456",
            "99 9 0 -100",
        ),
        (json!({"type": "integer", "maximum": -10}), "-10 -11 -99 -100", "-9 0 10"),
        (
            json!({"type": "integer", "maximum": u64::MAX}),
            "18446744073709551615",
            "18446744073709551616",
        ),
        (
            json!({"type": "integer", "minimum": i64::MIN}),
            "-9223372036854775808",
            "-9223372036854775809",
        ),
        (json!({"type": "integer", "format": "uint8"}), "0 255", "256 -1"),
        (
            json!({"type": "integer", "multipleOf": 7, "minimum": -20, "maximum": 30}),
            "-14 -7 0 7 28",
            "1 -15 30 35 -0",
        ),
        (json!({"type": "integer", "multipleOf": 25}), "0 25 -50 100 1075", "5 10 1020"),
        (json!({"type": "integer", "multipleOf": 10}), "0 10 -20 100", "1 15"),
        (json!({"type": "number", "multipleOf": 0.01}), "0 1 1.5 -1.25 0.07", "1.234 0.001"),
        (json!({"type": "number", "multipleOf": 0.25}), "0 1 1.5 1.25 0.75 2.50", "1.3 0.2 0.255"),
        (json!({"type": "number", "multipleOf": 0.5}), "0 1 1.5 1.0", "1.3 1.55"),
        (
            json!({"type": "number", "minimum": 1.5, "maximum": 10.25}),
            "1.5 1.50 1.6 2 9.99 10 10.25 10.2",
            "1.4 1 1.49 10.26 10.3 11 0 -2",
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            "0.5 0.001 0.999",
            "0 1 1.0 0.0 -0.5",
        ),
        (
            json!({"type": "number", "minimum": -1.5, "exclusiveMaximum": -0.5}),
            "-1.5 -1 -0.51 -0.6",
            "-1.6 -0.5 -0.50 0 1",
        ),
        (json!({"type": "number", "maximum": 0}), "0 -0 0.0 -1 -0.5", "0.1 1"),
        (json!({"type": "number", "minimum": 0}), "0 0.1 1 100", "-1 -0.1"),
        (json!({"const": 1.5}), "1.5", "1 1.50"),
        (json!({"enum": [1, 2.5]}), "1 2.5", "2 1.0"),
    ];
    for (schema, good, bad) in cases {
        let m = compact(&schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
        good.split(' ').for_each(|n| assert!(takes(&m, n), "{schema} {n}"));
        bad.split(' ').for_each(|n| assert!(!takes(&m, n), "{schema} {n}"));
    }
    assert_eq!(refused(r#"{"multipleOf": 0.3}"#).0, "#");
    assert_eq!(refused(r#"{"minimum": 1e300}"#).0, "#/minimum");
    assert_eq!(refused(r#"{"type": "integer", "minimum": 5, "maximum": 4}"#).0, "#");
    assert_eq!(
        refused(r#"{"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7}"#).0,
        "#"
    );
}

#[test]
fn j13_counts_of_items_and_properties() {
    let m = matcher(r#"{"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3}"#);
    assert!(takes(&m, "[1,1]") && takes(&m, "[1,1,1]"));
    assert!(!takes(&m, "[1]") && !takes(&m, "[1,1,1,1]") && !takes(&m, "[]"));
    let m = matcher(r#"{"type": "array", "prefixItems": [{"const": 1}, false], "maxItems": 9}"#);
    assert!(takes(&m, "[]") && takes(&m, "[1]") && !takes(&m, "[1,1]"));
    let m = matcher(
        r#"{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}},
            "additionalProperties": false, "minProperties": 2, "maxProperties": 2}"#,
    );
    for (text, good) in [
        (r#"{"a":1,"b":1}"#, true),
        (r#"{"a":1,"c":1}"#, true),
        (r#"{"b":1,"c":1}"#, true),
        (r#"{"a":1}"#, false),
        ("{}", false),
        (r#"{"a":1,"b":1,"c":1}"#, false),
    ] {
        assert_eq!(takes(&m, text), good, "{text}");
    }
}

#[test]
fn j12_unknown_keywords_are_refused_by_path() {
    for (schema, path) in [
        (r#"{"properties": {"a": {"typo": 1}}}"#, "#/properties/a/typo"),
        (r#"{"items": {"uniqueItems": true}}"#, "#/items/uniqueItems"),
        (r#"{"anyOf": [true, {"contains": {}}]}"#, "#/anyOf/1/contains"),
        (r##"{"properties": {"a/b": {"$recursiveRef": "#"}}}"##, "#/properties/a~1b/$recursiveRef"),
        (r#"{"type": "string", "format": "binary"}"#, "#/format"),
        (r#"{"contains": {"type": "null"}, "unevaluatedItems": false}"#, "#/unevaluatedItems"),
        (r#"{"anyOf": [true, true, true, true, true], "unevaluatedProperties": false}"#, "#/anyOf"),
        (
            r##"{"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a"}, "c": {"$id": "c",
                "$dynamicAnchor": "a"}}}"##,
            "#/$dynamicRef",
        ),
        (r#"{"type": "strin"}"#, "#/type"),
        (r#"{"$schema": "http://json-schema.org/draft-04/schema#"}"#, "#/$schema"),
        (r#"{"items": [true]}"#, "#/items"),
        (r#"{"oneOf": [{"type": "integer"}, {"minimum": 2}]}"#, "#/oneOf"),
        (r#"{"not": {"multipleOf": 2}}"#, "#/not"),
        ("false", "#"),
        ("7", "#"),
    ] {
        assert_eq!(refused(schema).0, path, "{schema}");
    }
    for (keyword, fate) in rinfer_grammar::KEYWORDS {
        if matches!(fate, rinfer_grammar::Fate::Refused(_)) {
            let schema = json!({"properties": {"p": {keyword: true}}});
            let path = refused(&schema.to_string()).0;
            assert_eq!(path, format!("#/properties/p/{keyword}"));
        }
    }
}

/// Each schema with texts that it takes, and others.
fn each(cases: &[(&str, &[&str], &[&str])]) {
    for (schema, good, bad) in cases {
        let m = matcher(schema);
        good.iter().for_each(|text| assert!(takes(&m, text), "{schema}: {text}"));
        bad.iter().for_each(|text| assert!(!takes(&m, text), "{schema}: {text}"));
    }
}

#[test]
fn j12_what_is_left_out() {
    each(&[
        (
            r#"{"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}"#,
            &[r#"{"a":1}"#, r#"{"b":{}}"#, r#"{"a":1,"c":2}"#],
            &["{}", r#"{"a":1,"b":1}"#],
        ),
        (
            r#"{"type": "integer", "oneOf": [{"minimum": 2}, {"maximum": 5}, {"const": 3}]}"#,
            &["1", "6", "-7"],
            &["2", "3", "4", "5"],
        ),
        (
            r#"{"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "integer"}},
                "required": ["kind"], "additionalProperties": false,
                "if": {"properties": {"kind": {"const": "a"}}},
                "then": {"required": ["x"]}, "else": {"properties": {"x": false}}}"#,
            &[r#"{"kind":"a","x":1}"#, r#"{"kind":"b"}"#],
            &[r#"{"kind":"a"}"#, r#"{"kind":"b","x":1}"#, r#"{"kind":"c"}"#],
        ),
        (
            r#"{"not": {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "number", "minimum": 1.5}, {"type": ["array", "object"]}]}}"#,
            &["\"ba\"", "1.4", "-3", "null"],
            &["\"ab\"", "1.5", "2", "[]", "{}"],
        ),
        (
            r#"{"not": {"properties": {"a": {"properties": {"b": {"const": 1}}, "required": ["b"]}}}, "type": "object"}"#,
            &[r#"{"a":{}}"#, r#"{"a":{"b":2}}"#],
            &["{}", r#"{"a":{"b":1}}"#, r#"{"c":1}"#],
        ),
        (
            r#"{"not": {"items": {"type": "null"}}, "type": "array"}"#,
            &["[1]", "[null,2,null]"],
            &["[]", "[null]"],
        ),
    ]);
}

#[test]
fn j12_items_that_count() {
    each(&[
        (
            r#"{"type": "array", "items": {"enum": ["a", "b", 3]}, "uniqueItems": true, "minItems": 1}"#,
            &[r#"["a"]"#, r#"[3,"b","a"]"#, r#"["b",3]"#],
            &["[]", r#"["a","a"]"#, r#"["a",3,"a"]"#, r#"["a","b",3,3]"#],
        ),
        (
            r#"{"items": {"type": "boolean"}, "uniqueItems": true, "type": "array"}"#,
            &["[]", "[true,false]"],
            &["[true,true]"],
        ),
        (r#"{"type": "array", "uniqueItems": true, "maxItems": 1}"#, &["[]", "[{}]"], &["[1,2]"]),
        (
            r#"{"type": "array", "contains": {"const": 1}, "maxItems": 3}"#,
            &["[1]", "[0,1]", "[\"x\",1,1]", "[1,2,3]"],
            &["[]", "[0,2]", "[0,0,0]", "[1,1,1,1]"],
        ),
        (
            r#"{"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "minContains": 2, "maxContains": 3}"#,
            &["[5,6]", "[1,9,2,9]", "[5,5,5,4]"],
            &["[5]", "[5,5,5,5]", "[1,2,3]", "[5,6,\"a\"]"],
        ),
        (
            r#"{"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "string"}, "contains": {"maxLength": 1}}"#,
            &["[null,\"ab\",\"c\"]", "[null]"],
            &["[]", "[\"a\"]"],
        ),
    ]);
    for (schema, path) in [
        (r#"{"items": {"uniqueItems": true}}"#, "#/items/uniqueItems"),
        (r#"{"uniqueItems": true, "items": {"enum": [1,2,3,4,5,6,7,8,9]}}"#, "#/uniqueItems"),
        (r#"{"type": "integer", "minimum": 698588077014725631, "multipleOf": 25}"#, "#"),
        (r#"{"contains": {"const": 1}, "minContains": 3000}"#, "#"),
        (r#"{"allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]}"#, "#/allOf"),
        (
            r#"{"$schema": "http://json-schema.org/draft-07/schema#", "minContains": 1}"#,
            "#/minContains",
        ),
    ] {
        assert_eq!(refused(schema).0, path, "{schema}");
    }
}

#[test]
fn fields_are_what_was_decided() {
    let schema = json!({"properties": {
        "k/d": {"$ref": "#/$defs/k"}, "text": {"type": "string"}, "n": {"type": "number"},
        "list": {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/k"}]}}},
        "$defs": {"k": {"enum": ["a", "\"b"]}}});
    let text = r#"{"k/d": "\"b", "text": "a, 3", "n": -12, "list": [true, "a", 1.5, null], "x": {"y": false}}"#;
    let fields = Grammar::Schema(schema, Spacing::Spaced).fields(text).unwrap();
    let found: Vec<(&str, &str)> =
        fields.iter().map(|f| (f.path.as_str(), &text[f.text.clone()])).collect();
    let wanted = [
        ("/k~1d", r#""\"b""#),
        ("/n", "-12"),
        ("/list/0", "true"),
        ("/list/1", "\"a\""),
        ("/x/y", "false"),
    ];
    assert_eq!(found, wanted);
    assert!(Grammar::Json(Spacing::Spaced).fields("true").unwrap().is_empty());
}

/// Among what a grammar allows, probabilities are what the model's own are to one another.
#[test]
fn options_have_their_share() {
    let schema = json!({"type": "object", "properties": {"k": {"enum": ["ab", "ac", "d"]}, "b": {"type": "boolean"},
            "n": {"type": "integer", "minimum": 0, "maximum": 12}},
        "required": ["k", "b", "n"], "additionalProperties": false});
    let shares = rinfer_grammar::Shares::default();
    let form = Box::new(Grammar::Schema(schema, Spacing::Compact));
    let grammar = Grammar::Measured(form, shares.clone());
    let mut m = grammar.compile(bytes()).unwrap();
    let text = r#"{"k":"ac","b":true,"n":1}"#;
    let accept = |m: &mut rinfer_grammar::Matcher, byte: u8| {
        // Each byte twice as probable as the one before.
        let mut logits: Vec<f32> = (0..=END).map(|id| id as f32 * 2f32.ln()).collect();
        m.mask(&mut logits).unwrap();
        m.accept(u32::from(byte)).unwrap();
    };
    for byte in text.bytes() {
        accept(&mut m, byte);
    }
    m.rollback(2).unwrap();
    accept(&mut m, b'1');
    accept(&mut m, b'}');
    let fields = grammar.fields(text).unwrap();
    let found: Vec<f32> = fields.iter().map(|f| shares.of(f)).collect();
    // "a" against "d", then "c" against "b"; "t" against "f"; "1" against 0 and 2 to 9, then "}"
    // against 0 to 2.
    let digits: f32 = (0..10).map(|d| 2f32.powi(d)).sum();
    let brace = 2f32.powi(i32::from(b'}' - b'0'));
    let wanted = [
        1.0 / 9.0 * 2.0 / 3.0,
        2f32.powi(14) / (2f32.powi(14) + 1.0),
        2.0 / digits * (brace / (brace + 7.0)),
    ];
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-4 * wanted, "{found} {wanted}");
    }
    assert_eq!(found.len(), 3);
}

#[test]
fn tokens_taken_back_may_come_again() {
    let mut m = matcher(r#"{"enum": ["ab", "ac"]}"#);
    for byte in b"\"ab" {
        m.accept(u32::from(*byte)).unwrap();
    }
    m.rollback(1).unwrap();
    assert_eq!(m.next_ids().unwrap(), [98, 99]);
    assert!(m.accept(u32::from(b'x')).is_err());
}

#[test]
fn what_must_come_is_forced() {
    let mut m = matcher(
        r#"{"type": "object", "properties": {"name": {"type": "string"}},
                            "required": ["name"], "additionalProperties": false}"#,
    );
    let forced: Vec<u8> = m.forced().into_iter().map(|id| id as u8).collect();
    assert_eq!(forced, br#"{"name":""#);
}

#[test]
fn masks_leave_what_may_come() {
    let mut m = matcher(r#"{"enum": [true, 5]}"#);
    let mut logits = vec![0.0f32; 300];
    m.mask(&mut logits).unwrap();
    let left: Vec<usize> = (0..300).filter(|i| logits[*i] == 0.0).collect();
    assert_eq!(left, [usize::from(b'5'), usize::from(b't')]);
}

#[test]
fn what_no_keyword_speaks_of_is_held_too() {
    let m = compact(&json!({
        "$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
        "allOf": [{"$ref": "#/$defs/base"}],
        "anyOf": [{"required": ["a"], "properties": {"a": {"type": "null"}}},
                  {"required": ["b"], "properties": {"b": {"type": "null"}}}],
        "unevaluatedProperties": false
    }))
    .unwrap();
    for (text, good) in [
        (r#"{"id":1,"a":null}"#, true),
        (r#"{"id":1,"b":null}"#, true),
        (r#"{"id":1,"a":null,"b":null}"#, true),
        (r#"{"id":1}"#, false),
        (r#"{"id":1,"a":null,"c":null}"#, false),
        (r#"{"id":1,"a":null,"b":1}"#, false),
    ] {
        assert_eq!(takes(&m, text), good, "{text}");
    }
    let m = compact(&json!({
        "type": "array", "prefixItems": [{"const": 1}],
        "if": {"prefixItems": [true, {"const": 2}]}, "then": true, "else": {"maxItems": 1},
        "unevaluatedItems": {"type": "string"}
    }));
    let m = m.unwrap();
    for (text, good) in [("[1]", true), ("[1,2]", true), (r#"[1,2,"c"]"#, true), ("[1,2,3]", false)]
    {
        assert_eq!(takes(&m, text), good, "{text}");
    }
}

#[test]
fn forms_that_were_compiled_before_are_told_apart() {
    let schema = |first: &str, second: &str| json!({"type": "object", "properties": {first: {"const": 1}, second: {"const": 2}}});
    for _ in 0..2 {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let m = compact(&schema(first, second)).unwrap();
            assert!(takes(&m, &format!(r#"{{"{first}":1,"{second}":2}}"#)));
            assert!(!takes(&m, &format!(r#"{{"{second}":2,"{first}":1}}"#)));
        }
    }
    for n in 0..20 {
        assert!(takes(&compact(&json!({"const": n})).unwrap(), &n.to_string()));
    }
    assert!(takes(&compact(&schema("a", "b")).unwrap(), r#"{"a":1,"b":2}"#));
}

#[test]
fn schemas_in_lark_grammars_are_read_as_all_are() {
    let lark = |source: &str| Grammar::Lark(source.to_owned()).compile(bytes());
    let m = lark("start: \"set \" NAME \" \" %json {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 30}\nNAME: /[a-z]+/").unwrap();
    for (text, good) in
        [("set x 7", true), ("set x 30", true), ("set x 31", false), ("set x", false)]
    {
        assert_eq!(takes(&m, text), good, "{text}");
    }
    let wrong = lark("start: \"a\"\n | %json {\"typo\": 1}").map(|_| ()).unwrap_err().to_string();
    assert!(wrong.starts_with("the Lark grammar, line 2: the schema's #/typo"), "{wrong}");
}
