//! Requests to the hub: its token for it alone, redirects in sight, and patience with what passes.
use super::refusal::Asked;
use super::route::Route;
use super::tls::Tls;
use super::{Error, refusal};
use std::error::Error as _;
use std::time::Duration;
use ureq::config::Config;
use ureq::http::{HeaderMap, Response, StatusCode, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    ConnectProxyConnector, Connector, SocksConnector, TcpConnector,
};
use ureq::{Agent, Body};

/// Asks the hub.
pub struct Client {
    agent: Agent,
    route: Route,
}

/// An answer with content, and what the hub itself said before it sent us elsewhere.
pub struct Answer {
    /// From wherever the content is.
    pub response: Response<Body>,
    /// `x-linked-etag` of the hub, of a file that lies elsewhere.
    pub linked_etag: Option<String>,
    /// `x-linked-size`, likewise.
    pub linked_size: Option<u64>,
}

/// Bytes `from..to`, and the ETag that they must be of.
pub struct Span<'a> {
    pub from: u64,
    pub to: u64,
    pub etag: Option<&'a str>,
}

impl Client {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Setting`] for an endpoint or proxy that is none.
    pub fn new(route: Route, connections: usize) -> Result<Client, Error> {
        // What is before an @ may be a password.
        let shown = route.endpoint.rsplit('@').next().unwrap_or_default().escape_debug();
        let problem = |what: &str| Error::Setting {
            name: "HF_ENDPOINT",
            problem: format!("is '{shown}': {what}, such as https://huggingface.co"),
        };
        let uri: Uri = route.endpoint.parse().map_err(|_| problem("expected a URL"))?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return Err(problem("expected a URL"));
        };
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(problem("expected a URL without a user or a query"));
        }
        let proxy = route.proxies.of(scheme)?;
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .user_agent(concat!("rinfer/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(route.silence))
            .timeout_connect(Some(route.silence))
            .timeout_recv_response(Some(route.silence))
            .timeout_per_read(Some(route.silence))
            .timeout_per_write(Some(route.silence))
            .max_idle_connections(2 * connections)
            .max_idle_connections_per_host(connections)
            .build();
        let chain =
            ().chain(SocksConnector::default())
                .chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(Tls::new(route.trust.clone()));
        let agent = Agent::with_parts(config, chain, DefaultResolver::default());
        Ok(Client { agent, route })
    }
    /// The hub's address.
    pub fn endpoint(&self) -> &str {
        &self.route.endpoint
    }
    /// Whether there is a token.
    pub fn has_token(&self) -> bool {
        self.route.token.is_some()
    }
    /// How to retry.
    pub fn route(&self) -> &Route {
        &self.route
    }
    /// All of a short answer.
    ///
    /// # Errors
    /// What the hub refuses, a connection that fails, and more than `most` bytes.
    pub fn text(&self, url: &str, most: u64, asked: &Asked) -> Result<Vec<u8>, Error> {
        let mut tries = Tries::new(&self.route);
        loop {
            let mut answer = self.get(url, None, asked)?;
            let read = answer.response.body_mut().with_config().limit(most).read_to_vec();
            match read {
                Ok(bytes) => return Ok(bytes),
                Err(ureq::Error::BodyExceedsLimit(_)) => {
                    let problem = format!(
                        "what it answers is longer than {most} bytes: no listing of a model's is"
                    );
                    return Err(Error::Listing { url: url.to_owned(), problem });
                }
                Err(error) => tries.failed(self.network(url, error))?,
            }
        }
    }
    /// The content of a URL of the hub, all of it or a span, from wherever the hub sends us.
    ///
    /// # Errors
    /// What the hub refuses, and a connection that fails again and again.
    pub fn get(&self, url: &str, span: Option<&Span>, asked: &Asked) -> Result<Answer, Error> {
        let mut tries = Tries::new(&self.route);
        loop {
            let answer = match self.once(url, span) {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => return Err(error),
                Err(error) if lasts(&error) => return Err(self.network(url, error)),
                Err(error) => {
                    tries.failed(self.network(url, error))?;
                    continue;
                }
            };
            let status = answer.response.status();
            if status.is_success() {
                return Ok(answer);
            }
            let wait = refusal::wait(&answer.response);
            let passes = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            let error = refusal::of(self, url, answer, asked);
            if !passes {
                return Err(error);
            }
            tries.wait(wait, error)?;
        }
    }
    /// One try, through the hub's redirects.
    fn once(&self, url: &str, span: Option<&Span>) -> Result<Result<Answer, Error>, ureq::Error> {
        const MOST: usize = 8;
        let mut at = url.to_owned();
        let (mut linked_etag, mut linked_size) = (None, None);
        for _ in 0..MOST {
            let mut request = self.agent.get(&at);
            if let Some(token) = self.route.token.as_ref().filter(|_| self.is_hub(&at)) {
                request = request.header("authorization", format!("Bearer {}", token.text()));
            }
            if let Some(Span { from, to, etag }) = span {
                request = request.header("range", format!("bytes={from}-{}", to - 1));
                // A weak validator can't say that bytes are the same (RFC 9110, 13.1.5).
                if let Some(etag) = etag.filter(|etag| etag.starts_with('"')) {
                    request = request.header("if-range", etag);
                }
            }
            let response = request.header("accept-encoding", "identity").call()?;
            if self.is_hub(&at) {
                linked_etag = header(response.headers(), "x-linked-etag").or(linked_etag);
                let size =
                    header(response.headers(), "x-linked-size").and_then(|size| size.parse().ok());
                linked_size = size.or(linked_size);
            }
            if !response.status().is_redirection() {
                return Ok(Ok(Answer { response, linked_etag, linked_size }));
            }
            match target(&at, response.headers()) {
                Ok(next) => at = next,
                Err((to, problem)) => {
                    return Ok(Err(Error::Redirect { from: plain(&at), to: plain(&to), problem }));
                }
            }
        }
        Ok(Err(Error::Redirect {
            from: plain(url),
            to: plain(&at),
            problem: "the last of too many redirects",
        }))
    }
    /// Whether a URL is on the hub, which alone gets the token.
    fn is_hub(&self, url: &str) -> bool {
        let origin = |url: &str| {
            let uri: Uri = url.parse().ok()?;
            let port = uri.port_u16().or(match uri.scheme_str()? {
                "https" => Some(443),
                _ => Some(80),
            });
            Some((uri.scheme_str()?.to_owned(), uri.host()?.to_ascii_lowercase(), port))
        };
        let (hub, url) = (origin(&self.route.endpoint), origin(url));
        hub.is_some() && hub == url
    }
    /// A failed connection, with what may help.
    pub fn network(&self, url: &str, error: ureq::Error) -> Error {
        let error = match error {
            ureq::Error::Other(inner) => match inner.downcast::<Error>() {
                Ok(own) => return *own,
                Err(other) => ureq::Error::Other(other),
            },
            other => other,
        };
        let error = match error {
            // What the system's resolver says has no kind of its own.
            ureq::Error::Io(io) if io.to_string().contains("lookup address") => {
                ureq::Error::HostNotFound
            }
            other => other,
        };
        let proxied = self.route.proxies.any();
        let next = match &error {
            ureq::Error::HostNotFound if proxied => "Check HF_ENDPOINT and the proxy's address",
            ureq::Error::HostNotFound => {
                "Check the network and HF_ENDPOINT; behind a proxy set HTTPS_PROXY, and without a network HF_HUB_OFFLINE=1 uses what is here, or give the path of a model's file"
            }
            ureq::Error::ConnectProxyFailed(_) => {
                "Check HTTPS_PROXY, its user and password, and NO_PROXY"
            }
            _ => "Run the same command again: it goes on from where it stopped",
        };
        let cause = match &error {
            ureq::Error::HostNotFound => "its host is not found".to_owned(),
            ureq::Error::Timeout(_) => {
                format!("nothing came for {} s", self.route.silence.as_secs_f32())
            }
            ureq::Error::Io(error) => inner_text(error),
            other => other.to_string(),
        };
        let cause = cause.trim_end_matches('.').to_owned();
        Error::Network { url: plain(url), cause, next }
    }
}

/// What an error of reading or writing says, of TLS too.
pub fn inner_text(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::General(text)) => text.clone(),
        Some(other) => format!("TLS: {other}"),
        None => error.source().map_or_else(|| error.to_string(), ToString::to_string),
    }
}

/// Whether trying again can't help.
fn lasts(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()),
        ureq::Error::Timeout(_) => false,
        ureq::Error::Other(_) | ureq::Error::Tls(_) | ureq::Error::ConnectProxyFailed(_) => true,
        ureq::Error::HostNotFound | ureq::Error::InvalidProxyUrl | ureq::Error::BadUri(_) => true,
        _ => false,
    }
}

/// Where a redirect points; what it says and why it is not followed otherwise.
fn target(from: &str, headers: &HeaderMap) -> Result<String, (String, &'static str)> {
    let to = header(headers, "location").ok_or((String::new(), "which is nowhere"))?;
    let uri: Uri = from.parse().map_err(|_| (to.clone(), "from what is no URL"))?;
    let (scheme, host) =
        (uri.scheme_str().unwrap_or("https"), uri.authority().map_or("", |a| a.as_str()));
    let next = if to.contains("://") {
        to.clone()
    } else if to.starts_with("//") {
        format!("{scheme}:{to}")
    } else if to.starts_with('/') {
        format!("{scheme}://{host}{to}")
    } else {
        return Err((to, "which is no address"));
    };
    let Ok(parsed) = next.parse::<Uri>() else { return Err((to, "which is no address")) };
    match parsed.scheme_str() {
        Some("https") => Ok(next),
        Some("http") if scheme == "http" => Ok(next),
        Some("http") => Err((to, "which is not encrypted")),
        _ => Err((to, "which is no address of the web")),
    }
}

/// A header's text.
pub fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// A URL without its query, which may be signed.
pub fn plain(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().escape_debug().to_string()
}

/// How often something failed, and when to try again.
pub struct Tries<'a> {
    route: &'a Route,
    failed: u32,
}

impl Tries<'_> {
    pub fn new(route: &Route) -> Tries<'_> {
        Tries { route, failed: 0 }
    }
    /// Waits for the next try; the error if there is none.
    pub fn failed(&mut self, error: Error) -> Result<(), Error> {
        self.wait(None, error)
    }
    /// The same, as long as the hub says.
    pub fn wait(&mut self, wait: Option<Duration>, error: Error) -> Result<(), Error> {
        self.failed += 1;
        let pause = self.route.pause * 2u32.pow(self.failed.min(6) - 1);
        let pause = wait.unwrap_or(pause);
        if self.failed >= self.route.tries || pause > self.route.patience {
            return Err(error);
        }
        std::thread::sleep(pause);
        Ok(())
    }
}
