//! How far a fetch is: one line on a terminal, and nothing elsewhere.
use super::{Environment, Log};
use rinfer::hub::{Watch, bytes};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Draws what a fetch tells.
pub struct Progress<'a> {
    env: &'a Environment,
    state: Mutex<Option<State>>,
}

struct State {
    name: String,
    total: u64,
    done: u64,
    drawn: Instant,
    /// Bytes and time of the last drawings, from which the rate is.
    past: Vec<(u64, Instant)>,
}

impl Progress<'_> {
    /// On stderr, if a person may watch.
    pub fn new(env: &Environment) -> Progress<'_> {
        Progress { env, state: Mutex::new(None) }
    }
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn line(&self, text: &str) {
        if self.env.color && self.env.log > Log::Off {
            eprint!("\r\x1b[K{text}");
        }
    }
}

impl Watch for Progress<'_> {
    fn note(&self, text: &str) {
        self.line("");
        self.env.say(Log::Warn, text);
    }
    fn tell(&self, text: &str) {
        self.line("");
        // A script that fetches is told nothing that it expects.
        self.env.say(if self.env.color { Log::Warn } else { Log::Info }, text);
    }
    fn begins(&self, name: &str, total: u64, done: u64) {
        let now = Instant::now();
        let name = name.rsplit('/').next().unwrap_or(name).escape_debug().to_string();
        *self.state() = Some(State { name, total, done, drawn: now, past: vec![(done, now)] });
    }
    fn came(&self, count: u64) {
        const PAUSE: Duration = Duration::from_millis(200);
        let mut state = self.state();
        let Some(state) = &mut *state else { return };
        // What is fetched again does not count twice.
        state.done = (state.done + count).min(state.total);
        if self.env.color && state.drawn.elapsed() >= PAUSE {
            let line = state.draw(Instant::now());
            self.line(&line);
        }
    }
    fn ends(&self) {
        self.line("");
        *self.state() = None;
    }
}

impl State {
    /// `model.gguf  42 %  1.2 GB of 2.9 GB, 35 MB/s, 48 s left`
    fn draw(&mut self, now: Instant) -> String {
        const WINDOW: usize = 25;
        self.drawn = now;
        self.past.push((self.done, now));
        if self.past.len() > WINDOW {
            self.past.remove(0);
        }
        let (before, since) = self.past[0];
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        let rate = (self.done - before) as f64 / seconds;
        let left = match (self.total - self.done) as f64 / rate {
            left if left < 100.0 => format!("{left:.0} s"),
            left if left < 6000.0 => format!("{:.0} min", left / 60.0),
            left if left.is_finite() => format!("{:.1} h", left / 3600.0),
            _ => "?".into(),
        };
        let percent = self.done * 100 / self.total.max(1);
        format!(
            "{}  {percent:>3} %  {} of {}, {}/s, {left} left",
            self.name,
            bytes(self.done),
            bytes(self.total),
            bytes(rate as u64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_a_person_asks() {
        let start = Instant::now();
        let mut state = State {
            name: "m.gguf".into(),
            total: 3_000_000_000,
            done: 1_000_000_000,
            drawn: start,
            past: vec![(900_000_000, start)],
        };
        let line = state.draw(start + Duration::from_secs(2));
        assert_eq!(line, "m.gguf   33 %  1.0 GB of 3.0 GB, 50 MB/s, 40 s left");
        state.past.clear();
        assert!(state.draw(start + Duration::from_secs(9)).ends_with("0 B/s, ? left"));
    }
}
