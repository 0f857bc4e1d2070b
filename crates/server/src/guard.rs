//! Who may ask: keys, and what a browser says about the page that asks.
//!
//! A page of some other site can make a browser ask this machine, by its address or by a name of the
//! site's own that resolves to it. `Host` tells the second, `Origin` both.
use crate::config::Config;
use crate::refusal::{Kind, Refusal};
use crate::web;
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method};
use sha2::{Digest, Sha256};

/// What is answered without a key: the page has no secrets, and asks for it.
const OPEN: [&str; 2] = ["/health", web::PAGE];
const PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Whether this request may be answered at all.
pub fn admit(config: &Config, parts: &Parts) -> Result<(), Refusal> {
    host(config, parts)?;
    if let Some(origin) = parts.headers.get(header::ORIGIN)
        && !is_allowed(config, origin, &parts.headers)
    {
        let origin = String::from_utf8_lossy(origin.as_bytes()).into_owned();
        let text = format!(
            "pages of {origin} may not ask this server: start it with --origin {origin} if they should"
        );
        return Err(Refusal::new(Kind::Forbidden, text).code("origin_not_allowed"));
    }
    if parts.method == Method::OPTIONS || OPEN.contains(&parts.uri.path()) {
        return Ok(());
    }
    key(config, &parts.headers)
}

/// Without keys, whoever can name this server can use it: only names of this machine are good.
fn host(config: &Config, parts: &Parts) -> Result<(), Refusal> {
    if !config.keys.is_empty() {
        return Ok(());
    }
    let given = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = given.and_then(|host| host.parse::<Authority>().ok());
    let named = [authority.as_ref().map(Authority::host), parts.uri.host()];
    let good = |name: &str| {
        is_local(name) || config.hosts.iter().any(|host| host.eq_ignore_ascii_case(bare(name)))
    };
    if authority.is_some() && named.into_iter().flatten().all(good) {
        return Ok(());
    }
    let text = format!(
        "the Host header is {}: a server without a key answers to localhost only; allow another name by \
         --host-name",
        given.map_or("missing".to_owned(), |host| format!("'{host}'"))
    );
    Err(Refusal::new(Kind::Forbidden, text).code("host_not_allowed"))
}

