//! A model hub on loopback that misbehaves on request. Only tests depend on it.
//!
//! It plays the hub's API and its files as Hugging Face has them: a listing of a commit, and `resolve` URLs with ETags and
//! ranges, which may send to another host. [`Faults`] says what it does wrong; [`Hub::log`] what it was asked.
#![forbid(unsafe_code)]

mod content;
mod faults;
mod http;
mod proxy;
mod serve;

pub use content::Content;
pub use faults::{At, Faults, Refusal};
pub use proxy::Proxy;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The commit that every repository is at.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Its next one.
pub const LATER: &str = "fedcba9876543210fedcba9876543210fedcba98";

/// A running hub, and another host that has the contents. It runs as long as the test.
pub struct Hub {
    addr: SocketAddr,
    tls: bool,
    state: Arc<State>,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whether the other host was asked.
    pub cdn: bool,
    /// The other end of the connection.
    pub port: u16,
    /// With its query.
    pub path: String,
    /// The first byte and the one behind the last.
    pub range: Option<(u64, u64)>,
    /// `Authorization`.
    pub token: Option<String>,
    /// `If-Range`.
    pub if_range: Option<String>,
    /// The status of the answer.
    pub status: u16,
}

/// What both hosts share.
struct State {
    repos: Mutex<BTreeMap<String, Repo>>,
    faults: Mutex<Faults>,
    log: Mutex<Vec<Request>>,
    cdn: Mutex<Option<SocketAddr>>,
    tls: Option<Arc<ServerConfig>>,
}

#[derive(Clone)]
struct Repo {
    commit: &'static str,
    files: BTreeMap<String, Content>,
}

impl Hub {
    /// Over http.
    pub fn start() -> Hub {
        Hub::new(None)
    }
    /// Over https, with a certificate for `hub.test`, `cdn.test`, `localhost` and 127.0.0.1 that [`Hub::authority`] signed.
    pub fn tls() -> Hub {
        let folder = certificates();
        let chain = CertificateDer::pem_file_iter(folder.join("hub.pem"))
            .and_then(Iterator::collect)
            .expect("the test's certificate");
        let key = PrivateKeyDer::from_pem_file(folder.join("hub.key.pem")).expect("the test's key");
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
                .expect("a server's configuration");
        Hub::new(Some(Arc::new(config)))
    }
    fn new(tls: Option<Arc<ServerConfig>>) -> Hub {
        let state = Arc::new(State {
            repos: Mutex::default(),
            faults: Mutex::default(),
            log: Mutex::default(),
            cdn: Mutex::default(),
            tls,
        });
        let addr = listen(&state, false);
        let cdn = listen(&state, true);
        *lock(&state.cdn) = Some(cdn);
        Hub { addr, tls: state.tls.is_some(), state }
    }
    /// Its address.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.addr)
    }
    /// Its port on 127.0.0.1.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
    /// The certificate that its own is signed with.
    pub fn authority() -> PathBuf {
        certificates().join("ca.pem")
    }
    /// Has a repository, instead of what it had by that name.
    pub fn repo<C: Into<Content> + Clone>(&self, name: &str, files: &[(&str, C)]) {
        let files = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), content.clone().into()))
            .collect();
        lock(&self.state.repos).insert(name.to_owned(), Repo { commit: COMMIT, files });
    }
    /// Moves a repository to its next commit.
    pub fn advance(&self, name: &str) {
        if let Some(repo) = lock(&self.state.repos).get_mut(name) {
            repo.commit = LATER;
        }
    }
    /// From now on does this wrong.
    pub fn faults(&self, faults: Faults) {
        *lock(&self.state.faults) = faults;
    }
    /// What was asked since this was asked last.
    pub fn log(&self) -> Vec<Request> {
        std::mem::take(&mut lock(&self.state.log))
    }
    /// Bytes of files that were asked for since [`Hub::log`].
    pub fn asked(&self) -> u64 {
        let log = lock(&self.state.log);
        log.iter()
            .filter(|r| r.status == 206)
            .filter_map(|r| r.range)
            .map(|(from, to)| to - from)
            .sum()
    }
}

fn certificates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("certs")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread for each connection, until the test ends.
fn listen(state: &Arc<State>, cdn: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let state = state.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = state.clone();
            // Whoever leaves early is no fault of the hub's.
            thread::spawn(move || _ = serve::connection(stream, &state, cdn));
        }
    });
    addr
}
