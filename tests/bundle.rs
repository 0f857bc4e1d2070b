//! Bundles as their users meet them: written whole or not at all, taken by every command, and within
//! a program that runs by itself.
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_testkit::{Golden, chat, shared};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A folder of the test's own, and in it one with a tiny chat model.
fn tiny(test: &str) -> (PathBuf, String) {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    let model = dir.join("model");
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &model);
    std::fs::write(model.join("README.md"), "---\nlicense: mit\n---\n").unwrap();
    (dir, model.to_str().unwrap().to_owned())
}

fn command(program: impl AsRef<Path>, args: &[&str]) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(args).stdin(Stdio::null()).env_remove("RINFER_TIER").env_remove("RINFER_LOG");
    command
}

const RINFER: &str = env!("CARGO_BIN_EXE_rinfer");

fn run(program: impl AsRef<Path>, args: &[&str]) -> Output {
    command(program, args).output().unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Stdout of what must succeed.
fn text(output: &Output) -> String {
    let (out, error) = said(output);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    out
}

fn check_failed(output: &Output, code: i32, says: &[&str]) {
    let (_, error) = said(output);
    assert_eq!(output.status.code(), Some(code), "{error}");
    says.iter().for_each(|word| assert!(error.contains(word), "{word}: {error}"));
}

/// Every command gives of the bundle what it gives of the model.
#[test]
fn every_command_takes_a_bundle() {
    let (dir, model) = tiny("every_command_takes_a_bundle");
    let made = dir.join("tiny.rinf");
    let made = made.to_str().unwrap();
    let output = run(RINFER, &["bundle", &model, "-o", made, "--verify"]);
    let (_, error) = said(&output);
    assert!(output.status.success() && error.contains("every checksum is right"), "{error}");
    assert!(error.contains("model, licence: mit"), "{error}");
    let cases: [&[&str]; 6] = [
        &["run", "", "Hi", "--seed", "7", "--max-tokens", "9"],
        &["run", "", "Hi", "--raw", "--temperature", "0", "--max-tokens", "9"],
        &["tokenize", "", "Hello <|im_end|>", "--json"],
        &["detokenize", "", "70", "71", "4"],
        &["eval", "", "--ids", "ids.json", "--json"],
        &["chat", "", "--seed", "1"],
    ];
    std::fs::write(dir.join("ids.json"), "[70, 71, 72, 73, 74]").unwrap();
    for case in cases {
        let of = |model: &str| {
            let args: Vec<&str> =
                case.iter().map(|a| if a.is_empty() { model } else { a }).collect();
            text(&command(RINFER, &args).current_dir(&dir).output().unwrap())
        };
        assert_eq!(of(made), of(&model), "{case:?}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&text(&run(RINFER, &["inspect", "--json", "--tensors", made])))
            .unwrap();
    assert_eq!(report["licence"], "mit");
    assert_eq!(report["tensors"]["output_norm.weight"], "F32 [64]");
    assert_eq!(report["tensors"]["token_embd.weight"], "F32 [256, 64]");
    text(&run(RINFER, &["bench", made, "--prefill", "8", "--decode", "8", "--repeat", "1"]));
    check_failed(&run(RINFER, &["run", made, "Hi", "--quant", "f32"]), 1, &["quant f32", "native"]);
    check_failed(&run(RINFER, &["bundle", &model]), 2, &["-o FILE"]);
    check_failed(&run(RINFER, &["bundle", &model, "--verify"]), 2, &["is no bundle"]);
    let nowhere = dir.join("nowhere").join("a.rinf");
    let nowhere = nowhere.to_str().unwrap();
    check_failed(&run(RINFER, &["bundle", &model, "-o", nowhere]), 1, &["a.rinf was not written"]);
    // One byte of a tensor.
    let mut bytes = std::fs::read(made).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(made, &bytes).unwrap();
    check_failed(&run(RINFER, &["bundle", made, "--verify"]), 1, &["tiny.rinf", "is damaged"]);
    std::fs::write(made, &bytes[..middle]).unwrap();
    check_failed(&run(RINFER, &["run", made, "Hi"]), 1, &["tiny.rinf", "cut short"]);
}

/// A folder of some size, to be written for a while.
fn large(dir: &Path) -> String {
    let mut golden = Golden::load(&shared::goldens().join("llama3"));
    golden.config["vocab_size"] = (1 << 17).into();
    for (_, matrix) in golden.weights.iter_mut().filter(|(_, t)| t.shape == [256, 64]) {
        matrix.bytes.resize((matrix.bytes.len() / 256) << 17, 0);
        matrix.shape[0] = 1 << 17;
    }
    let large = dir.join("large");
    chat::write_model(&golden, &large);
    std::fs::write(large.join("config.json"), golden.config.to_string()).unwrap();
    large.to_str().unwrap().to_owned()
}

/// Kills the writer of `made` at several times: there is the old file, or none, or what `whole` says is
/// all of it.
fn check_killed(args: &[&str], made: &Path, whole: &dyn Fn()) {
    let (mut killed, mut wait) = (0, Duration::from_millis(4));
    for old in [None, Some(b"old")] {
        loop {
            let _ = std::fs::remove_file(made);
            old.iter().for_each(|old| std::fs::write(made, old).unwrap());
            let mut child = command(RINFER, args).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(wait);
            let ended = child.try_wait().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            if ended.is_some() {
                break;
            }
            let found = std::fs::read(made).ok();
            if found.is_some() && found != old.map(|old| old.to_vec()) {
                // It was done, but for its last words.
                whole();
                break;
            }
            killed += 1;
            wait = wait * 3 / 2;
        }
        wait = Duration::from_millis(4);
    }
    assert!(killed > 2, "never killed");
    text(&run(RINFER, args));
    whole();
    let left = std::fs::read_dir(made.parent().unwrap()).unwrap();
    let part = |e: std::io::Result<std::fs::DirEntry>| {
        e.unwrap().path().extension().is_some_and(|extension| extension == "part")
    };
    assert!(!left.into_iter().any(part));
}

/// Killed at any time, there is the old file or none.
#[test]
fn a_killed_writer_leaves_the_old_file() {
    let (dir, _) = tiny("a_killed_writer_leaves_the_old_file");
    let (large, made) = (large(&dir), dir.join("a.rinf"));
    let made = made.to_str().unwrap();
    let args = ["bundle", &large, "-o", made];
    check_killed(&args, Path::new(made), &|| {
        text(&run(RINFER, &["bundle", made, "--verify"]));
    });
}

/// The same of GGUF files, and of a set of them, of which the first is there last.
#[test]
fn a_killed_writer_leaves_the_old_gguf() {
    let (dir, _) = tiny("a_killed_writer_leaves_the_old_gguf");
    let (large, made) = (large(&dir), dir.join("a.gguf"));
    let args = ["bundle", &large, "-o", made.to_str().unwrap(), "--to", "gguf"];
    let inspect = |file: &Path| text(&run(RINFER, &["inspect", file.to_str().unwrap()]));
    check_killed(&args, &made, &|| drop(inspect(&made)));
    let args = [&args[..], &["--split-max-size", "4M"]].concat();
    let output = run(RINFER, &args);
    let (_, said) = said(&output);
    let first = dir.join("a-00001-of-00003.gguf");
    assert!(said.contains("a-00001-of-00003.gguf") && said.contains("3 files"), "{said}");
    check_killed(&args, &first, &|| drop(inspect(&first)));
    for (split, problem) in [("0", "above zero"), ("3K", "500M")] {
        let args = [&args[..6], &["--split-max-size", split]].concat();
        let output = run(RINFER, &args);
        assert!(!output.status.success());
        let (_, said) = self::said(&output);
        assert!(said.contains(problem), "{split}: {said}");
    }
    let bundle = dir.join("a.rinf");
    let args = ["bundle", &large, "-o", bundle.to_str().unwrap(), "--split-max-size", "4M"];
    check_failed(&run(RINFER, &args), 2, &["--to gguf"]);
    let args = ["bundle", &large, "-o", bundle.to_str().unwrap(), "--context", "4"];
    check_failed(&run(RINFER, &args), 2, &["--to gguf"]);
}

fn piped(program: &Path, args: &[&str], input: &str) -> Output {
    let mut command = command(program, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
#[cfg(not(target_os = "macos"))]
fn a_program_carries_its_model() {
    let (dir, model) = tiny("a_program_carries_its_model");
    let made = dir.join("talker");
    let path = made.to_str().unwrap();
    text(&run(RINFER, &["bundle", &model, "--into", path, "--name", "Tiny talker"]));
    let of_file = |args: &[&str]| text(&run(RINFER, args));
    let answer = of_file(&["run", &model, "Hi", "--seed", "3", "--max-tokens", "9"]);
    let own = |args: &[&str]| text(&run(&made, args));
    assert_eq!(own(&["run", "Hi", "--seed", "3", "--max-tokens", "9"]), answer);
    assert_eq!(own(&["run", &model, "Hi", "--seed", "3", "--max-tokens", "9"]), answer);
    assert_eq!(text(&piped(&made, &["run", "--seed", "3", "--max-tokens", "9"], "Hi")), answer);
    assert!(!text(&piped(&made, &[], "Hi")).is_empty());
    assert_eq!(own(&["tokenize", "Hi", "--json"]), of_file(&["tokenize", &model, "Hi", "--json"]));
    assert_eq!(own(&["detokenize", "70", "71"]), of_file(&["detokenize", &model, "70", "71"]));
    let version = own(&["--version"]);
    assert!(version.contains("with Tiny talker, licence: mit"), "{version}");
    assert!(own(&["inspect"]).contains("Tiny talker"));
    // Another takes its place, by itself as well.
    text(&run(&made, &["bundle", "--into", path, "--license", "apache-2.0"]));
    assert!(own(&["--version"]).contains("Tiny talker, licence: apache-2.0"));
    let again = dir.join("again");
    text(&run(&made, &["bundle", &model, "--into", again.to_str().unwrap()]));
    assert!(text(&run(&again, &["--version"])).contains("with model, licence: mit"));
    text(&run(RINFER, &["bundle", path, "-o", dir.join("a.rinf").to_str().unwrap(), "--verify"]));
    // What is damaged is named.
    let bytes = std::fs::read(&made).unwrap();
    let program = std::fs::metadata(RINFER).unwrap().len() as usize;
    let base = program.next_multiple_of(1 << 16);
    let damage = |bytes: &[u8], says: &[&str]| {
        std::fs::write(&made, bytes).unwrap();
        check_failed(&run(&made, &["run", "Hi"]), 1, says);
    };
    damage(&bytes[..bytes.len() - 1], &["talker", "cut short: the model at the program's end"]);
    damage(&bytes[..program], &["talker", "cut short"]);
    let mut flipped = bytes.clone();
    flipped[base + 20] ^= 1;
    damage(&flipped, &["talker", "is damaged"]);
    flipped[base..base + 8].fill(0);
    damage(&flipped, &["talker", "not a bundle"]);
    // What is no program.
    let model = ["bundle", &model, "--into", path, "--runtime"];
    let with = |runtime: &'static str| [&model[..], &[runtime]].concat();
    check_failed(&run(RINFER, &with("/bin/sh")), 1, &["/bin/sh", "no rinfer"]);
    check_failed(&run(RINFER, &with("Cargo.toml")), 1, &["Cargo.toml", "not a program"]);
}

#[test]
fn a_bare_program_says_how_to_get_a_model() {
    check_failed(&run(RINFER, &[]), 2, &["Usage", "rinfer run"]);
    for command in ["run", "chat", "inspect", "bench", "bundle"] {
        check_failed(&run(RINFER, &[command]), 2, &["no model", ".gguf"]);
    }
}
