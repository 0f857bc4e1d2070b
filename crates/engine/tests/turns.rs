//! Turns of the assistant over a scripted executor and a tiny byte-level tokenizer: thoughts, their
//! budget, and grammars that begin after them.
#![expect(clippy::unwrap_used, reason = "tests")]
mod scripted;
use rinfer_engine::batch::TokenId;
use rinfer_engine::error::Error;
use rinfer_engine::generation::Generation;
use rinfer_engine::language::Language;
use rinfer_engine::model::Model;
use rinfer_engine::request::Finish;
use rinfer_engine::sample::{Sampling, Think};
use rinfer_engine::turn::{Ask, Part, Scored, ToolChoice, Turn};
use rinfer_grammar::Grammar;
use rinfer_testkit::chat::{CONTROLS, id_of, tokenizer_json};
use rinfer_text::chat::{Message, Role, Tool};
use rinfer_text::reply::{Delta, Reply};
use rinfer_text::template::{DateTime, Template};
use rinfer_text::tokenizer::Tokenizer;
use scripted::{Scripted, limits};
use serde_json::{Value, json};
use std::sync::Arc;

const VOCAB: usize = 256;
const CONTEXT: usize = 2000;
/// Ends an answer.
const END: u32 = 2;
/// The tags of thoughts, where they are tokens.
const OPEN: u32 = 0;
const CLOSE: u32 = 3;

/// A template that opens thoughts if it is asked to, and shows tools and calls.
const TEMPLATE: &str = "{{ tools | tojson if tools }}{% for m in messages %}[{{ m.role }}]{{ m.content }}\
    {% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}\
    {% if add_generation_prompt %}[assistant]{% if enable_thinking %}<think>\n{% endif %}{% endif %}\
    {% if false %}</think>{% endif %}";

/// `tokens` is whether the tags of thoughts are.
fn language(tokens: bool) -> Language {
    let mut file = tokenizer_json();
    if tokens {
        for (id, name) in [(OPEN, "<think>"), (CLOSE, "</think>")] {
            let old = CONTROLS[id as usize];
            let vocab = file["model"]["vocab"].as_object_mut().unwrap();
            vocab.remove(old);
            vocab.insert(name.into(), id.into());
            file["added_tokens"][id as usize]["content"] = name.into();
            file["added_tokens"][id as usize]["special"] = false.into();
        }
    }
    let tokenizer = Tokenizer::from_json(&serde_json::to_vec(&file).unwrap()).unwrap();
    let template = Template::new(TEMPLATE).unwrap();
    Language::new(tokenizer, Ok(template), Generation { end: vec![END], ..Generation::default() })
}

/// A model that likes best to write this, then its end.
fn saying(tokens: bool, answer: Vec<u32>) -> Model {
    let limits = limits(2, CONTEXT, 2 * CONTEXT, 64);
    let prompts = std::sync::Mutex::new(None);
    let executor = Scripted::new(&limits, move |seen| {
        let start = *prompts.lock().unwrap().get_or_insert(seen.len());
        let mut logits = vec![0.0; VOCAB];
        logits[answer.get(seen.len() - start).copied().unwrap_or(END) as usize] = 20.0;
        logits
    });
    let now = || DateTime::from_unix(0);
    Model::new(Box::new(executor), limits, VOCAB, language(tokens), now).unwrap()
}

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(id_of).collect()
}

fn ask() -> Ask {
    Ask { messages: vec![Message::new(Role::User, "Hi")], ..Ask::default() }
}

fn greedy() -> Sampling {
    Sampling { max_tokens: Some(500), ..Sampling::greedy() }
}

fn thinking() -> Sampling {
    Sampling { think: Think::On, ..greedy() }
}

fn take(mut turn: Turn) -> (Reply, Option<Finish>) {
    let deltas: Vec<Delta> = turn.by_ref().map(Result::unwrap).collect();
    (deltas.iter().collect(), turn.finish())
}

/// The tags as tokens, and as text.
fn both(text: &[&str]) -> [(bool, Vec<u32>); 2] {
    let spelled = ids(&text.concat());
    let tokens = text.iter().flat_map(|part| match *part {
        "<think>" => vec![OPEN],
        "</think>" => vec![CLOSE],
        other => ids(other),
    });
    [(true, tokens.collect()), (false, spelled)]
}

