//! What the server counts, as Prometheus reads it.
use crate::models::Models;
use crate::turn::End;
use axum::http::StatusCode;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Default)]
pub struct Meters {
    /// Responses by the first digit of their status, from 1.
    responses: [AtomicU64; 5],
    prompt: AtomicU64,
    cached: AtomicU64,
    generated: AtomicU64,
    answers: AtomicU64,
    /// Microseconds.
    first: AtomicU64,
    all: AtomicU64,
}

impl Meters {
    pub fn responded(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }
    /// An answer is over.
    pub fn answered(&self, end: &End) {
        let add = |to: &AtomicU64, n: u64| to.fetch_add(n, Ordering::Relaxed);
        add(&self.answers, 1);
        add(&self.prompt, end.usage.prompt as u64);
        add(&self.cached, end.usage.cached as u64);
        add(&self.generated, end.usage.generated as u64);
        add(&self.first, end.timing.first.as_micros() as u64);
        add(&self.all, end.timing.all.as_micros() as u64);
    }
    /// All of it, in Prometheus's text format.
    pub fn text(&self, models: &Models) -> String {
        let get = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let mut text = String::new();
        let head = |text: &mut String, name: &str, kind: &str, help: &str| {
            // Writing to a string can't fail.
            let _ = writeln!(text, "# HELP rinfer_{name} {help}\n# TYPE rinfer_{name} {kind}");
        };
        head(&mut text, "responses_total", "counter", "HTTP responses by class of status.");
        for (i, count) in self.responses.iter().enumerate() {
            let _ =
                writeln!(text, "rinfer_responses_total{{class=\"{}xx\"}} {}", i + 1, get(count));
        }
        let counters = [
            ("answers_total", "Answers that ended.", get(&self.answers) as f64),
            ("prompt_tokens_total", "Tokens of prompts.", get(&self.prompt) as f64),
            (
                "cached_tokens_total",
                "Tokens of prompts that were not computed again.",
                get(&self.cached) as f64,
            ),
            ("generated_tokens_total", "Tokens of answers.", get(&self.generated) as f64),
            (
                "first_piece_seconds_total",
                "Time to the first piece, of all answers.",
                get(&self.first) as f64 / 1e6,
            ),
            ("answer_seconds_total", "Time of all answers.", get(&self.all) as f64 / 1e6),
        ];
        for (name, help, value) in counters {
            head(&mut text, name, "counter", help);
            let _ = writeln!(text, "rinfer_{name} {value}");
        }
        head(&mut text, "answers_inside", "gauge", "Answers under way or waiting, by model.");
        for (name, state) in models.states() {
            let _ = writeln!(text, "rinfer_answers_inside{{model={name:?}}} {}", state.inside);
        }
        head(
            &mut text,
            "model_bytes",
            "gauge",
            "Memory that a loaded model takes; 0 if it is not.",
        );
        for (name, state) in models.states() {
            let _ = writeln!(text, "rinfer_model_bytes{{model={name:?}}} {}", state.bytes);
        }
        let kept = "Positions that are kept for requests that begin alike.";
        head(&mut text, "kept_positions", "gauge", kept);
        for (name, state) in models.states() {
            let _ = writeln!(text, "rinfer_kept_positions{{model={name:?}}} {}", state.kept);
        }
        head(&mut text, "positions", "gauge", "Positions that there are, kept ones among them.");
        for (name, state) in models.states() {
            let _ = writeln!(text, "rinfer_positions{{model={name:?}}} {}", state.positions);
        }
        text
    }
}
