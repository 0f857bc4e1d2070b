//! Rows of faults in terminals: pastes, pipes, code pages, Ctrl-C.
use super::*;
use rig::{SHORT, command, piped, said};
use rinfer_fakehub as fake;
use std::path::Path;
use std::process::{Command, Output};

/// An answer that does not end: neither of what would end it may be said.
const ENDLESS: [&str; 7] =
    ["--context", "200000", "--temperature", "0", "--logit-bias", "2=-inf", "--logit-bias=4=-inf"];

/// I1: what is pasted is one message, and so is what is typed over several lines.
#[test]
fn i1_pasted_lines_are_one_message() {
    let folder = folder("i1");
    let m = tiny(&folder);
    let args = [&["chat", &m][..], &SHORT].concat();
    let Some(terminal) = Terminal::start("i1", &folder, &[], &args) else { return };
    terminal.asks();
    let lines: Vec<String> = (1..=30).map(|n| format!("line {n} of it \\")).collect();
    let pasted = lines.join("\n");
    terminal.pastes(&folder, &pasted);
    terminal.shows("line 30 of it");
    terminal.types(" end");
    terminal.keys(&["Enter"]);
    terminal.asks();
    terminal.types("a");
    terminal.keys(&["M-Enter"]);
    terminal.types("b");
    terminal.keys(&["C-j"]);
    terminal.types("c\\");
    terminal.keys(&["Enter"]);
    terminal.says("d");
    terminal.asks();
    terminal.says("\"\"\"");
    terminal.says("/e");
    terminal.says("f");
    terminal.says("\"\"\"");
    terminal.asks();
    terminal.says("/save said.json");
    terminal.shows("6 messages are in said.json");
    assert_eq!(said(&folder.join("said.json")), [&*format!("{pasted} end"), "a\nb\nc\nd", "/e\nf"]);
    assert_eq!(terminal.leaves(), "exit 0, restored");
}

/// I2: what pipes have is documented, is the same at every use, and has no escape codes.
#[test]
fn i2_pipes_have_text_alone() {
    let folder = folder("i2");
    let m = &*tiny(&folder);
    let all =
        |args: &[&str], input: &str| piped(&folder, &[args, &SHORT].concat(), input.as_bytes());
    let ok = |output: Output| {
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        output.stdout
    };
    let once = ok(all(&["run", m, "Hi"], ""));
    assert_eq!(ok(all(&["run", m], "Hi\n")), once);
    assert_eq!(ok(all(&["run", m, "Hi"], "there\n")), ok(all(&["run", m, "Hi\nthere"], "")));
    assert_eq!(ok(all(&["chat", m], "Hi")), once);
    let twice = ok(all(&["chat", m], "Hi\nAnd?\n"));
    assert!(twice.starts_with(&once) && twice.len() > once.len());
    // Several lines of one message.
    let two = ok(all(&["run", m, "a\nb"], ""));
    for input in
        ["a\\\nb\n", "\"\"\"a\nb\"\"\"\n", "\"\"\"\r\na\r\nb\r\n\"\"\"\r\n", "\u{feff}a\\\nb"]
    {
        assert_eq!(ok(all(&["chat", m], input)), two, "{input:?}");
    }
    // What fails is told on stderr, the rest is answered, and the exit code says so.
    let failed = all(&["chat", m], "/what\nHi\n/load nowhere.json\n/image x.png\n");
    let error = String::from_utf8_lossy(&failed.stderr);
    assert_eq!((failed.status.code(), &failed.stdout), (Some(1), &once), "{error}");
    for says in ["/what", "nowhere.json", "sees no images"] {
        assert!(error.contains(says), "{says}: {error}");
    }
    let open = all(&["chat", m], "\"\"\"\nHi\n");
    assert_eq!(open.status.code(), Some(2), "{open:?}");
    // Nor are there any where a person is at the other end.
    for line in ["printf 'Hi\\n' | $R chat", "$R run 'Hi'", "$R run 'Hi' < /dev/null"] {
        let program = env!("CARGO_BIN_EXE_rinfer");
        let line = line.replace("$R", program).replacen("chat", &format!("chat '{m}'"), 1);
        let line = line.replacen("run", &format!("run '{m}'"), 1);
        let line = format!("{line} {} > out 2> err", SHORT.join(" "));
        let Some(terminal) = Terminal::run("i2", &folder, &[], &line) else { return };
        assert_eq!(terminal.ends(), "exit 0, restored");
        let (out, err) = (folder.join("out"), folder.join("err"));
        assert_eq!(std::fs::read(out).unwrap(), once, "{line}");
        assert_eq!(std::fs::read_to_string(err).unwrap(), "", "{line}");
    }
}

