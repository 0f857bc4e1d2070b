//! The way to the hub: TLS and whom it trusts, proxies, redirects.
use super::*;
use fake::{Faults, Proxy};
use rinfer::hub::{Proxies, Secret, Trust};

fn trusting(mut config: Config) -> Config {
    config.route.trust = Trust { file: Some(fake::Hub::authority()), folders: Vec::new() };
    config
}

fn tls_with(size: u64) -> (fake::Hub, fake::Content) {
    let (hub, content) = (fake::Hub::tls(), fake::Content::noise(size, 1));
    hub.repo("owner/repo", &[(MODEL, content.clone())]);
    (hub, content)
}

#[test]
fn d6_https_with_a_private_authority() {
    let (hub, content) = tls_with(3 << 20);
    hub.faults(Faults { cdn: true, ..Faults::default() });
    let untrusting = config("private_authority", hub.url());
    check_refused(
        &untrusting,
        REFERENCE,
        &["'rinfer test authority'", "not trusted", "SSL_CERT_FILE"],
    );
    check_pull(&trusting(untrusting.clone()), &content);
    let mut folder = untrusting;
    folder.route.trust.folders = vec![fake::Hub::authority().parent().unwrap().to_owned()];
    check_pull(&folder, &content);
}

#[test]
fn d6_through_a_proxy() {
    let (hub, content) = tls_with(1 << 20);
    let proxy = Proxy::start(hub.addr(), Some("Basic dXNlcjpzZWNyZXQ="));
    let mut config = trusting(config("proxy", "https://hub.test".into()));
    let there = |user: &str| Some(format!("http://{user}{}", proxy.addr()));
    config.route.proxies.https = there("user:wrong-secret@");
    check_refused(&config, REFERENCE, &["407", "HTTPS_PROXY"]);
    config.route.proxies.https = there("user:secret@");
    check_pull(&config, &content);
    assert!(proxy.tunnels().iter().all(|to| to == "hub.test:443") && !proxy.tunnels().is_empty());
    let _ = std::fs::remove_dir_all(&config.cache);
    config.route.proxies = Proxies { all: there("user:secret@"), ..Proxies::default() };
    check_pull(&config, &content);
    let _ = std::fs::remove_dir_all(&config.cache);
    for none in ["hub.test", ".test", "other, hub.test", "*"] {
        config.route.proxies.none = Some(none.into());
        let before = proxy.tunnels().len();
        check_refused(&config, REFERENCE, &["not found"]);
        assert_eq!(proxy.tunnels().len(), before, "{none}");
    }
    config.route.proxies = Proxies { https: Some("no proxy:secret".into()), ..Proxies::default() };
    check_refused(&config, REFERENCE, &["HTTPS_PROXY", "is no proxy's address"]);
}

#[test]
fn redirects_that_are_not_followed() {
    let (hub, _) = tls_with(1000);
    let config = trusting(config("redirects", hub.url()));
    let check = |to: &str, says: &str| {
        hub.faults(Faults { redirect: Some(to.into()), ..Faults::default() });
        check_refused(&config, REFERENCE, &[says]);
    };
    check("http://127.0.0.1:1/x?secret", "not encrypted");
    check("file:///etc/passwd", "no address");
    check("ftp://127.0.0.1/x", "no address of the web");
    check("x", "no address");
    check("/api/models/x", "too many redirects");
}

#[test]
fn endpoints_and_tokens_that_are_none() {
    for endpoint in ["", "huggingface.co", "ftp://x", "https://user:secret@x", "https://x?y"] {
        let config = config("endpoints", endpoint.into());
        check_refused(&config, REFERENCE, &["HF_ENDPOINT", "https://huggingface.co"]);
    }
    for token in ["", "a b-secret", "a\nsecret", "ä-secret"] {
        let error = Secret::new(token).unwrap_err().to_string();
        assert!(error.contains("HF_TOKEN") && !error.contains("secret"), "{error}");
    }
    assert_eq!(format!("{:?}", Secret::new("hf_secret").unwrap()), "Secret");
}

#[test]
fn a_hub_that_is_not_there() {
    let config = config("not_there", "http://127.0.0.1:1".into());
    check_refused(&config, REFERENCE, &["http://127.0.0.1:1/api/models/owner/repo", "refused"]);
}
