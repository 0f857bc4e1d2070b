//! `rinfer serve` as a test's child, which ends with the test.
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A server that answers.
pub struct Serving {
    /// The process.
    pub child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
    /// What it said on stderr up to then.
    pub said: String,
}

impl Serving {
    /// Starts it, and waits until it says where it listens.
    pub fn start(command: &mut Command) -> Serving {
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("a program");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        let addr = loop {
            let start = said.len();
            if lines.read_line(&mut said).expect("text") == 0 {
                let _ = child.wait();
                panic!("it ended: {said}");
            }
            if let Some((_, rest)) = said[start..].split_once("serving on http://") {
                let addr = rest.split('/').next().expect("an address");
                break addr.parse().expect("an address");
            }
        };
        // What it says later is read, or it would wait for that.
        std::thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        Serving { child, addr, said }
    }
    /// Sends the process a signal, by its name: it may be borrowed by whoever asks it.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill").success());
    }
    /// Asks it to end, and waits for that; its exit code.
    pub fn end(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