/// C9: thoughts that the prompt opened, as tokens and as text; and those that the model opens.
#[test]
fn c9_thoughts_are_apart() {
    for (tokens, answer) in both(&["a é", "</think>", "\n\nb"]) {
        let (reply, finish) = take(saying(tokens, answer).turn(&ask(), &thinking()).unwrap());
        assert_eq!((&*reply.reasoning, &*reply.content, finish), ("a é", "b", Some(Finish::Stop)));
    }
    for (tokens, answer) in both(&["<think>", "a", "</think>", "b"]) {
        let (reply, _) = take(saying(tokens, answer).turn(&ask(), &greedy()).unwrap());
        assert_eq!((&*reply.reasoning, &*reply.content), ("a", "b"));
    }
    let mut session = saying(true, [ids("a"), vec![CLOSE], ids("b")].concat()).session();
    *session.sampling() = thinking();
    let mut reply = session.say("Hi").unwrap();
    let said: String = reply.by_ref().map(Result::unwrap).collect();
    assert_eq!((said.as_str(), reply.thoughts()), ("b", "a"));
    drop(reply);
    assert_eq!(session.history()[1].reasoning_content.as_deref(), Some("a"));
}

/// U2: where the limit cuts, thoughts are thoughts, and half a character is nothing.
#[test]
fn u2_the_limit_cuts_thoughts_too() {
    let answer = [ids("ab😀"), vec![CLOSE], ids("c")].concat();
    for (most, thought) in [(1, "a"), (2, "ab"), (3, "ab"), (5, "ab"), (6, "ab😀")] {
        let sampling = Sampling { max_tokens: Some(most), ..thinking() };
        let (reply, finish) = take(saying(true, answer.clone()).turn(&ask(), &sampling).unwrap());
        assert_eq!((&*reply.reasoning, &*reply.content), (thought, ""), "{most}");
        assert_eq!(finish, Some(Finish::Length));
    }
}

/// A budget ends thoughts, whatever the model would write; what follows is its answer.
#[test]
fn budgets_end_thoughts() {
    for (tokens, answer) in both(&["Long thoughts about it.", "</think>", "Yes, they were."]) {
        let close = if tokens { 1 } else { 8 };
        for budget in [0, 1, 4, 14] {
            let sampling = Sampling { think_budget: Some(budget), ..thinking() };
            let model = saying(tokens, answer.clone());
            let (reply, _) = take(model.turn(&ask(), &sampling).unwrap());
            assert_eq!(reply.reasoning, "Long thoughts about it."[..budget].trim_end(), "{budget}");
            // The scripted model goes on with what it would have written there.
            let rest = answer[budget + close..].iter().map(|id| match *id {
                CLOSE => String::new(),
                id => char::from((b' '..=b'~').find(|byte| id_of(*byte) == id).unwrap()).into(),
            });
            assert_eq!(reply.content, rest.collect::<String>().trim_start(), "{budget}");
        }
        let sampling = Sampling { think_budget: Some(23), ..thinking() };
        let (reply, _) = take(saying(tokens, answer.clone()).turn(&ask(), &sampling).unwrap());
        assert_eq!(
            (&*reply.reasoning, &*reply.content),
            ("Long thoughts about it.", "Yes, they were.")
        );
    }
    // Against its template, a model that thinks all the same is stopped at once.
    let answer = [vec![OPEN], ids("ab"), vec![CLOSE], ids("c")].concat();
    let sampling = Sampling { think: Think::Off, ..greedy() };
    let (reply, _) = take(saying(true, answer).turn(&ask(), &sampling).unwrap());
    assert_eq!((&*reply.reasoning, &*reply.content), ("", "bc"));
}