/// I2: a person types while a program has the answers.
#[test]
fn i2_answers_go_to_a_file_while_one_types() {
    let folder = folder("i2_file");
    let m = &*tiny(&folder);
    let program = env!("CARGO_BIN_EXE_rinfer");
    let line = format!("{program} chat '{m}' {} > out", SHORT.join(" "));
    let Some(terminal) = Terminal::run("i2_file", &folder, &[], &line) else { return };
    terminal.asks();
    terminal.says("Hi");
    assert_eq!(terminal.leaves(), "exit 0, restored");
    let once = piped(&folder, &[&["run", m, "Hi"], &SHORT[..]].concat(), b"").stdout;
    assert_eq!(std::fs::read(folder.join("out")).unwrap(), once);
}

/// I3: text is UTF-8 as an argument, in pipes and at a console; what is not is refused by its place.
#[test]
fn i3_text_is_the_same_from_everywhere() {
    let folder = folder("i3");
    let m = &*tiny(&folder);
    let text = "Grüße, 你好 👩‍🚀 und ɐ";
    let run = |args: &[&str], input: &str| {
        let output = piped(&folder, &[args, &SHORT].concat(), input.as_bytes());
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let answer = run(&["run", m, text], "");
    assert_eq!(run(&["run", m], text), answer);
    assert_eq!(run(&["chat", m], &format!("{text}\n")), answer);
    for (args, place) in [(["run", m], "byte 5"), (["chat", m], "line 2, byte 2")] {
        let output = piped(&folder, &[&args[..], &SHORT].concat(), b"ok\nab\xff\n");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("not UTF-8") && error.contains(place), "{error}");
    }
    let args = [&["chat", m][..], &SHORT].concat();
    let Some(terminal) = Terminal::start("i3", &folder, &[], &args) else { return };
    terminal.asks();
    terminal.types(text);
    terminal.shows("und ɐ");
    terminal.keys(&["Enter"]);
    terminal.asks();
    terminal.says("/save typed.json");
    terminal.shows("2 messages are in typed.json");
    assert_eq!(said(&folder.join("typed.json")), [text]);
}

/// I5: Ctrl-C stops an answer, says how to leave, and leaves; the terminal is as it was.
#[test]
fn i5_ctrl_c_while_talking() {
    let folder = folder("i5");
    let m = tiny(&folder);
    let args = [&["chat", &m][..], &ENDLESS].concat();
    let Some(terminal) = Terminal::start("i5", &folder, &[], &args) else { return };
    let before = terminal.asks();
    // While it answers.
    terminal.says("Hi");
    terminal.waits("answer", |screen| screen.len() > before.len() + 40);
    terminal.keys(&["C-c"]);
    terminal.shows("stopped: the answer so far is part of the conversation");
    terminal.asks();
    // What is typed is taken back; then it is said how to leave.
    terminal.types("never sent");
    terminal.has("> never sent");
    terminal.keys(&["C-c"]);
    terminal.asks();
    terminal.keys(&["C-c"]);
    terminal.shows("Ctrl-C once more, Ctrl-D or /quit leaves");
    terminal.asks();
    terminal.says("/save stopped.json");
    terminal.shows("2 messages are in stopped.json");
    assert_eq!(said(&folder.join("stopped.json")), ["Hi"]);
    terminal.asks();
    terminal.keys(&["C-c"]);
    terminal.waits("hint", |screen| screen.matches("Ctrl-C once more").count() == 2);
    terminal.asks();
    terminal.keys(&["C-c"]);
    assert_eq!(terminal.ends(), "exit 130, restored");
    // Twice while it answers.
    let Some(terminal) = Terminal::start("i5", &folder, &[], &args) else { return };
    let before = terminal.asks();
    terminal.says("Hi");
    terminal.waits("answer", |screen| screen.len() > before.len() + 40);
    // The second may come when the first has stopped the answer.
    terminal.keys(&["C-c", "C-c"]);
    let over = |screen: &str| screen.ends_with("\n>") || screen.contains("exit 130, restored");
    let screen = terminal.waits("end", over);
    if !screen.contains("exit") {
        assert_eq!(terminal.leaves(), "exit 0, restored");
    }
}

