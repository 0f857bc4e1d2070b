//! What the program makes of the machine that it is on: processors, instructions, memory, systems' bounds.
//! Names of tests begin with the fault, met in other programs, that they are about.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]
use rinfer_testkit::{Golden, chat, safetensors, shared};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RINFER: &str = env!("CARGO_BIN_EXE_rinfer");

/// A folder with a tiny chat model.
fn tiny(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &dir);
    dir
}

/// Runs rinfer by another program, such as `taskset`.
fn through(by: &[&str], args: &[&str]) -> Output {
    let all = [by, &[RINFER], args].concat();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).stdin(Stdio::null()).env_remove("RINFER_TIER");
    command.env_remove("RINFER_LOG").output().unwrap()
}

/// Stdout of what must succeed.
fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

fn is_here(program: &str) -> bool {
    let here = Command::new(program).arg("--version").output().is_ok();
    if !here {
        println!("{program} is not installed: what needs it did not run");
    }
    here
}

/// E1: a process that may run on one processor has one thread.
#[test]
fn e1_threads_follow_affinity() {
    if !is_here("taskset") {
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = allowed.split([',', '-']).next().unwrap();
    let output = through(&["taskset", "-c", first], &["doctor", "--json"]);
    let report: Value = serde_json::from_str(text(&output)).unwrap();
    assert_eq!((&report["threads"], &report["processors"]), (&1.into(), &1.into()), "{report}");
    let output = through(&["taskset", "-c", first], &["doctor"]);
    assert!(text(&output).contains("1 (1 physical cores of 1 processors"), "{output:?}");
}

/// E3: older processors, emulated: each runs the tier that it has, says so, and gives the same answer.
#[test]
fn e3_older_processors() {
    if !cfg!(target_arch = "x86_64") || !is_here("qemu-x86_64") {
        return;
    }
    let model = tiny("e3_older_processors");
    let run = ["run", model.to_str().unwrap(), "Hi", "--seed", "7", "--max-tokens", "20"];
    let here = through(&["env"], &run);
    for (processor, tier) in [("Nehalem", "scalar"), ("SandyBridge", "scalar"), ("Haswell", "avx2")]
    {
        let by = ["qemu-x86_64", "-cpu", processor];
        let report: Value =
            serde_json::from_str(text(&through(&by, &["doctor", "--json"]))).unwrap();
        assert_eq!(report["tier"], tier, "{processor}");
        assert_eq!(text(&through(&by, &run)), text(&here), "{processor}");
    }
    // What the processor has not is refused, and not run into.
    let by = ["qemu-x86_64", "-cpu", "Nehalem", "-E", "RINFER_TIER=avx2"];
    let refused = through(&by, &run);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("scalar"), "{said}");
}

/// E4: under `ulimit -v`, a load that has no room is refused with the largest context that has, and that one
/// is then loaded.
#[test]
fn e4_address_space_bounds_the_context() {
    if !is_here("prlimit") {
        return;
    }
    let model = tiny("e4_address_space");
    let config = model.join("config.json");
    let long = std::fs::read_to_string(&config).unwrap().replace("512", "4000000");
    std::fs::write(&config, long).unwrap();
    let with = |context: &str| {
        let args =
            ["run", model.to_str().unwrap(), "Hi", "--max-tokens", "3", "--context", context];
        through(&["prlimit", "--as=1200000000"], &[&args[..], &["--threads", "2"]].concat())
    };
    // What the system's own threads map at the moment counts, too: the next start may have a little less.
    let mut context = "4000000".to_owned();
    for _ in 0..9 {
        let output = with(&context);
        if output.status.success() {
            let positions: usize = context.parse().unwrap();
            assert!((1_000_000..4_000_000).contains(&positions), "{positions}");
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("with a context of {context}")), "{said}");
        let (_, most) = said.split_once("available: a context of ").unwrap();
        context = most.split(' ').next().unwrap().to_owned();
    }
    panic!("a context of {context} is refused too");
}

/// E6: a program that Windows would not start is refused before 4 GB of it are written, and what to do
/// instead is said.
#[test]
fn e6_a_program_for_windows_has_a_bound() {
    let model = tiny("e6_large_program");
    let runtime = model.join("rinfer.exe");
    std::fs::write(&runtime, [b"MZ", &rinfer_formats::executable::slot()[..]].concat()).unwrap();
    large(&model, 1 << 24);
    let made = model.join("made.exe");
    let args = ["bundle", model.to_str().unwrap(), "--into", made.to_str().unwrap(), "--runtime"];
    let refused = through(&["env"], &[&args[..], &[runtime.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for says in ["made.exe", "4294967295", "a .rinf beside it", "rinfer bundle MODEL -o FILE"] {
        assert!(said.contains(says), "{says}: {said}");
    }
    let left: Vec<_> = std::fs::read_dir(&model).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("made")), "{left:?}");
}

/// Gives a model so many tokens; what they weigh is a hole in its file.
fn large(model: &Path, tokens: usize) {
    let path = model.join("model.safetensors");
    let mut tensors = safetensors::read(&std::fs::read(&path).unwrap());
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(model.join("config.json")).unwrap()).unwrap();
    config["vocab_size"] = tokens.into();
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    let mut tell = |name: &str, dtype: &str, shape: &[usize], from: usize, to: usize| {
        let told = json!({"dtype": dtype, "shape": shape, "data_offsets": [from, to]});
        header.insert(name.to_owned(), told);
    };
    let is_large = |shape: &[usize]| shape[0] == 256 && shape.len() == 2 && shape[1] == 64;
    let vocabulary: Vec<String> =
        tensors.iter().filter(|(_, t)| is_large(&t.shape)).map(|(name, _)| name.clone()).collect();
    let large: Vec<_> =
        vocabulary.iter().map(|name| (name, tensors.remove(name).unwrap())).collect();
    for (name, tensor) in &tensors {
        let from = data.len();
        data.extend_from_slice(&tensor.bytes);
        tell(name, &tensor.dtype, &tensor.shape, from, data.len());
    }
    let mut end = data.len();
    for (name, tensor) in large {
        let bytes = tensor.bytes.len() / 256 * tokens;
        tell(name, &tensor.dtype, &[tokens, 64], end, end + bytes);
        end += bytes;
    }
    let mut head = Value::Object(header).to_string().into_bytes();
    head.resize(head.len().next_multiple_of(8), b' ');
    let mut file = File::create(path).unwrap();
    file.write_all(&(head.len() as u64).to_le_bytes()).unwrap();
    file.write_all(&head).unwrap();
    file.write_all(&data).unwrap();
    file.set_len((8 + head.len() + end) as u64).unwrap();
}
