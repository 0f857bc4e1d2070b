//! A terminal to type at and look at, and a model that never stops by itself. What is waited for is a text on the
//! screen, never a time.
use rinfer_testkit::{Golden, chat, shared};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For what is waited: more than the slowest machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Flags of short answers that are always the same.
pub const SHORT: [&str; 4] = ["--temperature", "0", "--max-tokens", "5"];

/// An empty folder of a test's own.
pub fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("terminal").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A folder with a tiny chat model in the test's folder, whose context is long.
pub fn tiny(folder: &Path) -> String {
    let dir = folder.join("model");
    chat::write_model(&Golden::load(&shared::goldens().join("llama3")), &dir);
    let file = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config["max_position_embeddings"] = 200_000.into();
    std::fs::write(file, config.to_string()).unwrap();
    dir.to_str().unwrap().to_owned()
}

/// The program, of which nothing is kept outside of the folder.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rinfer"));
    command.args(args).stdin(Stdio::null()).env_remove("RINFER_TIER").env_remove("RINFER_LOG");
    command.env("RINFER_HISTORY", folder.join("history"));
    command
}

/// What it says to a pipe's text.
pub fn piped(folder: &Path, args: &[&str], input: &[u8]) -> Output {
    use std::io::Write;
    let mut command = command(folder, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A terminal of 80 × 24 with a shell's line in it.
pub struct Terminal(String);

impl Terminal {
    /// Runs the program, and says how it ended and how it left the terminal. None without tmux.
    pub fn start(test: &str, folder: &Path, variables: &[&str], args: &[&str]) -> Option<Terminal> {
        let words: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
        let program = quoted(env!("CARGO_BIN_EXE_rinfer"));
        Terminal::run(test, folder, variables, &format!("{program} {}", words.join(" ")))
    }

    /// Runs a shell's line.
    pub fn run(test: &str, folder: &Path, variables: &[&str], line: &str) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("tmux is not here: {test} did not run");
            return None;
        }
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Terminal(format!("rinfer-{}-{test}-{number}", std::process::id()));
        let mut tmux =
            terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"]);
        let history = format!("RINFER_HISTORY={}", folder.join("history").display());
        let cleared = ["RINFER_LOG=", "RINFER_TIER=", "NO_COLOR=", &history];
        let variables: Vec<String> =
            cleared.iter().chain(variables).map(|variable| quoted(variable)).collect();
        let start = format!("trap : INT; export {}", variables.join(" "));
        let end = "code=$?; stty -a | grep -q -- '-icanon\\|-echo ' && mode=raw || mode=restored";
        let line = format!("{start}; {line}; {end}; echo \"exit $code, $mode\"; exec sleep 1000");
        let status = tmux.current_dir(folder).args(["sh", "-c", &line]).status().unwrap();
        assert!(status.success());
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.0]).args(args);
        command
    }

    fn told(&self, args: &[&str]) -> String {
        let output = self.tmux(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types text, as it is.
    pub fn types(&self, text: &str) {
        self.told(&["send-keys", "-l", text]);
    }

    /// Presses keys, by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        self.told(&[&["send-keys"], keys].concat());
    }

    /// Types a line, sees it, and sends it.
    pub fn says(&self, text: &str) {
        self.types(text);
        self.has(text);
        self.keys(&["Enter"]);
    }

    /// Waits until the last line ends so: what is typed, or brought back. A key that is pressed before that may
    /// come while nobody edits.
    pub fn has(&self, text: &str) {
        self.waits(text, |screen| screen.lines().last().is_some_and(|line| line.ends_with(text)));
    }

    /// Pastes text, in brackets where the program asked for them.
    pub fn pastes(&self, folder: &Path, text: &str) {
        let file = folder.join("paste");
        std::fs::write(&file, text).unwrap();
        self.told(&["load-buffer", file.to_str().unwrap()]);
        self.told(&["paste-buffer", "-p", "-d"]);
    }

    pub fn resizes(&self, columns: u32, rows: u32) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.told(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// The screen's text, with what scrolled away above it; lines that were wrapped are one.
    pub fn text(&self) -> String {
        self.told(&["capture-pane", "-p", "-J", "-S", "-"]).trim_end().to_owned()
    }

    /// The same with attributes.
    pub fn painted(&self) -> String {
        self.told(&["capture-pane", "-p", "-e", "-J", "-S", "-"])
    }

    /// The cursor's column.
    pub fn column(&self) -> usize {
        self.told(&["display-message", "-p", "#{cursor_x}"]).trim().parse().unwrap()
    }

    /// Waits until the screen is so.
    pub fn waits(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let text = self.text();
            if is(&text) {
                return text;
            }
            assert!(start.elapsed() < PATIENCE, "no {what} on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the text is on the screen.
    pub fn shows(&self, text: &str) -> String {
        self.waits(text, |screen| screen.contains(text))
    }

    /// Waits until a message is asked for. What was said before must have been seen: [`Terminal::says`].
    pub fn asks(&self) -> String {
        self.waits("prompt", |screen| screen.lines().last().is_some_and(|line| line.trim() == ">"))
    }

    /// Waits until the cursor is in that column.
    pub fn is_at(&self, column: usize) {
        self.waits(&format!("cursor in column {column}"), |_| self.column() == column);
    }

    /// Leaves, and says how that went: the exit code and the terminal's mode.
    pub fn leaves(&self) -> String {
        self.asks();
        self.keys(&["C-d"]);
        self.ends()
    }

    /// Waits until the program has ended.
    pub fn ends(&self) -> String {
        let ended = |line: &str| line.starts_with("exit ");
        let text = self.waits("end", |screen| screen.lines().last().is_some_and(ended));
        text.lines().last().unwrap().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What is left of it when a test fails is of no use.
        let socket = self.tmux(&["display-message", "-p", "#{socket_path}"]).output();
        let _ = self.tmux(&["kill-server"]).output();
        if let Ok(Output { status, stdout, .. }) = socket
            && status.success()
        {
            let _ = std::fs::remove_file(String::from_utf8_lossy(&stdout).trim_end());
        }
    }
}

/// A conversation that `/save` wrote: what the person said.
pub fn said(file: &Path) -> Vec<String> {
    let saved: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let messages = saved["messages"].as_array().unwrap().iter();
    let own = messages.filter(|message| message["role"] == "user");
    own.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}
