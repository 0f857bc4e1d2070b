//! What is shown: attributes only where they are wanted, nothing that drives the terminal, and conversations that go on
//! from a file.
use super::*;
use rig::piped;
use rinfer_testkit::chat;
use serde_json::Value;
use std::path::Path;

/// An answer that is this text and no other.
fn saying(text: &str) -> Vec<String> {
    let words = ["--choice", text, "--max-tokens", "400"];
    words.map(str::to_owned).to_vec()
}

fn shown(test: &str, variables: &[&str], says: &str, command: &str) -> Option<Terminal> {
    let folder = folder(test);
    let m = tiny(&folder);
    let says = saying(says);
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    let args = match command {
        "run" => [&["run", &m, "Hi"][..], &says].concat(),
        _ => [&["chat", &m][..], &says].concat(),
    };
    let terminal = Terminal::start(test, &folder, variables, &args)?;
    if command == "chat" {
        terminal.asks();
        terminal.says("Hi");
        terminal.asks();
    }
    Some(terminal)
}

const MARKDOWN: &str = "# Head\n\n**bold** and `code`\n\n```rust\nlet x = 1;\n```\ndone";

#[test]
fn markdown_is_attributes_around_the_text() {
    let Some(terminal) = shown("markdown", &[], MARKDOWN, "chat") else { return };
    assert!(terminal.text().contains(MARKDOWN), "{}", terminal.text());
    let painted = terminal.painted();
    for (attribute, text) in [("\x1b[1m", "bold"), ("\x1b[36m", "code"), ("\x1b[35m", "let")] {
        let at = painted.find(text).unwrap_or_else(|| panic!("{text}: {painted}"));
        let before = painted[..at].trim_end_matches("\x1b[49m");
        assert!(before.ends_with(attribute) || before.ends_with('m'), "{text}: {painted:?}");
        assert!(painted.contains(attribute), "{text}: {painted:?}");
    }
}

#[test]
fn no_color_has_none() {
    for (test, variable) in [("no_color", "NO_COLOR=1"), ("dumb", "TERM=dumb")] {
        let Some(terminal) = shown(test, &[variable], MARKDOWN, "chat") else { return };
        assert!(terminal.text().contains(MARKDOWN), "{}", terminal.text());
        assert!(!terminal.painted().contains('\x1b'), "{:?}", terminal.painted());
        assert_eq!(terminal.leaves(), "exit 0, restored");
    }
}

#[test]
fn a_hostile_model_drives_nothing() {
    // A title, a cleared screen, a line written over, a bell, and the second set of control characters.
    let hostile = "\x1b]0;owned\x07\x1b[2J\x1b[HA\rB\u{8}C\u{9b}2JD\u{202e}E";
    let harmless = "␛]0;owned␇␛[2J␛[HA␍B␈C\u{FFFD}2JD\u{FFFD}E";
    for (test, command) in [("hostile_chat", "chat"), ("hostile_run", "run")] {
        let Some(terminal) = shown(test, &[], hostile, command) else { return };
        terminal.shows(harmless);
    }
    // A program has it as it is.
    let folder = folder("hostile_pipe");
    let m = tiny(&folder);
    let output = piped(&folder, &["run", &m, "Hi", "--choice", hostile], b"");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{hostile}\n"));
}

/// Nor do names in files, and what errors and other commands quote.
#[test]
fn other_commands_drive_nothing() {
    let folder = folder("others");
    let m = tiny(&folder);
    let ids = b"a\x1b[2Jb".map(|byte| chat::id_of(byte).to_string());
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let args = [&["detokenize", &m][..], &ids].concat();
    let Some(terminal) = Terminal::start("others", &folder, &[], &args) else { return };
    terminal.shows("a␛[2Jb");
    let args = ["run", "no\x1b[2Jwhere.gguf", "Hi"];
    let terminal = Terminal::start("others", &folder, &[], &args).unwrap();
    terminal.shows("no␛[2Jwhere.gguf");
    assert_eq!(terminal.ends(), "exit 1, restored");
    let piped = piped(&folder, &[&["detokenize", &m][..], &ids].concat(), b"");
    assert_eq!(piped.stdout, b"a\x1b[2Jb");
}

