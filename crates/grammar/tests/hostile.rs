//! Grammars that mean harm: row J15. Each ends in a typed error or a matcher, in bounded time.
#![expect(clippy::unwrap_used, reason = "tests")]
mod support;
use rinfer_grammar::{Constraint, Grammar, GrammarError, Spacing};
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use support::{bytes, compact, takes};

/// What anything here may take of a processor: less than a second where the code is optimised and
/// tests have their own process.
const LONGEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 2 });

/// Time that this process has had on processors, as machines that test are shared; where the system
/// does not tell, time as it goes by.
fn spent() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    match (fields.get(11), fields.get(12)) {
        (Some(user), Some(system)) => {
            let ticks: u64 = user.parse::<u64>().unwrap() + system.parse::<u64>().unwrap();
            Duration::from_millis(10 * ticks)
        }
        _ => start.elapsed(),
    }
}

/// Most memory that all of a process's grammars together may have taken, in KiB.
const MOST_MEMORY: u64 = 1 << 20;

/// Peak memory of this process, where the system tells it.
fn bounded_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    println!("peak memory: {peak:?} KiB");
    assert!(peak.unwrap_or_default() < MOST_MEMORY);
}

fn quick(name: &str, grammar: &Grammar) -> Option<GrammarError> {
    bytes();
    let start = spent();
    let result = grammar.compile(bytes());
    let took = spent().saturating_sub(start);
    println!("{name}: {took:?} {:?}", result.as_ref().err().map(ToString::to_string));
    assert!(took < LONGEST, "{name} took {took:?}");
    if let Err(e) = &result {
        assert!(e.to_string().len() < 1000, "{name}");
    }
    // What was taken can be followed, or says that it can't.
    if let Ok(mut matcher) = result {
        let start = spent();
        for step in 0..20 {
            let ids = matcher.next_ids();
            assert!(ids.is_ok() || step > 0, "{name}: {ids:?} at its start");
            let Ok(ids) = ids else { break };
            let Some(id) = ids.first().filter(|id| **id < 256) else { break };
            if matcher.accept(*id).is_err() {
                break;
            }
        }
        let took = spent().saturating_sub(start);
        assert!(took < LONGEST, "{name} took {took:?}");
        return None;
    }
    result.err()
}

fn refused(name: &str, grammar: Grammar) {
    assert!(quick(name, &grammar).is_some(), "{name} was taken");
}

#[test]
fn j15_grammars_that_nest_and_chain() {
    let parens = "(".repeat(60_000);
    refused("60k parentheses", Grammar::Gbnf(format!("root ::= {parens}")));
    refused("60k parentheses", Grammar::Lark(format!("start: {parens}")));
    refused("60k parentheses", Grammar::Regex(parens.clone()));
    let closed = format!("{parens}a{}", ")".repeat(60_000));
    refused("60k closed parentheses", Grammar::Gbnf(format!("root ::= {closed}")));
    refused("60k closed parentheses", Grammar::Lark(format!("start: \"a\" {closed}")));
    refused("60k closed parentheses", Grammar::Regex(closed));
    let chain = |colon: &str, root: &str| {
        let mut text = format!("{root}{colon} r0\n");
        (0..10_000).for_each(|i| text += &format!("r{i}{colon} \"a\" r{}\n", i + 1));
        text + &format!("r10000{colon} \"b\"\n")
    };
    refused("10k rules", Grammar::Gbnf(chain(" ::=", "root")));
    refused("10k rules", Grammar::Lark(chain(":", "start")));
    let short = |n: usize| {
        let mut text = "start: r0\n".to_owned();
        (0..n).for_each(|i| text += &format!("r{i}: \"a\" r{} | \"c\"\n", i + 1));
        text + &format!("r{n}: \"b\"\n")
    };
    assert_eq!(quick("1k rules", &Grammar::Lark(short(1000))), None);
}