/// J14: a schema holds what is said, from where thoughts end; thoughts may be anything, and long.
#[test]
fn j14_schemas_begin_after_thoughts() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}},
        "required": ["a"], "additionalProperties": false});
    let grammar = Some(Arc::new(Grammar::schema(&schema.to_string()).unwrap()));
    let parts = ["{} [ not json, \"", "</think>", "\n\nSure: {\"a\": 7}"];
    for (tokens, answer) in both(&parts) {
        for budget in [None, Some(3)] {
            let sampling =
                Sampling { grammar: grammar.clone(), think_budget: budget, ..thinking() };
            let model = saying(tokens, answer.clone());
            let (reply, finish) = take(model.turn(&ask(), &sampling).unwrap());
            let value: Value = serde_json::from_str(&reply.content).unwrap();
            assert!(value["a"].as_i64().unwrap() <= 9, "{reply:?}");
            assert_eq!(finish, Some(Finish::Stop));
            let thought = if budget.is_some() { "{} " } else { parts[0] };
            assert_eq!(reply.reasoning, thought.trim_end());
        }
    }
    // The model may open thoughts itself, and need not.
    let sampling = Sampling { grammar: grammar.clone(), ..greedy() };
    let opened = [vec![OPEN], ids("hm"), vec![CLOSE], ids("{\"a\": 1}")].concat();
    let (reply, _) = take(saying(true, opened).turn(&ask(), &sampling).unwrap());
    assert_eq!((&*reply.reasoning, &*reply.content), ("hm", "{\"a\": 1}"));
    let (reply, _) = take(saying(true, ids("{\"a\": 2}")).turn(&ask(), &sampling).unwrap());
    assert_eq!((&*reply.reasoning, &*reply.content), ("", "{\"a\": 2}"));
    // Nor may it end instead of answering.
    let sampling = Sampling { grammar, max_tokens: Some(20), ..thinking() };
    let (_, finish) = take(saying(true, ids("hm")).turn(&ask(), &sampling).unwrap());
    assert_eq!(finish, Some(Finish::Length));
}

/// U1: characters cut over tokens come whole in thoughts, text and calls, around markup and stops: what
/// is streamed is what is read at once, and no mark of a half character is in it.
#[test]
fn u1_characters_over_tokens() {
    let asked = Ask { tools: vec![Tool::function("f", "F.", json!({}))], ..ask() };
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"東😀\"}}\n</tool_call>";
    for (tokens, answer) in both(&["é東😀", "</think>", "né😀東", call, "終", "xé"]) {
        for (stop, rest) in [(vec![], "終xé"), (vec!["é".into()], "né"), (vec!["終x".into()], "")]
        {
            let sampling = Sampling { stop: stop.clone(), ..thinking() };
            let mut turn = saying(tokens, answer.clone()).turn(&asked, &sampling).unwrap();
            let deltas: Vec<Delta> = turn.by_ref().map(Result::unwrap).collect();
            let reply: Reply = deltas.iter().collect();
            let stopped = stop.first().map(String::as_str);
            assert_eq!((turn.stop(), turn.finish()), (stopped, Some(Finish::Stop)));
            let streamed = format!("{deltas:?}");
            assert!(!streamed.contains(char::REPLACEMENT_CHARACTER), "{streamed}");
            if rest == "né" {
                // The first such letter is the first thought.
                assert_eq!(reply, Reply::default());
                continue;
            }
            assert_eq!(reply.reasoning, "é東😀");
            assert_eq!(reply.content, format!("né😀東{rest}"));
            assert_eq!(reply.calls, [("f".into(), "{\"a\": \"東😀\"}".into())]);
        }
    }
}

/// U4: bytes that are no text, in thoughts, text and a call's arguments: what comes out is text and
/// JSON, and the tokens' scores have the bytes as they were.
#[test]
fn u4_bytes_that_are_no_text() {
    let wrong = |bytes: &[u8]| bytes.iter().map(|byte| id_of(*byte)).collect::<Vec<u32>>();
    let lone = wrong(&[0x80, 0xE2, b'x', 0xF0, 0x9F, b' ']);
    let begin = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"";
    let end = "\"}}\n</tool_call>";
    let parts = [lone.clone(), vec![CLOSE], lone.clone(), ids(begin), lone.clone(), ids(end)];
    let answer = parts.concat();
    let tools = vec![Tool::function("f", "F.", json!({}))];
    // Without constraints: a call that is held to its schema has none of these.
    let model = saying(true, answer.clone());
    let asked = Ask { tools: tools.clone(), logprobs: Some(2), ..ask() };
    let mut turn = model.turn(&asked, &thinking()).unwrap();
    let deltas: Vec<Delta> = turn.by_ref().map(Result::unwrap).collect();
    let reply: Reply = deltas.iter().collect();
    let shown = "\u{FFFD}\u{FFFD}x\u{FFFD}";
    assert_eq!((&*reply.reasoning, &*reply.content), (shown, shown));
    for (_, arguments) in &reply.calls {
        assert!(serde_json::from_str::<Value>(arguments).is_ok(), "{arguments}");
    }
    let scores = turn.scores();
    let of = |part: Part| -> Vec<u8> {
        scores.iter().filter(|s| s.part == part).flat_map(|s| s.bytes.clone()).collect()
    };
    let raw = [0x80, 0xE2, b'x', 0xF0, 0x9F, b' '];
    assert_eq!(of(Part::Reasoning), [&raw[..], b"</think>"].concat());
    assert_eq!(of(Part::Content), raw);
    assert!(of(Part::Call).starts_with(begin.as_bytes()));
    assert_eq!(scores.len(), turn.usage().generated);
}

