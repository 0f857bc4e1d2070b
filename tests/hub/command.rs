//! The commands, killed and with a full disk.
use super::*;
use fake::Faults;
use rinfer_testkit::{Golden, chat, shared};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The program, with a cache and a hub of the test's.
fn rinfer(cache: &Path, url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let variables = [
        "HF_TOKEN",
        "HF_HUB_OFFLINE",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
    ];
    for name in variables {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env_remove("SSL_CERT_DIR").env_remove("HF_HUB_CACHE").env_remove("RINFER_LOG");
    command.env("RINFER_MODELS", cache).env("HF_ENDPOINT", url).env("HF_HOME", cache.join("none"));
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A run that ends well and says this on stderr.
fn check(output: &Output, says: &str) -> String {
    let error = text(&output.stderr);
    assert!(output.status.success() && error == says, "{:?}: {error}", output.status);
    text(&output.stdout).to_owned()
}

/// The files of a tiny model that chats.
fn tiny(test: &str) -> Vec<(String, fake::Content)> {
    let dir = folder(test);
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &dir);
    let content = |name: String| {
        let bytes = std::fs::read(dir.join(&name)).unwrap();
        (name, fake::Content::from(bytes))
    };
    files(&dir).into_iter().map(content).collect()
}

#[test]
fn d7_a_model_is_fetched_where_it_is_named() {
    let hub = fake::Hub::start();
    let model = tiny("command_model");
    let model: Vec<(&str, fake::Content)> =
        model.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
    hub.repo("owner/repo", &model);
    let cache = folder("command").join("cache");
    let run = |args: &[&str]| rinfer(&cache, &hub.url(), args).output().unwrap();
    let answer = ["run", REFERENCE, "Hi", "--seed", "7", "--max-tokens", "8"];
    let first = check(&run(&answer), "");
    assert!(!hub.log().is_empty());
    // From then on nobody is asked.
    assert_eq!(check(&run(&answer), ""), first);
    let offline =
        rinfer(&cache, "http://127.0.0.1:1", &answer).env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert_eq!(check(&offline, ""), first);
    assert!(hub.log().is_empty());
    check(&run(&["tokenize", REFERENCE, "Hi"]), "");
    let path = check(&run(&["pull", REFERENCE]), "");
    assert!(Path::new(path.trim_end()).join("config.json").is_file());
    let json: Value =
        serde_json::from_str(&check(&run(&["pull", REFERENCE, "--json"]), "")).unwrap();
    assert_eq!(
        (&json["repository"], &json["commit"]),
        (&"owner/repo".into(), &fake::COMMIT.into())
    );
    let here: Value = serde_json::from_str(&check(&run(&["models", "--json"]), "")).unwrap();
    let name = here["models"][0]["reference"].as_str().unwrap();
    assert_eq!(check(&run(&["pull", name]), ""), path);
    assert_eq!(here["demos"][0]["licence"], "apache-2.0");
    let there = check(&run(&["models", REFERENCE]), "");
    assert!(
        there.contains("hf:owner/repo:safetensors")
            && there.contains("fits")
            && there.contains("licence: mit"),
        "{there}"
    );
    let listed = check(&run(&["models"]), "");
    assert!(
        listed.contains("hf:owner/repo:safetensors") && listed.contains("demo:tiny"),
        "{listed}"
    );
    let removed = run(&["rm", REFERENCE]);
    assert!(removed.status.success() && text(&removed.stderr).contains("are free again"));
    assert_eq!(files(&cache), Vec::<String>::new());
}

#[test]
fn d4_failures_have_an_exit_code_and_no_output() {
    let (hub, _) = hub_with(1000);
    let cache = folder("command_failures").join("cache");
    let fails = |args: &[&str], says: &[&str]| {
        let output =
            rinfer(&cache, &hub.url(), args).env("HF_TOKEN", "hf_secret").output().unwrap();
        let error = text(&output.stderr);
        assert!(
            output.status.code() == Some(1)
                && output.stdout.is_empty()
                && error.starts_with("error: "),
            "{error}"
        );
        says.iter().for_each(|word| assert!(error.contains(word), "{word}: {error}"));
        assert!(!error.contains("secret"), "{error}");
    };
    fails(&["run", "hf:owner/none", "Hi"], &["there is none"]);
    fails(&["pull", "demo:huge"], &["demo:huge", "tiny"]);
    fails(&["pull", "path/to/x.gguf"], &["hf:OWNER/REPO"]);
    fails(&["rm", REFERENCE], &["is not there"]);
    fails(&["models", "hf:owner/none"], &["there is none"]);
    // Nothing that matches is no success.
    hub.repo("owner/empty", &[] as &[(&str, &str)]);
    fails(&["pull", "hf:owner/empty"], &["is empty"]);
    fails(&["pull", "hf:owner/repo:Q8_0"], &["no quant is called Q8_0", "Q4_K_M"]);
    let page = format!("{}/owner/repo", hub.url());
    for (status, code) in [(401, "GatedRepo"), (403, "GatedRepo"), (403, "")] {
        hub.faults(Faults { files: fake::Refusal::always(status, code), ..Faults::default() });
        fails(&["pull", REFERENCE], &["HF_TOKEN", &page]);
    }
    hub.faults(Faults::default());
    // A model that is fetched and is none: the file is named.
    fails(&["run", REFERENCE, "Hi"], &["m-Q4_K_M.gguf"]);
}

#[test]
fn d3_killed_twenty_times_it_ends_whole() {
    const SIZE: u64 = 72 << 20;
    let (hub, content) = hub_with(SIZE);
    let cache = folder("killed").join("cache");
    hub.faults(Faults { rate: Some(8 << 20), ..Faults::default() });
    let mut random = std::hash::DefaultHasher::new();
    let part = cache.join(format!("models--owner--repo/blobs/{}.part", content.digest()));
    let mut held = 0;
    for turn in 0..20 {
        use std::hash::Hasher;
        random.write_u32(turn);
        hub.log();
        let mut child = rinfer(&cache, &hub.url(), &["pull", REFERENCE]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + random.finish() % 130));
        child.kill().unwrap();
        child.wait().unwrap();
        if part.exists() {
            let now = rinfer::hub::part_bytes(&part);
            assert!(now >= held, "{now} bytes are there, and were {held}");
            held = now;
        }
    }
    assert!(held > 0 && held < SIZE, "{held} bytes after all kills: the times are wrong");
    hub.log();
    hub.faults(Faults::default());
    let output = rinfer(&cache, &hub.url(), &["pull", REFERENCE]).output().unwrap();
    let path = check(&output, "");
    assert!(std::fs::read(path.trim_end()).unwrap() == content.bytes());
    assert_eq!(files(&cache), expected(&content));
    assert_eq!(hub.asked(), SIZE - held, "what was good is fetched again");
}