/// A name without the point that may end it.
fn bare(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Whether a name can only be this machine's: no name server is asked for it.
fn is_local(name: &str) -> bool {
    let name = bare(name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name));
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Whether pages of this origin may ask: this machine's, the server's own, and those that were named.
fn is_allowed(config: &Config, origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let named = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(origin);
    if config.origins.iter().any(named) {
        return true;
    }
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let own = headers.get(header::HOST).is_some_and(|own| own.as_bytes() == host.as_bytes());
    matches!(scheme, "http" | "https") && (own || is_local(authority.host()))
}

fn key(config: &Config, headers: &HeaderMap) -> Result<(), Refusal> {
    if config.keys.is_empty() {
        return Ok(());
    }
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    let given = bearer.or_else(|| text(HeaderName::from_static("x-api-key")));
    // Every key is compared, and all of each: time tells nothing about them.
    let good = |given: &str| config.keys.iter().fold(false, |good, key| good | same(key, given));
    match given {
        Some(given) if good(given) => Ok(()),
        Some(_) => Err(Refusal::new(Kind::Key, "the API key is wrong").code("invalid_api_key")),
        None => {
            let text = "no API key: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'";
            Err(Refusal::new(Kind::Key, text).code("invalid_api_key"))
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    let (a, b) = (Sha256::digest(a), Sha256::digest(b));
    a.iter().zip(&b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// What a browser is told of an allowed page: nothing if no page asks.
pub fn headers(config: &Config, request: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(origin) = request.get(header::ORIGIN) else { return headers };
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    if !is_allowed(config, origin, request) {
        return headers;
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    let shown =
        HeaderValue::from_static("x-rinfer-ignored, x-rinfer-truncated, x-request-id, retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, shown);
    if let Some(asked) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    if request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    if request.contains_key(PRIVATE) {
        headers.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn config() -> Config {
        Config::new(|| 0, || 0)
    }

    fn asked(headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::builder().uri("/v1/models"), |r, (k, v)| r.header(*k, *v));
        request.body(()).unwrap().into_parts().0
    }

    fn kind(config: &Config, headers: &[(&str, &str)]) -> Option<Kind> {
        admit(config, &asked(headers)).err().map(|refusal| refusal.kind)
    }

    /// R6: a page that reaches this machine by a name of its own.
    #[test]
    fn r6_names_of_others_are_refused() {
        let local = [
            "localhost",
            "localhost:8080",
            "LOCALHOST.:80",
            "127.0.0.1:1",
            "127.1.2.3",
            "[::1]:8080",
        ];
        for host in local {
            assert_eq!(kind(&config(), &[("host", host)]), None, "{host}");
        }
        let foreign = [
            "evil.example:8080",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:80",
            "",
            "local host",
            "evil.example#localhost",
            "x@localhost.evil",
        ];
        for host in foreign {
            assert_eq!(kind(&config(), &[("host", host)]), Some(Kind::Forbidden), "{host}");
        }
        assert_eq!(kind(&config(), &[]), Some(Kind::Forbidden));
        let named = Config { hosts: vec!["box.lan".into()], ..config() };
        assert_eq!(kind(&named, &[("host", "BOX.lan.:8080")]), None);
        // A name in the request's own line is one, too.
        let mut parts = asked(&[("host", "localhost")]);
        parts.uri = "http://evil.example/v1/models".parse().unwrap();
        assert!(admit(&config(), &parts).is_err());
        // Whoever has the key may call the server what they like.
        let keyed = Config { keys: vec!["k".into()], ..config() };
        assert_eq!(kind(&keyed, &[("host", "box.lan"), ("x-api-key", "k")]), None);
    }

    #[test]
    fn pages_of_others_are_refused() {
        let local = ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"];
        for origin in local {
            assert_eq!(
                kind(&config(), &[("host", "localhost"), ("origin", origin)]),
                None,
                "{origin}"
            );
        }
        for origin in [
            "https://evil.example",
            "null",
            "file://",
            "http://localhost.evil.example",
            "app://obsidian.md",
        ] {
            let found = kind(&config(), &[("host", "localhost"), ("origin", origin)]);
            assert_eq!(found, Some(Kind::Forbidden), "{origin}");
        }
        let named = Config { origins: vec!["app://obsidian.md".into()], ..config() };
        assert_eq!(kind(&named, &[("host", "localhost"), ("origin", "app://obsidian.md")]), None);
        let keyed = Config { keys: vec!["k".into()], ..config() };
        let own = [("host", "box.lan:8080"), ("origin", "http://box.lan:8080"), ("x-api-key", "k")];
        assert_eq!(kind(&keyed, &own), None);
    }

    /// A12: a browser is told what an allowed page may send, whatever that is.
    #[test]
    fn a12_asked_headers_are_allowed() {
        let preflight = |origin| {
            asked(&[
                ("host", "localhost"),
                ("origin", origin),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "authorization, x-stainless-os"),
                ("access-control-request-private-network", "true"),
            ])
        };
        let found = headers(&config(), &preflight("http://localhost:3000").headers);
        assert_eq!(found[header::ACCESS_CONTROL_ALLOW_ORIGIN], "http://localhost:3000");
        assert_eq!(found[header::ACCESS_CONTROL_ALLOW_HEADERS], "authorization, x-stainless-os");
        assert_eq!(found[PRIVATE_ALLOWED], "true");
        let foreign = headers(&config(), &preflight("https://evil.example").headers);
        assert_eq!(foreign.keys().collect::<Vec<_>>(), [header::VARY]);
    }

    #[test]
    fn keys_are_whole() {
        let keyed = Config { keys: vec!["one".into(), "two".into()], ..config() };
        for (name, value) in [
            ("authorization", "Bearer two"),
            ("authorization", "bearer  one"),
            ("x-api-key", "one"),
        ] {
            assert_eq!(kind(&keyed, &[(name, value)]), None, "{value}");
        }
        for (name, value) in [
            ("authorization", "Bearer on"),
            ("authorization", "one"),
            ("x-api-key", ""),
            ("x", "one"),
        ] {
            assert_eq!(kind(&keyed, &[(name, value)]), Some(Kind::Key), "{value}");
        }
        let mut health = asked(&[]);
        health.uri = OPEN[0].parse().unwrap();
        assert_eq!(admit(&keyed, &health), Ok(()));
    }
}