/// L8: a turn with tools says how probable its tokens were, and what each is part of.
#[test]
fn l8_scores_of_a_turn_with_tools() {
    let tools = vec![Tool::function("f", "F.", json!({"type": "object", "properties": {}}))];
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    let spoken = ["a", "</think>", "\nSo <b>:\n", call, " ok"];
    let answer = [ids("a"), vec![CLOSE], ids(&spoken[2..].concat())].concat();
    let asked = Ask { tools, logprobs: Some(3), ..ask() };
    let mut turn = saying(true, answer.clone()).turn(&asked, &thinking()).unwrap();
    let (mut scores, mut content) = (Vec::new(), String::new());
    while let Some(delta) = turn.next() {
        if let Delta::Content(text) = delta.unwrap() {
            content += &text;
        }
        scores.extend(turn.scores());
    }
    scores.extend(turn.scores());
    assert_eq!(content, "So <b>:ok");
    let found: Vec<TokenId> = scores.iter().map(|s| s.chosen.id).collect();
    assert_eq!(found, answer.iter().map(|id| TokenId(*id)).collect::<Vec<_>>());
    let of = |part: Part| -> String {
        let bytes = scores.iter().filter(|s| s.part == part).flat_map(|s| s.bytes.clone());
        String::from_utf8(bytes.collect()).unwrap()
    };
    assert_eq!((&*of(Part::Reasoning), &*of(Part::Markup)), ("a</think>", ""));
    assert_eq!((&*of(Part::Content), of(Part::Call)), ("\nSo <b>: ok", format!("\n{call}")));
    for Scored { chosen, .. } in &scores {
        // Where calls are held, what must come next is not asked for.
        let logprob = chosen.logprob.unwrap_or(0.0);
        assert!(logprob <= 0.0 && logprob > -0.1, "{chosen:?}");
        assert!(chosen.logprob.is_none() || chosen.top.len() == 3);
    }
    let mut silent = saying(true, answer).turn(&ask(), &thinking()).unwrap();
    assert!(silent.by_ref().all(|delta| delta.is_ok()) && silent.scores().is_empty());
}

/// T14: a control token that ends the text stops a turn by its name, and is the stop that is told.
#[test]
fn t14_control_tokens_stop_turns() {
    let control = CONTROLS[3];
    let answer = [ids("ab"), vec![3], ids("c")].concat();
    for (stop, content, told) in
        [(vec![control.to_owned()], "ab", Some(control)), (vec![], "abc", None)]
    {
        let sampling = Sampling { stop, ..greedy() };
        let mut turn = saying(false, answer.clone()).turn(&ask(), &sampling).unwrap();
        let reply: Reply = turn.by_ref().map(Result::unwrap).collect::<Vec<_>>().iter().collect();
        assert_eq!((&*reply.content, turn.finish()), (content, Some(Finish::Stop)));
        assert_eq!(turn.stop(), told);
    }
}

/// Several answers to one prompt, as `n` asks for: each has its own seed, all share the prompt's state;
/// and one that is cancelled ends.
#[test]
fn several_answers_and_a_cancelled_one() {
    let model = liking("", "abcdefgh");
    let drawn =
        |seed| Sampling { seed, temperature: 8.0, top_k: 8, max_tokens: Some(20), ..greedy() };
    let turns: Vec<Turn> = (0..3).map(|seed| model.turn(&ask(), &drawn(seed)).unwrap()).collect();
    let replies: Vec<Reply> = turns.into_iter().map(|turn| take(turn).0).collect();
    assert!(replies[0] != replies[1] && replies[1] != replies[2], "{replies:?}");
    let mut again = model.turn(&ask(), &drawn(1)).unwrap();
    let deltas: Vec<Delta> = again.by_ref().map(Result::unwrap).collect();
    assert_eq!(deltas.iter().collect::<Reply>(), replies[1]);
    assert!(again.usage().cached > 0, "{:?}", again.usage());
    let mut turn = model.turn(&ask(), &Sampling { max_tokens: Some(1000), ..greedy() }).unwrap();
    turn.next().unwrap().unwrap();
    turn.canceller().cancel();
    assert!(turn.by_ref().all(|delta| delta.is_ok()));
    assert_eq!(turn.finish(), Some(Finish::Cancelled));
}

