//! Other grammars: GBNF, regular expressions and choices.
#![expect(clippy::unwrap_used, reason = "tests")]
mod support;
use rinfer_grammar::{Grammar, GrammarError};
use support::{bytes, takes};

#[test]
fn gbnf() {
    let json = r##"
# llama.cpp's json.gbnf, shortened
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ws
ws ::= | " " | "\n" [ \t]{0,20}
"##;
    let m = Grammar::Gbnf(json.to_owned()).compile(bytes()).unwrap();
    for good in ["{}", "{\"a\": [1, -2.5, true, \"x\\n\\u00e9\"], \"b\":{}}", "{ \"k\":null}"] {
        assert!(takes(&m, good), "{good}");
    }
    for bad in ["[]", "{\"a\":tru}", "{\"a\":1,}", "{\"a\":\"\n\"}", "{\"a\":  1}"] {
        assert!(!takes(&m, bad), "{bad}");
    }
    // Rules that meet: the longest terminal must not win over the grammar.
    let m = Grammar::Gbnf("root ::= word \"true\"?\nword ::= [a-z]+ | \"truth\"".to_owned());
    let m = m.compile(bytes()).unwrap();
    assert!(takes(&m, "trx") && takes(&m, "true") && takes(&m, "xtrue") && !takes(&m, "x1"));
    let m = Grammar::Gbnf("root ::= \"(\" root \")\" | [a-c]{2,3} \"é\\u00e9\"".to_owned());
    let m = m.compile(bytes()).unwrap();
    assert!(takes(&m, "((abéé))") && !takes(&m, "(aéé)") && !takes(&m, "((abéé)"));
}

#[test]
fn gbnf_errors_name_the_line() {
    for (source, line, says) in [
        ("root ::= \"a\"\nroot ::= \"b\"", 2, "two rules"),
        ("root ::= x", 1, "\"x\" is no rule"),
        ("a ::= \"b\"", 1, "named root"),
        ("root ::= \"a\"\n\nb ::= [z-a]", 3, "counts down"),
        ("root ::= \"a", 1, "not closed"),
        ("root ::= (\"a\"", 1, "not closed"),
        ("root = \"a\"", 1, "::="),
        ("root ::= \"\\q\"", 1, "no escape"),
        ("root ::= ~", 1, "not expected"),
    ] {
        let error = Grammar::Gbnf(source.to_owned()).compile(bytes()).err().unwrap();
        let GrammarError::Grammar { kind, line: found, what } = &error else { panic!("{error}") };
        assert_eq!((*kind, *found), ("GBNF", Some(line)), "{source}: {error}");
        assert!(what.contains(says), "{source}: {what}");
    }
}

#[test]
fn regular_expressions_match_from_start_to_end() {
    let m = Grammar::Regex(r"^\d{3}-[a-f]+$".to_owned()).compile(bytes()).unwrap();
    assert!(takes(&m, "123-abc") && !takes(&m, "x123-abc") && !takes(&m, "123-"));
    let m = Grammar::Regex("yes|no|(?:ma/y)be".to_owned()).compile(bytes()).unwrap();
    assert!(takes(&m, "ma/ybe") && takes(&m, "no") && !takes(&m, "noo"));
    for bad in ["(", "a{2,1}", "[b-a]", "(?=x)", "\\1", "[]", "a\\"] {
        let error = Grammar::Regex(bad.to_owned()).compile(bytes()).err();
        assert!(matches!(error, Some(GrammarError::Regex { .. })), "{bad}");
    }
}

#[test]
fn choices() {
    let choices = ["yes", "yes, sir", "n\"o\n", "é😀"].map(str::to_owned).to_vec();
    let m = Grammar::Choice(choices.clone()).compile(bytes()).unwrap();
    choices.iter().for_each(|c| assert!(takes(&m, c), "{c}"));
    assert!(!takes(&m, "ye") && !takes(&m, "no") && !takes(&m, ""));
    for bad in [vec![], vec![String::new()]] {
        let error = Grammar::Choice(bad).compile(bytes()).err();
        assert!(matches!(error, Some(GrammarError::Choice(_))));
    }
}
