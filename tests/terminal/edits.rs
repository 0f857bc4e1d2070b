//! What is typed: by characters as people see them, over several lines, from earlier times, and on a window that
//! changes.
use super::*;
use rig::{SHORT, said};
use std::os::unix::fs::PermissionsExt;

#[test]
fn characters_are_taken_back_whole() {
    let folder = folder("characters");
    let m = tiny(&folder);
    let args = [&["chat", &m][..], &SHORT].concat();
    let Some(terminal) = Terminal::start("characters", &folder, &[], &args) else { return };
    terminal.asks();
    // Two columns each, after the two of the prompt.
    terminal.types("你好世界");
    terminal.is_at(10);
    terminal.keys(&["BSpace"]);
    terminal.is_at(8);
    terminal.keys(&["Left"]);
    terminal.is_at(6);
    terminal.keys(&["BSpace"]);
    terminal.is_at(4);
    terminal.shows("> 你世");
    terminal.keys(&["End"]);
    terminal.is_at(6);
    // A letter with an accent of its own, and a woman who is a scientist.
    terminal.types(" e\u{301}x");
    terminal.is_at(9);
    terminal.keys(&["BSpace", "BSpace"]);
    terminal.is_at(7);
    terminal.types("👩🏽‍🔬!");
    terminal.shows("!");
    terminal.keys(&["Left", "BSpace"]);
    terminal.is_at(7);
    terminal.keys(&["Delete"]);
    terminal.types("🇳🇴");
    terminal.keys(&["BSpace"]);
    terminal.types("ok");
    terminal.shows("> 你世 ok");
    terminal.keys(&["Enter"]);
    terminal.asks();
    terminal.says("/save typed.json");
    terminal.shows("2 messages are in typed.json");
    assert_eq!(said(&folder.join("typed.json")), ["你世 ok"]);
}

#[test]
fn a_window_changes_while_one_types() {
    let folder = folder("window");
    let m = tiny(&folder);
    let args = [&["chat", &m][..], &SHORT].concat();
    let Some(terminal) = Terminal::start("window", &folder, &[], &args) else { return };
    terminal.asks();
    let words: Vec<String> = (1..=30).map(|n| format!("word{n}")).collect();
    let text = words.join(" ");
    terminal.types(&text);
    terminal.shows("word30");
    for (columns, rows) in [(40, 12), (100, 30), (33, 10), (80, 24)] {
        terminal.resizes(columns, rows);
        terminal.types("x");
        terminal.shows("x");
        terminal.keys(&["BSpace"]);
    }
    terminal.types(" end");
    terminal.shows("end");
    terminal.keys(&["C-a"]);
    terminal.types("begin ");
    terminal.keys(&["Enter"]);
    terminal.asks();
    terminal.says("/save typed.json");
    terminal.shows("2 messages are in typed.json");
    assert_eq!(said(&folder.join("typed.json")), [format!("begin {text} end")]);
    assert_eq!(terminal.leaves(), "exit 0, restored");
}

#[test]
fn what_was_typed_is_kept() {
    let folder = folder("kept");
    let m = tiny(&folder);
    let args = [&["chat", &m][..], &SHORT].concat();
    let Some(terminal) = Terminal::start("kept", &folder, &[], &args) else { return };
    for text in ["one", " a secret", "two\\"] {
        terminal.asks();
        terminal.says(text);
    }
    terminal.says("lines");
    terminal.asks();
    assert_eq!(terminal.leaves(), "exit 0, restored");
    let file = folder.join("history");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("one\n") && kept.contains("two\\nlines\n"), "{kept}");
    assert!(!kept.contains("secret"), "{kept}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    drop(terminal);
    // The next conversation has it, and one that keeps nothing has not.
    let terminal = Terminal::start("kept", &folder, &[], &args).unwrap();
    terminal.asks();
    terminal.keys(&["Up", "Up", "Up"]);
    terminal.has("> one");
    terminal.keys(&["C-c"]);
    terminal.asks();
    assert_eq!(terminal.leaves(), "exit 0, restored");
    drop(terminal);
    let args = [&args[..], &["--no-history"]].concat();
    let terminal = Terminal::start("kept", &folder, &[], &args).unwrap();
    terminal.asks();
    terminal.keys(&["Up"]);
    terminal.says("three");
    terminal.asks();
    terminal.says("/save typed.json");
    terminal.shows("2 messages are in typed.json");
    assert_eq!(said(&folder.join("typed.json")), ["three"]);
    assert_eq!(terminal.leaves(), "exit 0, restored");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
    // What can't be read is left alone.
    std::fs::write(&file, b"#V2\n\xff\n").unwrap();
    drop(terminal);
    let terminal = Terminal::start("kept", &folder, &[], &args[..args.len() - 1]).unwrap();
    terminal.shows("what is typed is not kept");
    terminal.asks();
    terminal.says("four");
    terminal.asks();
    assert_eq!(terminal.leaves(), "exit 0, restored");
    assert_eq!(std::fs::read(&file).unwrap(), b"#V2\n\xff\n");
}

#[test]
fn tab_completes() {
    let folder = folder("tab");
    let m = tiny(&folder);
    let args = [&["chat", &m][..], &SHORT].concat();
    let variables = ["RINFER_MODELS=none", "HF_HOME=none"];
    let Some(terminal) = Terminal::start("tab", &folder, &variables, &args) else { return };
    terminal.asks();
    let check = |typed: &str, expect: &str| {
        terminal.types(typed);
        terminal.keys(&["Tab"]);
        terminal.shows(&format!("> {expect}"));
        terminal.keys(&["C-c"]);
        terminal.asks();
    };
    check("/par", "/params");
    check("/set temp", "/set temperature");
    check("/set think o", "/set think o");
    check("/load mod", "/load model/");
    check("/model demo:t", "/model demo:tiny");
    terminal.types("/re");
    terminal.keys(&["Tab", "Tab"]);
    terminal.shows("/retry");
    terminal.shows("/reset");
    terminal.keys(&["C-c"]);
    terminal.asks();
    terminal.says("/hlep");
    terminal.shows("is /help meant?");
}
