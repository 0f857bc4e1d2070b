//! The program as its users meet it: arguments, streams, exit codes.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_testkit::serving::Serving;
use rinfer_testkit::{Golden, chat, embed, safetensors, shared};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder with a tiny chat model, made anew: tests may run at once.
fn tiny(test: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &dir);
    dir.to_str().unwrap().to_owned()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
    command.args(args).stdin(Stdio::null()).env_remove("RINFER_TIER").env_remove("RINFER_LOG");
    command
}

fn rinfer(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn piped(args: &[&str], input: &str) -> Output {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Stdout of a run that must succeed and say nothing else.
fn text(output: &Output) -> &str {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{:?}: {error}", output.status);
    std::str::from_utf8(&output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(text(&rinfer(args))).unwrap()
}

/// A run that must fail, with nothing on stdout.
fn check_failure(args: &[&str], code: i32, says: &[&str]) {
    check_failed(&rinfer(args), code, says);
}

fn check_failed(output: &Output, code: i32, says: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(output.stdout.is_empty());
    assert!(error.starts_with("error: "), "{error}");
    says.iter().for_each(|word| assert!(error.contains(word), "{word}: {error}"));
}

#[test]
fn failures_say_what_to_do() {
    let m = &tiny("failures_say_what_to_do");
    let long = "x".repeat(600);
    let ids = concat!(env!("CARGO_TARGET_TMPDIR"), "/failing-ids.json");
    let none = concat!(env!("CARGO_TARGET_TMPDIR"), "/failing-no-ids.json");
    std::fs::write(ids, "[5, 6]").unwrap();
    std::fs::write(none, "[]").unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = &listener.local_addr().unwrap().to_string();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["frobnicate"], 2, &["frobnicate"]),
        (&["run", "hf:owner", "Hi"], 1, &["hf:OWNER/REPO"]),
        (&["run"], 2, &["no model", ".gguf"]),
        (&["serve"], 2, &["no model", ".gguf"]),
        (&["serve", m, m], 2, &["two models", "NAME=MODEL"]),
        (&["serve", &format!("a,a={m}")], 2, &["two models", "'a'"]),
        (&["serve", &format!("a,={m}")], 2, &["empty name"]),
        (&["serve", &format!("a={m}"), "b=nowhere.gguf"], 1, &["nowhere.gguf"]),
        (&["serve", &format!("a={m}+nowhere")], 1, &["nowhere"]),
        (&["serve", "--models", "nowhere"], 1, &["--models nowhere"]),
        (&["serve", m, "--keep-alive", "soon"], 2, &["--keep-alive", "soon"]),
        (&["serve", m, "--addr", "0.0.0.0:0"], 1, &["0.0.0.0", "--api-key"]),
        (&["serve", m, "--addr", "here"], 2, &["--addr"]),
        (&["serve", m, "--addr", taken], 1, &[taken, "in use"]),
        (&["serve", m, "--addr", "127.0.0.1:0", "--api-key", ""], 1, &["API key is empty"]),
        (&["serve", m, "--addr", "127.0.0.1:0", "--sessions", file], 1, &["--sessions", file]),
        (&["run", m], 2, &["no prompt"]),
        (&["run", m, "Hi", "--top-p", "1.1"], 2, &["top_p is 1.1", "0 to 1"]),
        (&["run", m, "Hi", "--top-p", "-1"], 2, &["top_p is -1"]),
        (&["run", m, "Hi", "--temperature", "nan"], 2, &["temperature is NaN"]),
        (&["run", m, "Hi", "--temperature", "inf"], 2, &["temperature is inf"]),
        (&["run", m, "Hi", "--top-k", "-1"], 2, &["--top-k"]),
        (&["run", m, "Hi", "--max-tokens", "0"], 2, &["max_tokens is 0"]),
        (&["run", m, "Hi", "--stop", ""], 2, &["stop is an empty string"]),
        (&["run", m, "Hi", "--logit-bias", "x"], 2, &["ID=BIAS"]),
        (&["run", m, "Hi", "--logit-bias", "300=1"], 1, &["token 300", "below 256"]),
        (&["run", m, "Hi", "--threads", "0"], 2, &["--threads"]),
        (&["run", m, "Hi", "--threads", "18446744073709551615"], 1, &["threads", "at most"]),
        (&["run", m, "Hi", "--context", "513"], 1, &["513", "at most 512"]),
        (&["run", m, "Hi", "--memory", "1000"], 1, &["MiB", "smaller"]),
        (&["run", m, "Hi", "--raw", "--system", "x"], 2, &["--system"]),
        (&["run", m, &long], 1, &["620 tokens", "context of 512"]),
        (&["run", "nowhere.gguf", "Hi"], 1, &["nowhere.gguf"]),
        (&["inspect", env!("CARGO_MANIFEST_DIR")], 1, &[]),
        (&["detokenize", m, "999"], 1, &["999", "248"]),
        (&["eval", m, "--logits", "x"], 2, &["--ids"]),
        (&["eval", m, "--ids", none], 1, &["no tokens"]),
        (
            &["eval", m, "--ids", ids, "--logits", "x", "--greedy", "18446744073709551615"],
            1,
            &["at most 512"],
        ),
        (&["bench", "nowhere.gguf", "--prefill", "0", "--decode", "0"], 2, &["nothing to measure"]),
        (
            &["bench", m, "--depth", "1"],
            1,
            &["513", "at most 512", "--depth, --prefill or --decode"],
        ),
        (&["bench", m, "--depth", "18446744073709551615", "--parallel", "2"], 1, &["at most 512"]),
        (&["bench", m, "--context", "64"], 2, &["--context", "--depth"]),
        (
            &["bench", m, "--prefill", "8", "--decode", "8", "--parallel", "18446744073709551615"],
            1,
            &["at most 65536"],
        ),
    ];
    for (args, code, says) in cases {
        check_failure(args, *code, says);
    }
    let tier = |name: &str| command(&["doctor"]).env("RINFER_TIER", name).output().unwrap();
    check_failed(&tier("mmx"), 1, &["mmx", "scalar"]);
    assert!(text(&tier("scalar")).contains("scalar"));
    let log = command(&["doctor"]).env("RINFER_LOG", "loud").output().unwrap();
    check_failed(&log, 2, &["RINFER_LOG", "loud", "info"]);
}

#[test]
fn help_fits() {
    assert!(text(&rinfer(&["--help"])).lines().count() <= 24);
    for name in ["run", "chat", "inspect", "bench", "eval", "tokenize", "detokenize", "doctor"] {
        let help = rinfer(&[name, "--help"]);
        let first = text(&help).lines().next().unwrap();
        assert!(first.contains(&format!("rinfer {name}")), "{first}");
    }
    assert!(text(&rinfer(&["--version"])).starts_with("rinfer "));
}

#[test]
fn what_is_not_there_may_be_on_the_hub() {
    for (given, meant) in [
        ("acme/thing", "hf:acme/thing"),
        ("https://huggingface.co/acme/thing/blob/main/x.gguf", "hf:acme/thing"),
        ("../thing", "hf:owner/repo"),
        ("smollm2", "demo:tiny"),
    ] {
        check_failure(&["run", given, "Hi"], 1, &[given, "no such file or folder", meant]);
    }
}

#[test]
fn packages_have_completions_and_a_manual() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = rinfer(&["completions", shell]);
        for word in ["detokenize", "temperature"] {
            assert!(text(&script).contains(word), "{shell}: {word}");
        }
    }
    check_failure(&["completions", "tcsh"], 2, &["tcsh", "bash"]);
    let folder = std::env::temp_dir().join(format!("rinfer-{}-man", std::process::id()));
    assert_eq!(text(&rinfer(&["man", folder.to_str().unwrap()])), "");
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("rinfer.1").contains("rinfer\\-run(1)"));
    assert!(page("rinfer-run.1").contains("\\-\\-temperature"));
    check_failure(&["man", folder.join("rinfer.1/x").to_str().unwrap()], 1, &["rinfer.1/x"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn answers() {
    let m = &tiny("answers");
    let run = |args: &[&str]| -> String {
        let args = [&["run", m, "Hi"], args, &["--max-tokens", "30"]].concat();
        text(&rinfer(&args)).to_owned()
    };
    let hot = ["--temperature", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0"];
    let seeded = |seed: &str| run(&[&hot[..], &["--seed", seed]].concat());
    assert_eq!(seeded("1"), seeded("1"));
    assert_ne!(seeded("1"), seeded("2"));
    assert_ne!(run(&hot), run(&hot), "without a seed each answer is another");
    let greedy = run(&["--temperature", "0"]);
    assert!(greedy.ends_with('\n'));
    for same in [["--threads", "1"], ["--threads", "3"], ["--context", "200"], ["--seed", "9"]] {
        assert_eq!(run(&[&["--temperature", "0"], &same[..]].concat()), greedy, "{same:?}");
    }
    let args = ["run", m, "Hi", "--temperature", "0", "--max-tokens", "30"];
    let scalar = command(&args).env("RINFER_TIER", "scalar").output().unwrap();
    assert_eq!(text(&scalar), greedy);
    // Piped text is the prompt, or follows it.
    let from = |args: &[&str], input: &str| {
        let args = [&["run", m], args, &["--temperature", "0", "--max-tokens", "30"]].concat();
        text(&piped(&args, input)).to_owned()
    };
    assert_eq!(from(&[], "Hi\n"), greedy);
    assert_eq!(from(&["Hi"], ""), greedy);
    assert_eq!(from(&["Hi"], "there"), from(&["Hi\nthere"], ""));
    assert_ne!(from(&["Hi"], "there"), greedy);
    assert_ne!(run(&["--raw", "--temperature", "0"]), greedy);
    assert_ne!(run(&["--system", "Be brief", "--temperature", "0"]), greedy);
}

#[test]
fn answers_as_json() {
    let m = &tiny("answers_as_json");
    let args = ["run", m, "Hi", "--json", "--temperature", "0", "--max-tokens", "7", "--seed", "3"];
    let answer = json(&args);
    let plain = rinfer(&args.iter().copied().filter(|a| *a != "--json").collect::<Vec<_>>());
    assert_eq!(answer["text"].as_str().unwrap().trim_end(), text(&plain).trim_end());
    assert_eq!((&answer["seed"], &answer["generated_tokens"]), (&3.into(), &7.into()));
    assert_eq!(answer["finish"], "length");
    // <s>, two turns' markup, and "Hi".
    assert_eq!(answer["prompt_tokens"], 1 + "?user\nHi?\n?assistant\n".len());
    // --verbose speaks on stderr.
    let verbose = rinfer(&["run", m, "Hi", "-v", "--max-tokens", "3", "--seed", "77"]);
    let said = String::from_utf8_lossy(&verbose.stderr);
    for word in ["seed 77", "top-k 50", "tokens/s", "context 512"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// Thoughts are no part of the answer, and no longer than they may be.
#[test]
fn thoughts() {
    let m = &tiny("thoughts");
    let file = Path::new(m).join("tokenizer_config.json");
    let config = std::fs::read_to_string(&file).unwrap();
    let opened = config.replace("<|im_start|>assistant\\n", "<|im_start|>assistant\\n<think>");
    assert_ne!(opened, config);
    std::fs::write(&file, opened).unwrap();
    let args = ["run", m, "Hi", "--json", "--max-tokens", "30", "--seed", "3"];
    let all = json(&args);
    assert!(all["text"] == "" && !all["thoughts"].as_str().unwrap().is_empty(), "{all}");
    let some = json(&[&args[..], &["--think-budget", "12"]].concat());
    let thoughts = some["thoughts"].as_str().unwrap();
    assert!(all["thoughts"].as_str().unwrap().starts_with(thoughts), "{all} {some}");
    assert!(!some["text"].as_str().unwrap().contains("</think>") && some["text"] != "", "{some}");
    let none = json(&[&args[..], &["--think", "off"]].concat());
    assert!(none["thoughts"] == "" && none["text"] != "", "{none}");
    let printed = rinfer(&["run", m, "Hi", "--max-tokens", "30", "--seed", "3"]);
    assert_eq!(text(&printed), "\n", "thoughts are not printed where nobody watches");
    check_failure(&["run", m, "Hi", "--think", "maybe"], 2, &["--think", "auto, on or off"]);
    check_failure(&["run", m, "Hi", "--raw", "--think", "on"], 2, &["--think", "--raw"]);
    let chat =
        piped(&["chat", m, "--max-tokens", "20"], "/think\nHi\n/think\n/think off\n/params\n");
    let said = String::from_utf8_lossy(&chat.stderr);
    assert!(said.contains("no thoughts came") && said.contains("think off"), "{said}");
}

#[test]
fn answers_of_a_form() {
    let m = &tiny("answers_of_a_form");
    let file = |name: &str, text: &str| {
        let path = Path::new(m).join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let schema = file(
        "form.json",
        r#"{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 99},
            "t": {"enum": ["x", "yz"]}}, "required": ["n", "t"], "additionalProperties": false}"#,
    );
    let ask = |form: &[&str], most: &str| {
        json(&[&["run", m, "Hi", "--json", "--seed", "5", "--max-tokens", most][..], form].concat())
    };
    let whole = ask(&["--schema", &schema], "64");
    let text = whole["text"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    assert!((1..100).contains(&value["n"].as_i64().unwrap()) && value["t"].is_string(), "{text}");
    assert_eq!(whole["finish"], "stop");
    // Cut, it says so, and is the beginning of the whole.
    let tokens = whole["generated_tokens"].as_u64().unwrap();
    for most in 1..tokens {
        let cut = ask(&["--schema", &schema], &most.to_string());
        assert_eq!((&cut["finish"], &cut["generated_tokens"]), (&"length".into(), &most.into()));
        assert!(text.starts_with(cut["text"].as_str().unwrap()) && cut["text"] != text);
    }
    assert_eq!(ask(&["--schema", &schema], &tokens.to_string())["finish"], "stop");
    let yes = ask(&["--regex", "(yes|no), sir\\."], "64")["text"].clone();
    assert!(yes == "yes, sir." || yes == "no, sir.", "{yes}");
    let choice = ask(&["--choice", "red", "--choice", "bright green"], "9")["text"].clone();
    assert!(choice == "red" || choice == "bright green", "{choice}");
    let gbnf = file("moves.gbnf", "root ::= \"(\" root \")\" | [a-h] [1-8]");
    let moves = ask(&["--grammar", &gbnf], "400");
    let text = moves["text"].as_str().unwrap();
    assert!(text.starts_with(['(', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']), "{text}");
    let object = ask(&["--json-object"], "40")["text"].clone();
    assert!(object.as_str().unwrap().starts_with('{'), "{object}");
    let broken = file("broken.json", r#"{"properties": {"a": {"uniqueItems": true}}}"#);
    check_failure(&["run", m, "Hi", "--schema", &broken], 1, &["#/properties/a/uniqueItems"]);
    check_failure(&["run", m, "Hi", "--schema", "nowhere.json"], 2, &["nowhere.json"]);
    check_failure(&["run", m, "Hi", "--regex", "(?=x)"], 1, &["look-ahead"]);
    check_failure(&["run", m, "Hi", "--regex", "a", "--json-object"], 2, &["cannot be used with"]);
    check_failure(&["run", m, "Hi", "--choice", "a", "--regex", "b"], 2, &["cannot be used with"]);
    check_failure(&["run", m, "Hi", "--choice", ""], 1, &["number 1 is empty"]);
}

#[test]
fn a_base_model_goes_on() {
    let (base, chat) = (&tiny("base"), &tiny("not_base"));
    let write = |name: &str, text: &str| std::fs::write(Path::new(base).join(name), text).unwrap();
    write("tokenizer_config.json", r#"{"bos_token": "<s>"}"#);
    let args = |model, raw| {
        let raw: &[&str] = if raw { &["--raw"] } else { &[] };
        rinfer(&[&["run", model, "Hi", "--temperature", "0", "--max-tokens", "9"], raw].concat())
    };
    let noted = args(base, false);
    assert!(String::from_utf8_lossy(&noted.stderr).contains("no chat template"));
    assert_eq!(noted.stdout, args(chat, true).stdout);
    assert_eq!(text(&args(base, true)).as_bytes(), noted.stdout);
    check_failure(&["chat", base], 1, &["no chat template", "--raw"]);
    check_failure(&["run", base, "Hi", "--system", "x"], 2, &["--system"]);
    write("chat_template.jinja", "{% if %}");
    check_failure(&["run", base, "Hi"], 1, &["line 1", "--raw"]);
    assert!(args(base, true).status.success());
}

#[test]
fn conversations() {
    let m = &tiny("conversations");
    let chat = |input: &str| {
        let args = ["chat", m, "--temperature", "0", "--max-tokens", "12"];
        let output = piped(&args, input);
        let all = !String::from_utf8_lossy(&output.stderr).contains("error: ");
        assert_eq!(output.status.code(), Some(if all { 0 } else { 1 }));
        let out = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (out(output.stdout), out(output.stderr))
    };
    let (first, _) = chat("Hi\n");
    let (both, _) = chat("Hi\nAnd?\n/quit\nnot read\n");
    assert!(both.starts_with(&first) && both.len() > first.len());
    // A turn that is taken back, or forgotten, has not been.
    for forget in ["/undo", "/reset"] {
        let (again, said) = chat(&format!("Hi\n{forget}\nHi\n"));
        assert_eq!(again, format!("{first}{first}"), "{forget}");
        assert_eq!(said.contains("taken back: Hi"), forget == "/undo");
    }
    assert_eq!(chat("Hi\n/retry\n").0, format!("{first}{first}"), "greedy has one answer");
    assert_eq!(
        chat("H\\\ni\n").0,
        text(&piped(&["run", m, "H\ni", "--temperature", "0", "--max-tokens", "12"], ""))
    );
    assert_ne!(chat("/system Be brief\nHi\n").0, first);
    assert_eq!(chat("/system Be brief\n/system\nHi\n").0, first);
    let (_, said) = chat(
        "/set temperature 0.5\n/set top_k 7\n/set top-p 3\n/set nothing 1\n/params\n/help\n/what\n/stats\nHi\n/stats\n",
    );
    for word in [
        "temperature 0.5, top-k 7",
        "top_p is 3",
        "--nothing",
        "/retry",
        "no command /what",
        "no answer yet",
        "tokens/s",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // A message that does not fit does not end the conversation.
    let (answers, said) = chat(&format!("{}\nHi\n", "x".repeat(600)));
    assert_eq!(answers, first);
    assert!(said.contains("context of 512"), "{said}");
}

#[test]
fn tokens() {
    let m = &tiny("tokens");
    let ids = |args: &[&str]| -> Vec<u64> {
        let all = json(&[&["tokenize", m, "--json"], args].concat());
        all["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    let h = u64::from(chat::id_of(b'h'));
    assert_eq!(ids(&["h"]), [1, h]);
    assert_eq!(ids(&["--no-add-special", "h"]), [h]);
    assert_eq!(ids(&["</s>"]), [1, 2]);
    assert_eq!(ids(&["--no-parse-special", "</s>"]).len(), 5);
    assert_eq!(ids(&["--no-special", "</s>"]).len(), 4);
    let listed = rinfer(&["tokenize", m, "h"]);
    assert_eq!(text(&listed), format!("      1  <s>\n{h:>7}  h\n"));
    let all = "né 日本\n<|im_end|>";
    let tokenized = piped(&["tokenize", m, "--json", "--no-add-special"], all);
    assert_eq!(text(&piped(&["detokenize", m], text(&tokenized))), all);
    assert_eq!(text(&piped(&["detokenize", m, "--skip-special"], text(&tokenized))), "né 日本\n");
    assert_eq!(text(&rinfer(&["detokenize", m, &h.to_string(), "2"])), "h</s>");
    assert_eq!(json(&["detokenize", m, "--json", "1"])["text"], "<s>");
}

/// The golden's logits and greedy continuation, through the program alone.
#[test]
fn evaluates() {
    let m = &tiny("evaluates");
    let golden = Golden::load(&shared::goldens().join("llama3"));
    let (ids, logits, greedy, margins) = golden.prompt(0);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (ids_file, out) = (dir.join("eval-ids.json"), dir.join("eval-logits.safetensors"));
    std::fs::write(&ids_file, serde_json::to_string(&ids).unwrap()).unwrap();
    let n = greedy.len().to_string();
    let ids_at = ids_file.to_str().unwrap();
    let args = ["eval", m, "--ids", ids_at, "--logits", out.to_str().unwrap(), "--greedy", &n];
    assert_eq!(text(&rinfer(&[&args[..], &["--kv", "f32", "--quant", "f32"]].concat())), "");
    let found = safetensors::read(&std::fs::read(&out).unwrap());
    let found_logits = found["logits"].f32();
    assert_eq!(found["logits"].shape, [ids.len(), 256]);
    let worst = found_logits.iter().zip(&logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
    let sure = margins.iter().position(|m| *m < 1e-3).unwrap_or(greedy.len());
    assert_eq!(found["greedy"].i32()[..sure], greedy[..sure]);
    let report = json(&["eval", m, "--ids", ids_at, "--json"]);
    assert!(report["perplexity"].as_f64().unwrap() > 1.0);
    let report = json(&["eval", m, "--ids", ids_at, "--against", m, "--json"]);
    assert_eq!((&report["kl_mean"], &report["top1_agreement"]), (&0.0.into(), &1.0.into()));
}

/// A GGUF file that is written predicts as loading with its recipe does; adapters change what is said.
#[test]
fn bundles_to_gguf() {
    let m = &tiny("bundles");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (ids, out) = (dir.join("bundle-ids.json"), dir.join("bundle.gguf"));
    std::fs::write(&ids, serde_json::to_string(&(5..60).collect::<Vec<u32>>()).unwrap()).unwrap();
    let (ids, out) = (ids.to_str().unwrap(), out.to_str().unwrap());
    let saved = rinfer(&["bundle", m, "-o", out, "--to", "gguf", "--quant", "q8_0"]);
    assert!(saved.status.success() && saved.stdout.is_empty());
    assert!(String::from_utf8_lossy(&saved.stderr).contains("bundle.gguf: "));
    let perplexity = |args: &[&str]| {
        let report = json(&[&["eval", "--ids", ids, "--json"], args].concat());
        report["perplexity"].as_f64().unwrap()
    };
    let (written, loaded) = (perplexity(&[out]), perplexity(&[m, "--quant", "q8_0"]));
    assert!((written / loaded - 1.0).abs() < 1e-2, "{written} and {loaded}");
    let adapter = shared::goldens().join("lora/llama3.plain/0");
    let adapter = adapter.to_str().unwrap();
    let (with, none) = (format!("{adapter}=0.5"), format!("{adapter}=0"));
    assert!(perplexity(&[m, "--adapter", &with]) != perplexity(&[m]));
    assert!((perplexity(&[m, "--adapter", &none]) / perplexity(&[m]) - 1.0).abs() < 1e-2);
    // Over the GGUF file too, which is written with them, and over bundles.
    let near = perplexity(&[out, "--adapter", &with]) / perplexity(&[m, "--adapter", &with]);
    assert!((near - 1.0).abs() < 2e-2, "{near}");
    let merged = perplexity(&[out, "--adapter", adapter]);
    for (file, more) in [("bundle-again.gguf", &["--to", "gguf"][..]), ("bundle-again.rinf", &[])] {
        let file = dir.join(file);
        let file = file.to_str().unwrap();
        let saved = rinfer(&[&["bundle", out, "--adapter", adapter, "-o", file], more].concat());
        assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
        assert_eq!(perplexity(&[file]), merged);
    }
    let plain = dir.join("bundle-plain.rinf");
    let plain = plain.to_str().unwrap();
    assert!(rinfer(&["bundle", out, "-o", plain]).status.success());
    assert_eq!(perplexity(&[plain, "--adapter", adapter]), merged);
    check_failure(
        &["run", m, "x", "--adapter", "/nowhere"],
        1,
        &["/nowhere: there is no such file"],
    );
    check_failure(&["run", m, "x", "--adapter", "a=inf"], 2, &["finite scale"]);
    check_failure(&["run", m, "x", "--quant", "q9"], 2, &["q4_k_m", "int8int8"]);
    check_failure(&["bundle", m, "-o", out, "--to", "gguf", "--quant", "int4"], 1, &["q4_0"]);
}

#[test]
fn measures() {
    let m = &tiny("measures");
    let args = ["bench", m, "--prefill", "20", "--decode", "5", "--depth", "30"];
    let more = ["--parallel", "2", "--threads", "1", "--repeat", "2", "--json"];
    let report = json(&[&args[..], &more].concat());
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (result, (test, tokens)) in results.iter().zip([("prefill", 20), ("decode", 5)]) {
        assert_eq!((&result["test"], &result["tokens"]), (&test.into(), &tokens.into()));
        assert_eq!(result["depth"], 30);
        assert_eq!((&result["parallel"], &result["threads"]), (&2.into(), &1.into()));
        assert!(result["tok_per_s"].as_f64().unwrap() > 0.0);
    }
    let one = rinfer(&["bench", m, "--prefill", "0", "--decode", "3", "--repeat", "1"]);
    let table = text(&one);
    for column in ["| model ", " | params ", " | CPU ", " tg3 ", " ± 0.00 | "] {
        assert!(table.contains(column), "{column}: {table}");
    }
    assert!(!table.contains(" pp"), "{table}");
}

#[test]
fn measures_against_the_machine() {
    let m = &tiny("measures_against_the_machine");
    let args = ["bench", m, "--prefill", "20", "--decode", "5", "--depth", "7", "--repeat", "1"];
    let both = [&args[..], &["--threads", "1", "--profile", "--roofline"]].concat();
    let report = json(&[&both[..], &["--json"]].concat());
    assert!(report["size_bytes"].as_u64().unwrap() > report["parameters"].as_u64().unwrap());
    let results = report["results"].as_array().unwrap();
    for result in results {
        let kinds = result["profile"].as_object().unwrap();
        let sum = |of: &str| kinds.values().map(|kind| kind[of].as_f64().unwrap()).sum::<f64>();
        assert!((sum("percent") - 100.0).abs() < 1e-6 && kinds.len() == 11, "{kinds:?}");
        let rate = result["tok_per_s"].as_f64().unwrap();
        let seconds = result["tokens"].as_f64().unwrap() / rate;
        assert!(sum("seconds") > 0.0 && sum("seconds") <= seconds * 1.001, "{kinds:?}");
        let roofline = result["roofline"].as_object().unwrap();
        // A machine without vectors has no peak of them.
        let figure = |(key, value): (&String, &Value)| match value.as_f64() {
            Some(figure) => assert!(figure > 0.0, "{key}"),
            None => assert!(key.contains("peak") && value.is_null(), "{key}"),
        };
        roofline.iter().for_each(figure);
        assert_eq!(roofline.len(), 9);
        let of = |key: &str| roofline[key].as_f64().unwrap();
        let (bytes, percent) = (of("weight_bytes_per_token") * rate, of("percent_of_read"));
        assert!((bytes / of("weight_bytes_per_s") - 1.0).abs() < 1e-6);
        assert!((100.0 * bytes / of("read_bytes_per_s") / percent - 1.0).abs() < 1e-6);
    }
    // A prompt reads the weights once, and decoding once a token.
    let bytes = |i: usize| results[i]["roofline"]["weight_bytes_per_token"].as_f64().unwrap();
    assert!((bytes(0) * 20.0 / bytes(1) - 1.0).abs() < 1e-6);
    let tables = rinfer(&both);
    let columns = ["| pp20 @ d7 ", "| tg5 @ d7 ", "| projections ", "| whole ", "tg5 @ d7 µs | "];
    for says in [&columns[..], &["read GB/s |", "weights MB/token |", "% of peak |"]].concat() {
        assert!(text(&tables).contains(says), "{says}: {}", text(&tables));
    }
}

#[test]
fn looks_without_loading() {
    let m = &tiny("looks_without_loading");
    let report = json(&["inspect", m, "--json", "--context", "128", "--tensors"]);
    assert_eq!(report["architecture"]["layers"], 3);
    assert_eq!(report["memory"]["context"], 128);
    assert!(report["memory"]["weights bytes"].as_u64().unwrap() > 0);
    assert_eq!(report["template"]["begin tokens"], 1);
    assert!(report["template"]["several turns"].as_str().unwrap().starts_with("ok"));
    assert_eq!(report["tokenizer"]["end"].as_array().unwrap().len(), 3);
    assert!(!report["tensors"].as_object().unwrap().is_empty());
    let outline = rinfer(&["inspect", m]);
    assert!(text(&outline).contains("family"));
    assert!(text(&outline).contains("licence                not stated"), "{}", text(&outline));
    std::fs::write(Path::new(m).join("README.md"), "---\nlicense: mit\n---\n").unwrap();
    assert_eq!(json(&["inspect", m, "--json"])["licence"], "mit");
    let machine = json(&["doctor", "--json"]);
    assert!(machine["threads"].as_u64().unwrap() >= 1);
    assert!(machine["usable_tiers"].as_array().unwrap().contains(&"scalar".into()));
}

/// E4: what fits is planned before it is loaded: the largest context that does, and by default no more
/// than that.
#[test]
fn e4_memory_bounds_the_context() {
    let m = &tiny("e4_memory_bounds_the_context");
    let config = Path::new(m).join("config.json");
    let long = std::fs::read_to_string(&config).unwrap().replace("512", "2048");
    std::fs::write(&config, long).unwrap();
    let plan = |args: &[&str]| {
        let report = json(&[&["inspect", m, "--json", "--threads", "1"], args].concat());
        report["memory"].clone()
    };
    let total = |context: &str| plan(&["--context", context])["total bytes"].as_u64().unwrap();
    let (enough, short) = (total("1024").to_string(), (total("1024") - 1).to_string());
    let largest = |room: &str| plan(&["--memory", room])["largest context"].clone();
    assert_eq!((largest(&enough), largest(&short)), (1024.into(), 960.into()));
    assert_eq!((largest("4G"), largest("1k")), (2048.into(), Value::Null));
    let tight = plan(&["--context", "2048", "--memory", &enough]);
    assert_eq!((&tight["fits"], &tight["context"]), (&false.into(), &2048.into()));
    assert_eq!(tight["available bytes"].to_string(), enough);
    let free = plan(&["--memory", &short]);
    assert_eq!((&free["fits"], &free["context"]), (&true.into(), &960.into()));
    let whole = plan(&["--memory", "4G"]);
    assert_eq!(whole["state bytes a sequence"], 0);
    // Three layers' keys and values of two heads of 16, two bytes each.
    assert_eq!(whole["state bytes a token"], 3 * 2 * 2 * 16 * 2);
    let text = text(&rinfer(&["inspect", m, "--memory", "4G"])).to_owned();
    assert!(text.contains("largest context") && text.contains("4294967296 (4096.0 MiB)"), "{text}");
    let book = Path::new(m).join("book.txt");
    std::fs::write(&book, "x".repeat(5000)).unwrap();
    let book = book.to_str().unwrap();
    for args in [&["run", m, "Hi"][..], &["eval", m, "--text", book], &["chat", m]] {
        let asked = [args, &["--threads", "1", "--context", "2048", "--memory", &enough]].concat();
        check_failure(&asked, 1, &["a context of 2048", "a context of 1024 would fit"]);
    }
    let bench = ["bench", m, "--threads", "1", "--decode", "0", "--prefill", "2000"];
    check_failure(&[&bench[..], &["--memory", "1M"]].concat(), 1, &["MiB are available"]);
    let shrunk = ["run", m, "Hi", "--threads", "1", "--max-tokens", "1", "--memory", &short];
    let output = rinfer(&shrunk);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("context 960, not 2048"), "{said}");
    check_failure(&["run", m, "Hi", "--memory", "4GB"], 2, &["--memory", "4G"]);
}

/// Sequences whose shares of a batch are not whole numbers are together in one pass all the same.
#[test]
fn sequences_share_passes() {
    let m = &tiny("sequences_share_passes");
    let bytes = |parallel: usize| {
        let args = ["bench", m, "--prefill", "340", "--decode", "0", "--repeat", "1", "--json"];
        let more = ["--threads", "1", "--roofline", "--parallel", &parallel.to_string()];
        let report = json(&[&args[..], &more].concat());
        let token = report["results"][0]["roofline"]["weight_bytes_per_token"].as_f64().unwrap();
        token * (340 * parallel) as f64
    };
    // Two passes of 512 rows at most are as good as 3 * 340 rows can have, and one is 340's.
    assert!(bytes(3) < bytes(1) * 2.001);
}

/// R13: a server that is asked to end does, with 0.
#[test]
fn serves() {
    let m = &tiny("serves");
    // Two models: each is loaded when it is asked for.
    let (tiny, other) = (format!("small,tiny={m}"), format!("other={m}"));
    let args = ["serve", &tiny, &other, "--addr", "127.0.0.1:0", "--parallel", "2"];
    let server = Serving::start(&mut command(&args));
    let mut socket = std::net::TcpStream::connect(server.addr).unwrap();
    let body =
        r#"{"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}"#;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: ";
    write!(socket, "{head}{}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("chat.completion"), "{answer}");
    assert_eq!(server.end(), Some(0));
}

/// A reader that has enough ends the program quietly.
#[test]
fn a_closed_pipe_is_no_failure() {
    let m = &tiny("a_closed_pipe_is_no_failure");
    let mut command = command(&["inspect", m, "--tensors"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// What can't be read or written of the streams is told by which.
#[cfg(target_os = "linux")]
#[test]
fn streams_that_fail_are_named() {
    let m = &tiny("streams_that_fail_are_named");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(&["inspect", m]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    check_failed(&output.wait_with_output().unwrap(), 1, &["stdout: ", "space"]);
    let folder = std::fs::File::open("/").unwrap();
    check_failed(&command(&["tokenize", m]).stdin(folder).output().unwrap(), 1, &["stdin: "]);
}

/// The library's examples, where this build made them.
#[test]
fn examples() {
    let folder = Path::new(env!("CARGO_BIN_EXE_rinfer")).parent().unwrap().join("examples");
    for name in ["chat", "batch", "embed"] {
        let program = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        if !program.exists() {
            println!("{} is not built: it did not run", program.display());
            continue;
        }
        let model = if name == "embed" { embedding } else { tiny };
        let output = Command::new(program).arg(model(&format!("example_{name}"))).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{name}: {output:?}");
    }
}

#[test]
fn a_real_model() {
    let Some(path) = shared::model("smollm2-135m-instruct-q4_1.gguf") else { return };
    let m = path.to_str().unwrap();
    let start = Instant::now();
    let args = ["run", m, "--raw", "The capital of France is", "--temperature", "0"];
    let output = rinfer(&[&args[..], &["--max-tokens", "3"]].concat());
    println!("a first answer of 3 tokens after {:.2} s", start.elapsed().as_secs_f64());
    assert!(text(&output).starts_with(" Paris."), "{:?}", text(&output));
    let chat = |seed: &str| {
        let args = ["run", m, "Write a poem.", "--max-tokens", "16", "--seed", seed];
        text(&rinfer(&[&args[..], &["--temperature", "1"]].concat())).to_owned()
    };
    assert_eq!(chat("1"), chat("1"));
    assert_ne!(chat("1"), chat("2"));
    interrupted(m);
}

/// Ctrl-C in the middle of an answer: what was said stays, the exit code says so.
fn interrupted(model: &str) {
    let args = ["run", model, "Count to a thousand, one number a line.", "--seed", "1"];
    let mut command = command(&args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let start = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(kill.success() && start.elapsed() < Duration::from_secs(5));
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stderr.is_empty() && output.stdout.ends_with(b"\n"));
}

/// A folder with a tiny embedding model.
fn embedding(test: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    embed::write_model(&Golden::load(&shared::goldens().join("embed/bert")), &dir);
    dir.to_str().unwrap().to_owned()
}

#[test]
fn texts_become_vectors() {
    let m = &embedding("texts_become_vectors");
    let dir = Path::new(m);
    let rows = |output: &Output| -> Vec<Value> {
        text(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let found = rows(&rinfer(&["embed", m, "one", "two"]));
    assert_eq!(found.len(), 2);
    assert_eq!(found[1]["embedding"].as_array().unwrap().len(), embed::WIDTH);
    assert_eq!((&found[0]["tokens"], &found[1]["index"]), (&5.into(), &1.into()));
    let lines = found.iter().map(|row| &row["embedding"]);
    assert_eq!(
        rows(&piped(&["embed", m], "one\ntwo\n"))
            .iter()
            .map(|r| &r["embedding"])
            .collect::<Vec<_>>(),
        lines.collect::<Vec<_>>()
    );

    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, two) = (write("one", "one"), write("two", "two"));
    let jsonl = write("all.jsonl", "{\"text\": \"one\"}\n\n\"two\"\n");
    assert_eq!(rows(&rinfer(&["embed", m, "--file", &one, "--lines", &two])), found);
    assert_eq!(rows(&rinfer(&["embed", m, "--jsonl", &jsonl])), found);

    let array = dir.join("all.npy");
    let array = array.to_str().unwrap();
    assert!(
        text(&rinfer(&["embed", m, "one", "two", "--dimensions", "8", "-o", array])).is_empty()
    );
    let bytes = std::fs::read(array).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(start.is_multiple_of(64) && bytes[start - 1] == b'\n');
    let header = String::from_utf8_lossy(&bytes[10..start]).into_owned();
    assert!(header.contains("'descr': '<f4'") && header.contains("'shape': (2, 8)"), "{header}");
    let numbers: Vec<f32> =
        bytes[start..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let whole = found[1]["embedding"].as_array().unwrap();
    let length = numbers[8..].iter().map(|x| x * x).sum::<f32>();
    assert!(numbers.len() == 16 && (length - 1.0).abs() < 1e-5);
    let ratio = whole[0].as_f64().unwrap() / whole[1].as_f64().unwrap();
    assert!((f64::from(numbers[8] / numbers[9]) - ratio).abs() < 1e-4 * ratio.abs());

    let same = text(&rinfer(&["embed", m, "one", "one", "--similarity"])).to_owned();
    assert_eq!(same, " 1.0000  1.0000\n 1.0000  1.0000\n");
    let (long, words) = ("x".repeat(60), "62 tokens");
    check_failure(&["embed", m, &long], 1, &["input 0", words, "at most 48"]);
    let cut = rinfer(&["embed", m, &long, "--truncate"]);
    assert!(String::from_utf8_lossy(&cut.stderr).contains("input 0: 14 of 62 tokens were cut off"));
    assert!(String::from_utf8_lossy(&cut.stdout).contains("\"truncated\":14"));

    let broken = write("broken.jsonl", "\"one\"\n{\"txt\": 1}\n");
    check_failure(&["embed", m, "--jsonl", &broken], 2, &["broken.jsonl", "line 2", "text"]);
    check_failure(&["embed", m, "x", "--prompt", "other"], 1, &["other", "document, query"]);
    check_failure(&["embed", m, "x", "--dimensions", "41"], 1, &["41", "1 to 40"]);
    check_failure(&["embed", m], 2, &["no text", "--lines"]);
    check_failure(&["run", m, "Hi"], 1, &["vectors", "rinfer embed"]);
    let about = json(&["inspect", m, "--json"]);
    assert_eq!(about["architecture"]["makes"], "vectors of texts, of 40 elements");
    assert_eq!((&about["memory"]["context"], &about["memory"]["fits"]), (&48.into(), &true.into()));
    check_failure(&["embed", &tiny("texts_are_written"), "x"], 1, &["writes texts", "--pooling"]);
}
