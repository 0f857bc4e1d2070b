//! The server's life: it listens, answers, and ends when it is told to.
use crate::app::{App, router};
use crate::config::Config;
use crate::hub::Pulls;
use crate::meters::Meters;
use crate::models::Models;
use crate::signals::Signals;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(30);

/// Tells a server to end, from any thread.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<Stage>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// Nothing new is begun.
    Draining,
    /// Nothing is finished, either.
    Forced,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop(watch::channel(Stage::Serving).0)
    }
}

impl Stop {
    /// Asks for the end: answers have [`Config::drain`] to be finished. Asked again, they end at once.
    pub fn stop(&self) {
        self.0.send_modify(|stage| {
            *stage = if *stage == Stage::Serving { Stage::Draining } else { Stage::Forced };
        });
    }
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow() > Stage::Serving
    }
    async fn reached(&self, stage: Stage) {
        // It can't close: it is held here.
        let _ = self.0.subscribe().wait_for(|now| *now >= stage).await;
    }
    /// Waits until nothing new is begun.
    pub(crate) async fn draining(&self) {
        self.reached(Stage::Draining).await;
    }
    /// Waits until answers must end.
    pub(crate) async fn forced(&self) {
        self.reached(Stage::Forced).await;
    }
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    signals: Option<Signals>,
    app: Arc<App>,
    drain: Duration,
}

impl Server {
    /// Listens at an address. From now on signals ask for the server's end, if it heeds them.
    ///
    /// # Errors
    /// If the address can't be had, or is not this machine's own and no key is asked for; if a key is
    /// empty or can't be sent; if the system gives no threads.
    pub fn bind(
        addr: SocketAddr,
        config: Config,
        models: Models,
        stop: Stop,
    ) -> io::Result<Server> {
        if !addr.ip().is_loopback() && config.keys.is_empty() {
            let text = format!(
                "{addr} can be reached from other machines: a key must be asked for (--api-key)"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        if config.admin && config.keys.is_empty() {
            let text =
                "whoever reaches the server could unload its models: --admin needs --api-key";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        // An empty key would be one that everybody has.
        let sent = |key: &String| {
            !key.is_empty()
                && key.trim() == key
                && key.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        if !config.keys.iter().all(sent) {
            let text = "an API key is empty, begins or ends with a blank, or has characters that no header has";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = TcpListener::bind(addr)
            .map_err(|error| io::Error::new(error.kind(), format!("{addr}: {error}")))?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(4096)
            .thread_name("rinfer-http")
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let signals = config.signals.then(Signals::watch).transpose()?;
        drop(inside);
        let (started, drain) = ((config.clock)(), config.drain);
        let app = Arc::new(App {
            config,
            models,
            stop,
            meters: Meters::default(),
            store: Arc::default(),
            generations: Arc::default(),
            pulls: Pulls::default(),
            started,
        });
        Ok(Server { runtime, listener, signals, app, drain })
    }
    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
    /// Serves until it is told to stop.
    pub fn run(self) {
        let Server { runtime, listener, signals, app, drain } = self;
        if let Some(signals) = signals {
            runtime.spawn(signals.end(app.stop.clone()));
        }
        runtime.block_on(serve(listener, app, drain));
        runtime.shutdown_background();
    }
}

/// The server's life.
async fn serve(listener: tokio::net::TcpListener, app: Arc<App>, drain: Duration) {
    let stop = app.stop.clone();
    let reaped = app.clone();
    tokio::spawn(async move { reaped.models.reap().await });
    let router = router(app.clone());
    let connections = GracefulShutdown::new();
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD);
    loop {
        let accepted = tokio::select! {
            () = stop.reached(Stage::Draining) => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Too many files are open, mostly: those that are need a moment to be closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Pieces of an answer are small and each is wanted at once.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = server.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connections.watch(connection));
    }
    drop(listener);
    // What came of them is kept, and asked for no more.
    app.pulls.cancel_all();
    let closed = connections.shutdown();
    tokio::pin!(closed);
    let (drained, hurried) = tokio::select! {
        () = &mut closed => (true, false),
        () = tokio::time::sleep(drain) => (false, false),
        () = stop.forced() => (false, true),
    };
    if !drained {
        stop.stop();
        // Streams say that they end.
        let _ = tokio::time::timeout(Duration::from_secs(1), closed).await;
    }
    if !hurried {
        // A second signal does not wait for it; a file is whole or not there.
        let saved = tokio::task::spawn_blocking(move || app.models.save_all());
        tokio::select! { _ = saved => {}, () = stop.forced(), if drained => {} }
    }
}