#[test]
fn j15_grammars_that_repeat() {
    assert_eq!(quick("(a*)*", &Grammar::Gbnf("root ::= (\"a\"*)*".to_owned())), None);
    quick("(a*)*", &Grammar::Lark("start: (\"a\"*)*".to_owned()));
    assert_eq!(quick("(a*)*", &Grammar::Regex("(a*)*b".to_owned())), None);
    refused("{5,0}", Grammar::Gbnf("root ::= \"a\"{5,0}".to_owned()));
    refused("{5,0}", Grammar::Lark("start: \"a\"{5,0}".to_owned()));
    refused("{5,0}", Grammar::Regex("a{5,0}".to_owned()));
    refused("{-1}", Grammar::Gbnf("root ::= \"a\"{-1}".to_owned()));
    let maybe = "\"a\"? ".repeat(2000);
    quick("a? a? …", &Grammar::Gbnf(format!("root ::= {maybe}")));
    quick("a? a? …", &Grammar::Lark(format!("start: {maybe}")));
    quick("a? a? …", &Grammar::Regex("a?".repeat(2000)));
    quick("a?{n}a{n}", &Grammar::Regex(format!("{}{}", "a?".repeat(300), "a".repeat(300))));
    refused("{1000}{1000}{1000}", Grammar::Regex("((a{1000}){1000}){1000}".to_owned()));
    refused("{1000}{1000}", Grammar::Gbnf("root ::= (\"a\"{1000}){1000}".to_owned()));
    quick("{1000}{1000}", &Grammar::Lark("start: (\"a\"{1000}){1000}".to_owned()));
    quick("huge", &Grammar::Lark("start: \"a\"{1,2000000000}".to_owned()));
    let rules = "start: (r{1,1000}){1,1000}\nr: (s{7}){1,1000}\ns: \"[\" start? \"]\" | r";
    quick("rules {1,1000}{1,1000}", &Grammar::Lark(rules.to_owned()));
    let nested =
        format!("start: {}\nr: \"a\" r | \"b\"", "(".repeat(24) + "r" + &"){3}".repeat(24));
    quick("rules {3} 24 deep", &Grammar::Lark(nested));
    let nested = format!("start: {}", "(".repeat(24) + "\"a\"" + &"){3}".repeat(24));
    quick("texts {3} 24 deep", &Grammar::Lark(nested));
    let ambiguous = "start: x\nx: x x | \"a\" | x x x";
    quick("ambiguous", &Grammar::Lark(ambiguous.to_owned()));
    let optional = format!("start: {}\nr: \"a\" r \"b\" | \"c\"", "r? ".repeat(3000));
    quick("r? r? …", &Grammar::Lark(optional));
    quick("exponential", &Grammar::Regex("(.*a){20}.{20}".to_owned()));
    quick("left", &Grammar::Gbnf("root ::= root \"a\" | \"b\"".to_owned()));
    refused("endless", Grammar::Gbnf("root ::= \"a\" root".to_owned()));
    bounded_memory();
}

#[test]
fn j15_schemas_that_nest_and_blow_up() {
    let deep =
        |open: &str, n: usize, close: &str| format!("{}true{}", open.repeat(n), close.repeat(n));
    let items = deep("{\"items\":", 10_000, "}");
    assert!(matches!(Grammar::schema(&items), Err(GrammarError::Json(_))));
    let mut value = Value::Bool(true);
    for _ in 0..1000 {
        value = json!({"items": value});
    }
    let error = compact(&value).err().unwrap();
    assert!(error.to_string().contains("nested deeper"), "{error}");
    assert!(compact(&serde_json::from_str(&deep("{\"items\":", 100, "}")).unwrap()).is_ok());
    for max in [2000u64, 1_000_000] {
        let schema = json!({"properties": {"s": {"type": "string", "maxLength": max}}});
        let m = compact(&schema).unwrap();
        assert!(takes(&m, r#"{"s":"abc"}"#));
    }
    let schema = |value: Value| Grammar::Schema(value, Spacing::Compact);
    quick("minLength", &schema(json!({"type": "string", "minLength": 1_000_000})));
    quick(
        "maxItems",
        &schema(json!({"items": {"items": {"maxItems": 10_000}}, "maxItems": 10_000})),
    );
    quick("multipleOf", &schema(json!({"type": "integer", "multipleOf": 4093, "minimum": 7})));
    refused("multipleOf", schema(json!({"type": "integer", "multipleOf": 123_456_789})));
    refused("multipleOf", schema(json!({"type": "integer", "multipleOf": 0.123_456_789})));
    refused("maxItems", schema(json!({"maxItems": 1_000_000})));
    let any: Vec<Value> = (0..40)
        .map(|i| {
            json!({"anyOf": [{"properties": {(i.to_string()): {"type": "null"}}},
        {"required": [i.to_string()]}]})
        })
        .collect();
    refused("2^40 alternatives", schema(json!({"allOf": any})));
    let mut defs = serde_json::Map::new();
    for i in 0..30 {
        let next = format!("#/$defs/d{}", i + 1);
        defs.insert(format!("d{i}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
    }
    defs.insert("d30".to_owned(), json!({"type": "null"}));
    refused("2^30 references", schema(json!({"$defs": defs, "$ref": "#/$defs/d0"})));
    let wide: serde_json::Map<String, Value> =
        (0..2000).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
    assert_eq!(quick("2000 optional properties", &schema(json!({"properties": wide}))), None);
    let wider: serde_json::Map<String, Value> =
        (0..6000).map(|i| (format!("p{i}"), json!({}))).collect();
    refused("6000 optional properties", schema(json!({"properties": wider})));
    let long: Vec<String> = (0..20_000).map(|i| format!("value {i}")).collect();
    quick("20k values", &schema(json!({"enum": long})));
    quick(
        "pattern",
        &schema(json!({"type": "string", "pattern": "(a*)*(b|c*)*$", "maxLength": 500})),
    );
    quick("pattern", &schema(json!({"type": "string", "pattern": "^(([a-z]+)+)+x{1000}$"})));
    let pairs: Vec<Value> = (0..4)
        .map(|i| json!({"patternProperties": {(format!("^{i}.*x.*y.*z{{9}}")): {"type": "null"}}}))
        .collect();
    quick("patternProperties", &schema(json!({"allOf": pairs})));
    bounded_memory();
}

#[test]
fn j15_lark_that_makes_no_sense() {
    for source in [
        "",
        "start: x",
        "start: \"a",
        "begin: \"a\"",
        "start: /(/",
        "start: %json {",
        "start: <nothing>",
    ] {
        let error = Grammar::Lark(source.to_owned()).compile(bytes()).err().unwrap();
        assert!(matches!(error, GrammarError::Grammar { kind: "Lark", .. }), "{source}: {error}");
    }
}
