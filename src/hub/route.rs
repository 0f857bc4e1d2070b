//! The way to the hub: its address, its token, proxies, and how patient we are.
use super::Error;
use super::tls::Trust;
use std::fmt;
use std::time::Duration;
use ureq::Proxy;

/// Where the hub is and how to get there.
#[derive(Clone, Debug)]
pub struct Route {
    /// `HF_ENDPOINT`, without a slash at its end.
    pub endpoint: String,
    /// `HF_TOKEN`.
    pub token: Option<Secret>,
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, and `NO_PROXY`.
    pub proxies: Proxies,
    /// `SSL_CERT_FILE`, `SSL_CERT_DIR`.
    pub trust: Trust,
    /// How long a connection may be silent.
    pub silence: Duration,
    /// How often something that passes is tried.
    pub tries: u32,
    /// The first wait between tries, which doubles.
    pub pause: Duration,
    /// The longest that the hub may ask to wait.
    pub patience: Duration,
}

/// Proxies, each as its variable has it.
#[derive(Clone, Default)]
pub struct Proxies {
    /// For https.
    pub https: Option<String>,
    /// For http.
    pub http: Option<String>,
    /// For both.
    pub all: Option<String>,
    /// Hosts that are reached without one, separated by commas.
    pub none: Option<String>,
}

/// What is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Of a header's characters.
    ///
    /// # Errors
    /// [`Error::Setting`], without the token.
    pub fn new(text: &str) -> Result<Secret, Error> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
            let problem =
                "is no token: it has spaces or characters that a header can't have".into();
            return Err(Error::Setting { name: "HF_TOKEN", problem });
        }
        Ok(Secret(text.to_owned()))
    }
    /// For a header of the hub's own requests.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Proxies")
    }
}

impl Proxies {
    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        self.https.is_some() || self.http.is_some() || self.all.is_some()
    }
    /// The proxy for a scheme.
    pub(super) fn of(&self, scheme: &str) -> Result<Option<Proxy>, Error> {
        let own = if scheme == "https" {
            ("HTTPS_PROXY", &self.https)
        } else {
            ("HTTP_PROXY", &self.http)
        };
        let [(name, url)] = match (own, &self.all) {
            ((name, Some(url)), _) => [(name, url)],
            (_, Some(url)) => [("ALL_PROXY", url)],
            _ => return Ok(None),
        };
        let problem = || {
            Error::Setting {
            name,
            problem: "is no proxy's address: expected http://HOST:PORT or socks5h://HOST:PORT, with USER:PASSWORD@ \
                      before the host if it needs them"
                .into(),
        }
        };
        let plain = Proxy::new(url).map_err(|_| problem())?;
        let mut proxy = Proxy::builder(plain.protocol()).host(plain.host()).port(plain.port());
        if let Some(user) = plain.username() {
            proxy = proxy.username(user);
        }
        if let Some(password) = plain.password() {
            proxy = proxy.password(password);
        }
        for host in self.none.iter().flat_map(|hosts| hosts.split(',')).map(str::trim) {
            if !host.is_empty() {
                proxy = proxy.no_proxy(host);
                // A plain name means the hosts below it as well, as curl has it.
                if !host.starts_with(['.', '*']) {
                    proxy = proxy.no_proxy(&format!(".{host}"));
                }
            }
        }
        proxy.build().map(Some).map_err(|_| problem())
    }
}