/// L1, J16: calls come whole, in order, and what the limit cuts off is none.
#[test]
fn calls_of_tools() {
    let tools = vec![Tool::function("f", "F.", json!({"type": "object", "properties": {}}))];
    let asked = Ask { tools: tools.clone(), ..ask() };
    let text = "So.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
        <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    let mut turn = saying(true, ids(text)).turn(&asked, &greedy()).unwrap();
    let deltas: Vec<Delta> = turn.by_ref().map(Result::unwrap).collect();
    let reply: Reply = deltas.iter().collect();
    assert_eq!(reply.content, "So.");
    assert_eq!(reply.calls, [("f".into(), "{\"a\": 1}".into()), ("f".into(), "{}".into())]);
    assert_eq!((turn.calls(), turn.finish()), (2, Some(Finish::Stop)));
    for most in 1..text.len() {
        let sampling = Sampling { max_tokens: Some(most), ..greedy() };
        let mut turn = saying(true, ids(text)).turn(&asked, &sampling).unwrap();
        let reply: Reply = turn.by_ref().map(Result::unwrap).collect::<Vec<_>>().iter().collect();
        let whole = text[..most].matches("</tool_call>").count();
        assert_eq!((reply.calls.len(), turn.calls()), (whole, whole), "{most}");
        assert_eq!(turn.finish(), Some(Finish::Length));
    }
    // Without tools it is text, and with a template that shows none they are refused.
    let (reply, _) = take(saying(true, ids(text)).turn(&ask(), &greedy()).unwrap());
    assert_eq!((reply.content.as_str(), reply.calls.len()), (text, 0));
}

/// A form and tools in one turn: an answer is a call, held to its tool's schema, or has the form; and in
/// what has the form nothing is a call.
#[test]
fn answers_are_calls_or_have_their_form() {
    let parameters = json!({"type": "object", "required": ["n"], "additionalProperties": false,
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}});
    let asked = Ask { tools: vec![Tool::function("f", "F.", parameters)], ..ask() };
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "string", "maxLength": 40}}});
    let form = |text: &str| Some(Arc::new(Grammar::schema(text).unwrap()));
    let formed = |sampling: Sampling| Sampling { grammar: form(&schema.to_string()), ..sampling };
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 7}}\n</tool_call>";
    let said = "{\"a\": \"<tool_call>{} \"}";
    let begins = "{ Sure!";
    for (text, calls, content) in [(call, 1, ""), (said, 0, said), (begins, 0, "")] {
        for tokens in [true, false] {
            let model = saying(tokens, ids(text));
            let sampling = Sampling { think: Think::Off, ..formed(greedy()) };
            let (reply, finish) = take(model.turn(&asked, &sampling).unwrap());
            assert_eq!((reply.calls.len(), finish), (calls, Some(Finish::Stop)), "{reply:?}");
            let value = serde_json::from_str::<Value>(&reply.content);
            assert!(calls == 1 || value.unwrap()["a"].is_string(), "{reply:?}");
            assert!(content.is_empty() || reply.content == content, "{reply:?}");
            for (name, arguments) in &reply.calls {
                assert_eq!((&**name, &**arguments), ("f", "{\"n\": 7}"));
            }
        }
        // After thoughts too.
        let thought = [ids("<tool_call> hm"), vec![CLOSE], ids(text)].concat();
        let (reply, _) = take(saying(true, thought).turn(&asked, &formed(thinking())).unwrap());
        assert_eq!((&*reply.reasoning, reply.calls.len()), ("<tool_call> hm", calls), "{reply:?}");
    }
    // Two calls, unless there may be one.
    let twice = format!("{call}\n{call}");
    for (single, calls) in [(false, 2), (true, 1)] {
        let asked = Ask { single, ..asked.clone() };
        let (reply, _) = take(saying(true, ids(&twice)).turn(&asked, &formed(greedy())).unwrap());
        assert_eq!(reply.calls.len(), calls, "{reply:?}");
        let (reply, _) = take(saying(true, ids(&twice)).turn(&asked, &greedy()).unwrap());
        assert_eq!(reply.calls.len(), calls, "{reply:?}");
    }
    // A form that may begin as a call does is refused.
    let grammar = Some(Arc::new(Grammar::Regex(".*".into())));
    let both = saying(true, ids("a")).turn(&asked, &Sampling { grammar, ..greedy() });
    assert!(matches!(both, Err(Error::Option { option: "grammar", .. })));
}