/// Thoughts are shown before the answer, or are not, as one says.
#[test]
fn thoughts_are_shown_or_folded() {
    let folder = folder("thoughts");
    let m = tiny(&folder);
    let file = Path::new(&m).join("tokenizer_config.json");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("assistant\\n", "assistant\\n<think>")).unwrap();
    let args = [
        "chat",
        &m,
        "--choice",
        "done",
        "--max-tokens",
        "99",
        "--think-budget",
        "20",
        "--seed",
        "3",
    ];
    let Some(terminal) = Terminal::start("thoughts", &folder, &[], &args) else { return };
    terminal.asks();
    terminal.says("Hi");
    let shown = terminal.asks();
    terminal.says("/think");
    let thoughts = terminal.asks()[shown.len()..].to_owned();
    assert!(thoughts.len() > 20, "{thoughts}");
    assert!(shown.contains("\n\ndone\n"), "{shown}");
    terminal.says("/think fold");
    terminal.asks();
    terminal.says("Hi");
    let folded = terminal.asks();
    assert!(folded.ends_with("> Hi\ndone\n\n>"), "{folded}");
}

/// A conversation goes on from a file as it would have, and what is damaged is refused whole.
#[test]
fn a_conversation_goes_on_from_a_file() {
    let folder = folder("saved");
    let m = &*tiny(&folder);
    let file = folder.join("talk.json");
    let path = file.to_str().unwrap();
    let chat = |args: &[&str], input: &str| {
        let output = piped(&folder, &[&["chat", m], args].concat(), input.as_bytes());
        (output.stdout, String::from_utf8(output.stderr).unwrap(), output.status.code())
    };
    let args = [
        "--system",
        "Be odd",
        "--temperature",
        "1.3",
        "--seed",
        "11",
        "--max-tokens",
        "9",
        "--logit-bias",
        "2=-inf",
        "--stop",
        "qqq",
    ];
    let (whole, _, code) = chat(&args, &format!("Hi\n/save {path}\nAnd?\n/retry\n"));
    assert_eq!(code, Some(0));
    let (first, ..) = chat(&args, "Hi\n");
    assert!(whole.starts_with(&first) && whole.len() > first.len());
    let rest = &whole[first.len()..];
    assert_eq!(chat(&[], &format!("/load {path}\nAnd?\n/retry\n")).0, rest);
    assert_eq!(
        chat(&["--resume", path], "And?\n/retry\n"),
        (rest.to_vec(), String::new(), Some(0))
    );
    assert_ne!(chat(&args, "And?\n/retry\n").0, rest);
    // What the command line says goes before what the file does.
    assert_ne!(chat(&["--resume", path, "--seed", "12"], "And?\n/retry\n").0, rest);
    let (_, said, _) = chat(&["--resume", path, "--top-k", "7", "--system", "x"], "/params\n");
    assert!(said.contains("temperature 1.3, top-k 7") && said.contains("system: x"), "{said}");
    // The form of answers is part of it.
    let (_, said, _) =
        chat(&["--max-tokens", "40"], &format!("/json\nHi\n/save {path}\n/params\n"));
    assert!(said.contains("answers: a JSON object"), "{said}");
    assert!(chat(&[], &format!("/load {path}\n/params\n")).1.contains("answers: a JSON object"));
    let (_, said, code) = chat(&[], "/set regex a(?=b)\n/set regex [\n/params\n");
    assert!(said.contains("answers: any text") && said.matches("error: ").count() > 1, "{said}");
    assert_eq!(code, Some(1));
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&saved["format"], &saved["version"]), (&"rinfer conversation".into(), &1.into()));
    // Damaged, it changes nothing.
    let cut = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &cut[..cut.len() / 2]).unwrap();
    let (again, said, code) = chat(&args, &format!("Hi\n/load {path}\nAnd?\n/retry\n"));
    assert!(said.contains("talk.json") && said.contains("damaged"), "{said}");
    assert_eq!((again, code), (whole, Some(1)));
    let config = Path::new(m).join("config.json");
    let before = std::fs::read(&config).unwrap();
    let (_, said, _) = chat(&[], &format!("/save {}\n", config.display()));
    assert!(said.contains("something else"), "{said}");
    assert_eq!(std::fs::read(&config).unwrap(), before);
    assert_eq!(chat(&["--resume", path], "Hi\n").2, Some(1));
}

/// Another model goes on with the conversation, and one that can't be had changes nothing.
#[test]
fn another_model_goes_on() {
    let folder = folder("model");
    let m = &*tiny(&folder);
    let args = ["chat", m, "--temperature", "0", "--max-tokens", "9"];
    let chat = |input: &str| piped(&folder, &args, input.as_bytes());
    let plain = chat("Hi\nAnd?\n");
    let other = chat(&format!("Hi\n/model {m}\nAnd?\n"));
    assert_eq!(other.stdout, plain.stdout, "{other:?}");
    let failed = chat("Hi\n/model nowhere.gguf\nAnd?\n");
    assert_eq!((failed.stdout, failed.status.code()), (plain.stdout, Some(1)));
}
