//! A line on stderr that says what is waited for, while nothing else is written. It is there only where
//! a person watches, and gone without a trace.
use crate::cmd::{Environment, Interrupt, Log};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(300);
const NEXT: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Turns until it is dropped.
pub struct Spinner {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Says what `label` returns, from a moment on. None where nobody watches, or where
    /// `--verbose` says more.
    pub fn start(
        env: &Environment,
        interrupt: &Interrupt,
        label: impl Fn() -> String + Send + 'static,
    ) -> Option<Spinner> {
        if !env.color || env.log != Log::Warn {
            return None;
        }
        let over: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (told, interrupt) = (over.clone(), interrupt.clone());
        let turn = move || {
            let mut frames = FRAMES.iter().cycle();
            let mut pause = FIRST;
            loop {
                let over = told.0.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = told.1.wait_timeout_while(over, pause, |over| !*over);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    break;
                }
                let frame = frames.next().unwrap_or(&' ');
                interrupt.draw(&format!("\x1b[2m{frame} {}\x1b[0m", label()));
                pause = NEXT;
            }
            interrupt.clear();
        };
        let thread = std::thread::Builder::new().name("spinner".into()).spawn(turn).ok()?;
        Some(Spinner { over, thread: Some(thread) })
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does nothing that panics.
            let _ = thread.join();
        }
    }
}