/// Whatever a model likes to write, a call that it finishes has arguments by its tool's schema, whether
/// its tags are tokens or text, and whether it may call or must.
#[test]
fn calls_are_held_to_their_schemas() {
    let parameters = json!({"type": "object", "required": ["n", "of"], "additionalProperties": false,
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "of": {"enum": ["a", "bc"]},
            "free": {"type": "string", "maxLength": 3}}});
    let tools = vec![
        Tool::function("f", "F.", parameters),
        Tool::function(
            "other",
            "Other.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ),
    ];
    let choices = [
        ToolChoice::Auto,
        ToolChoice::Required,
        ToolChoice::Named("f".into()),
        ToolChoice::Named("other".into()),
    ];
    for likes in ["}9\"b, x", "\n\t 0", "x{[\"\\", "o\"9a}", "-1.5e", "\",:fn"] {
        for choice in &choices {
            let ask = Ask { tools: tools.clone(), choice: choice.clone(), ..ask() };
            let begun = if *choice == ToolChoice::Auto { "So: <tool_call>" } else { "" };
            let sampling = Sampling { think: Think::Off, ..greedy() };
            let turn = liking(begun, likes).turn(&ask, &sampling).unwrap();
            let (reply, finish) = take(turn);
            let context = format!("{likes:?} {choice:?}: {reply:?}");
            assert!(!reply.calls.is_empty() && finish == Some(Finish::Stop), "{context}");
            for (name, arguments) in &reply.calls {
                let value: Value = serde_json::from_str(arguments).unwrap();
                let object = value.as_object().unwrap();
                match name.as_str() {
                    "f" => {
                        assert!((0..100).contains(&object["n"].as_i64().unwrap()), "{context}");
                        assert!(object["of"] == "a" || object["of"] == "bc", "{context}");
                        assert!(
                            object.keys().all(|k| ["n", "of", "free"].contains(&&**k)),
                            "{context}"
                        );
                    }
                    name => assert_eq!(name, "other", "{context}"),
                }
                if let ToolChoice::Named(only) = choice {
                    assert_eq!(name, only, "{context}");
                }
            }
            assert_eq!(reply.content, if begun.is_empty() { "" } else { "So:" }, "{context}");
        }
    }
    // Thoughts come first, also where a call must follow.
    let asked = Ask { tools: tools.clone(), choice: ToolChoice::Required, ..ask() };
    let (reply, _) = take(liking("hm</think>", "o\"9").turn(&asked, &thinking()).unwrap());
    assert_eq!((&*reply.reasoning, reply.calls.len()), ("hm", 1), "{reply:?}");
    // None shows no tools and reads no calls, and what can't be is refused.
    let none = Ask { tools: tools.clone(), choice: ToolChoice::None, ..ask() };
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let (reply, _) = take(saying(true, ids(text)).turn(&none, &greedy()).unwrap());
    assert_eq!((&*reply.content, reply.calls.len()), (text, 0));
    for (tools, choice) in [(tools, ToolChoice::Named("g".into())), (vec![], ToolChoice::Required)]
    {
        let asked = Ask { tools, choice, ..ask() };
        let refused = saying(true, ids("a")).turn(&asked, &greedy());
        assert!(matches!(refused, Err(Error::Option { option: "tool_choice", .. })));
    }
}

/// A model that writes this, then likes some bytes, in this order, and after a call its end.
fn liking(begun: &str, likes: &'static str) -> Model {
    let limits = limits(2, CONTEXT, 2 * CONTEXT, 64);
    let (begun, close) = (ids(begun), ids("</tool_call>"));
    let prompt = std::sync::Mutex::new(None);
    let executor = Scripted::new(&limits, move |seen| {
        let start = *prompt.lock().unwrap().get_or_insert(seen.len());
        let said = &seen[start..];
        let mut logits = vec![0.0; VOCAB];
        for (rank, byte) in likes.bytes().enumerate() {
            logits[id_of(byte) as usize] = 20.0 - rank as f32;
        }
        if let Some(id) = begun.get(said.len()) {
            logits[*id as usize] = 30.0;
        } else if said.ends_with(&close) {
            logits[END as usize] = 30.0;
        }
        logits
    });
    let now = || DateTime::from_unix(0);
    Model::new(Box::new(executor), limits, VOCAB, language(false), now).unwrap()
}