/// I5: a prompt that is being read is left, and the message is not said.
#[test]
fn i5_ctrl_c_while_a_prompt_is_read() {
    let folder = folder("i5_prompt");
    let (m, long) = (tiny(&folder), "All work and no play. ".repeat(4500));
    std::fs::write(folder.join("long"), long).unwrap();
    let (program, endless) = (env!("CARGO_BIN_EXE_rinfer"), ENDLESS.join(" "));
    let line = format!("{program} chat '{m}' --system \"$(cat long)\" {endless}");
    let Some(terminal) = Terminal::run("i5_prompt", &folder, &[], &line) else { return };
    terminal.asks();
    terminal.says("Hi");
    terminal.shows("reading ");
    terminal.keys(&["C-c"]);
    let screen = terminal.shows("stopped before the answer began");
    assert!(!screen.contains("reading "), "{screen}");
    terminal.asks();
    terminal.says("/undo");
    terminal.shows("there is nothing to take back");
    terminal.asks();
    terminal.keys(&["Up", "Up"]);
    terminal.has("> Hi");
    terminal.keys(&["C-c"]);
    terminal.asks();
    assert_eq!(terminal.leaves(), "exit 0, restored");
}

/// I5: a load and a pull end at once; what was fetched is not fetched again.
#[test]
fn i5_ctrl_c_while_a_model_comes() {
    let folder = folder("i5_load");
    let m = tiny(&folder);
    // A part of the model that never comes.
    let part = Path::new(&m).join("tokenizer.json");
    std::fs::remove_file(&part).unwrap();
    assert!(Command::new("mkfifo").arg(&part).status().unwrap().success());
    let Some(terminal) = Terminal::start("i5_load", &folder, &[], &["chat", &m, "-v"]) else {
        return;
    };
    terminal.shows("opened in");
    terminal.keys(&["C-c"]);
    assert_eq!(terminal.ends(), "exit 130, restored");

    let hub = fake::Hub::start();
    let content = fake::Content::noise(8 << 20, 1);
    hub.repo("owner/repo", &[("m-Q4_K_M.gguf", content.clone())]);
    hub.faults(fake::Faults { rate: Some(1 << 20), ..fake::Faults::default() });
    let (cache, url) = (folder.join("cache"), hub.url());
    let models = format!("RINFER_MODELS={}", cache.display());
    let variables = [&*models, &format!("HF_ENDPOINT={url}"), "HF_HOME=none", "NO_PROXY=127.0.0.1"];
    let args = ["chat", "hf:owner/repo"];
    let Some(terminal) = Terminal::start("i5_pull", &folder, &variables, &args) else { return };
    terminal.shows(" of 8.4 MB, ");
    terminal.keys(&["C-c"]);
    assert_eq!(terminal.ends(), "exit 130, restored");
    hub.faults(fake::Faults::default());
    hub.log();
    let mut pull = command(&folder, &["pull", "hf:owner/repo"]);
    pull.env("RINFER_MODELS", &cache).env("HF_ENDPOINT", &url).env("HF_HOME", "none");
    let output = pull.env("NO_PROXY", "127.0.0.1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let path = String::from_utf8(output.stdout).unwrap();
    assert_eq!(std::fs::read(path.trim_end()).unwrap(), content.bytes());
}
