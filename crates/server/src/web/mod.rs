//! The page: one document, made of the files here, which asks this server and nobody else.
//!
//! A browser runs no script but its own (by digest) and makes no markup of any text
//! (`require-trusted-types-for`), so what a model writes is never HTML; nothing is loaded from elsewhere.
mod hub;
mod models;

use crate::app::App;
use crate::base64;
use crate::refusal::{Kind, Refusal};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::routing::{get, post};
use sha2::{Digest, Sha256};
use std::sync::{Arc, OnceLock};

/// Where the page is.
pub const PAGE: &str = "/";
/// What its own routes begin with.
const OWN: &str = "/ui/";

const STYLE: &str = include_str!("style.css");
const BODY: &str = include_str!("body.html");
const SCRIPT: &str = concat!(
    include_str!("dom.js"),
    include_str!("highlight.js"),
    include_str!("markdown.js"),
    include_str!("store.js"),
    include_str!("api.js"),
    include_str!("settings.js"),
    include_str!("chat.js"),
    include_str!("models.js"),
    include_str!("hub.js"),
    include_str!("main.js"),
);

/// The routes.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route(PAGE, get(page))
        .route("/ui/models", get(models::list))
        .route("/ui/models/load", post(models::load))
        .route("/ui/models/unload", post(models::unload))
        .route("/ui/models/plan", post(models::plan))
        .route("/ui/hub/search", post(hub::search))
        .route("/ui/hub/contents", post(hub::contents))
        .route("/ui/hub/pull", post(hub::pull))
        .route("/ui/hub/cancel", post(hub::cancel))
}

/// Only the page itself may use its routes: other sites' pages may not, even where they may use the API.
pub fn admit(headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let site = text(header::HeaderName::from_static("sec-fetch-site"));
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map(|(_, host)| host));
    let own = site.is_none_or(|site| matches!(site, "same-origin" | "none"))
        && origin.is_none_or(|host| host.is_some() && host == text(header::HOST));
    if own || !path.starts_with(OWN) {
        return Ok(());
    }
    let text = format!("{path} is for this server's own page");
    Err(Refusal::new(Kind::Forbidden, text).code("origin_not_allowed"))
}

async fn page() -> Response<Body> {
    let mut response = Response::new(Body::from(document()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy());
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>rinfer</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n\
             <body>\n{BODY}<script>{SCRIPT}</script>\n</body>\n</html>\n"
        )
    })
}

/// What a browser lets the page do: W3C's Content Security Policy, level 3.
fn policy() -> HeaderValue {
    static POLICY: OnceLock<String> = OnceLock::new();
    let policy = POLICY.get_or_init(|| {
        let digest = |text: &str| format!("'sha256-{}'", base64::encode(&Sha256::digest(text)));
        format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data: blob:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
            digest(SCRIPT),
            digest(STYLE)
        )
    });
    HeaderValue::from_str(policy).expect("ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is asked of another machine, and nothing that a model writes can become markup.
    #[test]
    fn the_page_is_whole() {
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
        for text in [STYLE, BODY] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("url("));
        }
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }

    #[test]
    fn r6_only_the_page_uses_its_routes() {
        let check = |headers: &[(&'static str, &'static str)], good: bool| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(admit(&map, "/ui/models").is_ok(), good, "{headers:?}");
            assert!(admit(&map, "/v1/models").is_ok());
        };
        check(&[("host", "localhost:8080")], true);
        check(&[("host", "localhost:8080"), ("sec-fetch-site", "same-origin")], true);
        check(&[("host", "localhost:8080"), ("origin", "http://localhost:8080")], true);
        check(&[("host", "localhost:8080"), ("origin", "http://localhost:9090")], false);
        check(&[("host", "localhost:8080"), ("origin", "null")], false);
        check(&[("host", "localhost:8080"), ("sec-fetch-site", "same-site")], false);
        check(&[("host", "localhost:8080"), ("sec-fetch-site", "cross-site")], false);
    }
}