/// A file system of 16 MiB; none where this user may not mount one.
#[cfg(target_os = "linux")]
fn small_disk(at: &Path) -> Option<impl Drop> {
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).status();
        }
    }
    std::fs::create_dir_all(at).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
        .arg(at)
        .stderr(Stdio::null())
        .status();
    mount.is_ok_and(|status| status.success()).then(|| Mounted(at.to_owned()))
}

#[cfg(target_os = "linux")]
#[test]
fn d5_a_disk_that_fills_up() {
    let disk = folder("small_disk");
    let Some(_mounted) = small_disk(&disk) else {
        return eprintln!("d5_a_disk_that_fills_up did not run: this user may not mount a tmpfs");
    };
    let (hub, content) = hub_with(15 << 20);
    let cache = disk.join("cache");
    let pull = || rinfer(&cache, &hub.url(), &["pull", REFERENCE]).output().unwrap();
    // Too full to begin with: nothing is fetched.
    let other = disk.join("other");
    std::fs::write(&other, vec![0; 8 << 20]).unwrap();
    let full = pull();
    assert!(
        !full.status.success() && text(&full.stderr).contains("16 MB are needed"),
        "{}",
        text(&full.stderr)
    );
    assert_eq!(hub.asked(), 0);
    std::fs::remove_file(&other).unwrap();
    // Filled by another program on the way: what came is kept.
    hub.faults(Faults { rate: Some(1 << 20), ..Faults::default() });
    let child = rinfer(&cache, &hub.url(), &["pull", REFERENCE]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    std::fs::write(&other, vec![1; 12 << 20]).unwrap();
    hub.faults(Faults::default());
    let full = child.wait_with_output().unwrap();
    assert!(
        !full.status.success() && text(&full.stderr).contains("room for"),
        "{}",
        text(&full.stderr)
    );
    std::fs::remove_file(&other).unwrap();
    hub.log();
    let path = check(&pull(), "");
    assert!(std::fs::read(path.trim_end()).unwrap() == content.bytes());
    assert!(hub.asked() < 15 << 20);
    assert_eq!(files(&cache), expected(&content));
}
