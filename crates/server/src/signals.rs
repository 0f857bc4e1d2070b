//! Ctrl-C and SIGTERM: from when they are watched, they ask for the server's end, and no longer end the process.
use crate::serve::Stop;
use std::io;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC, ctrl_c};

/// What ends a server.
pub struct Signals {
    #[cfg(unix)]
    pressed: Signal,
    #[cfg(unix)]
    told: Signal,
    #[cfg(windows)]
    pressed: CtrlC,
}

impl Signals {
    /// Watches them from now on, within a runtime.
    #[cfg(unix)]
    pub fn watch() -> io::Result<Signals> {
        let (pressed, told) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Signals { pressed, told })
    }
    /// Watches them from now on, within a runtime.
    #[cfg(windows)]
    pub fn watch() -> io::Result<Signals> {
        Ok(Signals { pressed: ctrl_c()? })
    }
    /// Each one asks for the end.
    pub async fn end(mut self, stop: Stop) {
        loop {
            #[cfg(unix)]
            tokio::select! {
                _ = self.pressed.recv() => {}
                _ = self.told.recv() => {}
            }
            #[cfg(windows)]
            if self.pressed.recv().await.is_none() {
                return;
            }
            stop.stop();
        }
    }
}
