//! What the hub refuses, and what we refuse of it.
use super::*;
use fake::{Faults, Refusal};
use std::time::Instant;

fn with_token(config: &Config) -> Config {
    let mut config = config.clone();
    config.route.token = Some(rinfer::hub::Secret::new("hf_secret").unwrap());
    config
}

#[test]
fn d4_each_refusal_has_its_own_message() {
    let (hub, _) = hub_with(1000);
    let config = config("refusals", hub.url());
    let files = |status, code| Faults { files: Refusal::always(status, code), ..Faults::default() };
    let listing =
        |status, code| Faults { listing: Refusal::always(status, code), ..Faults::default() };
    let check = |config: &Config, faults: Faults, says: &[&str]| {
        hub.faults(faults);
        check_refused(config, REFERENCE, says);
    };
    let with = with_token(&config);
    let page = format!("{}/owner/repo", hub.url());
    check(&config, files(401, "GatedRepo"), &["gated", &page, "set HF_TOKEN"]);
    check(&with, files(403, "GatedRepo"), &["gated", &page, "has none yet"]);
    check(
        &config,
        listing(401, "RepoNotFound"),
        &["there is none", "or it is private", "HF_TOKEN"],
    );
    check(&with, listing(404, "RepoNotFound"), &["there is none"]);
    check(&config, listing(404, ""), &["there is none"]);
    check(&with, listing(401, ""), &["does not accept HF_TOKEN"]);
    check(&with, files(403, ""), &["forbids", "read access", &page]);
    check(&config, files(404, ""), &["lists this file and does not have it"]);
    check(&config, listing(418, ""), &["answers 418"]);
    check(&config, listing(503, ""), &["answers 503"]);
    hub.faults(Faults::default());
    check_refused(&config, "hf:owner/other", &["owner/other", "there is none"]);
    check_refused(&config, "hf:owner/repo@v2", &["no revision 'v2'"]);
    check_refused(&config, "hf:owner/repo:Q8_0", &["no quant is called Q8_0", "Q4_K_M"]);
    check_refused(&config, "hf:owner", &["hf:OWNER/REPO"]);
    check_refused(&config, "demo:huge", &["tiny"]);
    hub.repo("owner/empty", &[] as &[(&str, &str)]);
    check_refused(&config, "hf:owner/empty", &["is empty"]);
    hub.repo("owner/text", &[("README.md", "x")]);
    check_refused(&config, "hf:owner/text", &["nothing that rinfer runs"]);
}

#[test]
fn what_passes_is_waited_for() {
    let (hub, content) = hub_with(1000);
    let config = config("passes", hub.url());
    let refusal = |status, times| Some(Refusal { status, code: "", wait: None, times });
    hub.faults(Faults { listing: refusal(503, 2), files: refusal(500, 2), ..Faults::default() });
    check_pull(&config, &content);
    let _ = std::fs::remove_dir_all(&config.cache);
    let second = Some(Duration::from_secs(1));
    hub.faults(Faults {
        files: Some(Refusal { status: 429, code: "", wait: second, times: 1 }),
        ..Faults::default()
    });
    let start = Instant::now();
    check_pull(&config, &content);
    assert!(start.elapsed() >= Duration::from_secs(1));
    let _ = std::fs::remove_dir_all(&config.cache);
    let hour = Some(Duration::from_secs(3600));
    hub.faults(Faults {
        listing: Some(Refusal { status: 429, code: "", wait: hour, times: 9 }),
        ..Faults::default()
    });
    let start = Instant::now();
    check_refused(&config, REFERENCE, &["429", "3600 s", "HF_TOKEN"]);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn hostile_listings() {
    let (hub, _) = hub_with(1000);
    let config = config("hostile", hub.url());
    let raw = |name: &str| {
        let sha = fake::COMMIT;
        Some(format!(
            r#"{{"id":"owner/repo","sha":"{sha}","siblings":[{{"rfilename":"{name}","size":5}}]}}"#
        ))
    };
    for name in [
        "../../x.gguf",
        "/etc/x.gguf",
        "a/../x.gguf",
        "..\\\\x.gguf",
        "x\\u0000.gguf",
        "\\u001b[2J.gguf",
        "C:x.gguf",
    ] {
        hub.faults(Faults { raw: raw(name), ..Faults::default() });
        check_refused(&config, REFERENCE, &["a path that", "nothing of it is fetched"]);
    }
    for name in ["CON.gguf", "sub/aux.gguf", "x. /m.gguf"] {
        hub.faults(Faults { raw: raw(name), ..Faults::default() });
        check_refused(&config, REFERENCE, &["Windows"]);
    }
    hub.faults(Faults {
        raw: raw("m.gguf").map(|json| json.replace("owner/repo", "../x")),
        ..Faults::default()
    });
    check_refused(&config, REFERENCE, &["'../x'"]);
    hub.faults(Faults { raw: Some("<html>".into()), ..Faults::default() });
    check_refused(&config, REFERENCE, &["no listing"]);
    let start = Instant::now();
    hub.faults(Faults { more: 1_000_000, ..Faults::default() });
    check_refused(&config, REFERENCE, &["longer than"]);
    assert!(start.elapsed() < Duration::from_secs(60));
    hub.faults(Faults { more: 20_000, ..Faults::default() });
    pull(&config, REFERENCE).0.unwrap();
}

#[test]
fn links_out_of_the_cache() {
    let (hub, content) = hub_with(1000);
    let config = config("links_out", hub.url());
    check_pull(&config, &content);
    let outside = folder("links_out_outside").join("passwd");
    std::fs::write(&outside, content.bytes()).unwrap();
    let link = config.cache.join(&expected(&content)[3]);
    std::fs::remove_file(&link).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let error = Hub::new(config).resolve(REFERENCE, &Told::default()).unwrap_err().to_string();
    assert!(error.contains("leads out of the cache"), "{error}");
}

#[test]
fn renamed_repositories_are_found_by_both_names() {
    let (hub, content) = hub_with(1000);
    let config = config("renamed", hub.url());
    hub.faults(Faults {
        renamed: vec![("old/name".into(), "owner/repo".into())],
        ..Faults::default()
    });
    let (here, told) = pull(&config, "hf:old/name");
    assert!(std::fs::read(here.unwrap().path).unwrap() == content.bytes());
    assert!(told.has("old/name is now called owner/repo"));
    hub.log();
    let hub_now = Hub::new(config);
    for name in ["hf:old/name", REFERENCE] {
        assert!(
            std::fs::read(hub_now.resolve(name, &Told::default()).unwrap()).unwrap()
                == content.bytes()
        );
    }
    assert!(hub.log().is_empty());
}

#[test]
fn d7_offline_is_what_is_here() {
    let (hub, content) = hub_with(1000);
    let mut config = config("offline", hub.url());
    config.offline = true;
    check_refused(&config, REFERENCE, &["HF_HUB_OFFLINE"]);
    config.offline = false;
    check_pull(&config, &content);
    hub.log();
    config.offline = true;
    let told = check_pull(&config, &content);
    assert!(told.has("this is what is here") && hub.log().is_empty());
}

#[test]
fn d10_another_programs_cache_is_read_and_not_written() {
    let (hub, content) = hub_with(100_000);
    let theirs = config("theirs", hub.url());
    check_pull(&theirs, &content);
    // As others have it: without our notes of listings.
    std::fs::remove_dir_all(theirs.cache.join("models--owner--repo/listings")).unwrap();
    let before = files(&theirs.cache);
    let mut ours = config("ours", hub.url());
    ours.others = vec![theirs.cache.clone()];
    ours.offline = true;
    let told = Told::default();
    let path = Hub::new(ours.clone()).resolve(REFERENCE, &told).unwrap();
    assert!(path.starts_with(&theirs.cache) && told.has("is taken from"));
    // A pull of ours takes their content, too.
    ours.offline = false;
    hub.log();
    let here = pull(&ours, REFERENCE).0.unwrap();
    assert!(
        here.path.starts_with(&ours.cache) && std::fs::read(&here.path).unwrap() == content.bytes()
    );
    assert_eq!((hub.asked(), files(&theirs.cache)), (0, before.clone()));
    let error = Hub::new(Config { cache: folder("none"), ..ours.clone() })
        .remove(REFERENCE)
        .unwrap_err()
        .to_string();
    assert!(error.contains("another program's"), "{error}");
    Hub::new(ours.clone()).remove(REFERENCE).unwrap();
    assert_eq!((files(&theirs.cache), files(&ours.cache)), (before, Vec::new()));
}

#[test]
fn models_are_removed_one_by_one() {
    let hub = fake::Hub::start();
    let content = |seed| fake::Content::noise(1000, seed);
    hub.repo("owner/repo", &[("m-Q4_K_M.gguf", content(1)), ("m-Q8_0.gguf", content(2))]);
    let config = config("removed", hub.url());
    let our = Hub::new(config.clone());
    for tag in ["", ":q8_0"] {
        pull(&config, &format!("{REFERENCE}{tag}")).0.unwrap();
    }
    let here: Vec<_> =
        our.cache().repos().iter().flat_map(|repo| our.cache().models(repo)).collect();
    assert_eq!(
        here.iter().filter_map(|here| here.choice.tag.as_deref()).collect::<Vec<_>>(),
        ["Q4_K_M", "Q8_0"]
    );
    assert_eq!(our.remove(&format!("{REFERENCE}:q4_k_m")).unwrap(), 1000);
    assert!(files(&config.cache).iter().all(|name| !name.contains(&content(1).sha256())));
    let error = our.remove(&format!("{REFERENCE}:q4_k_m")).unwrap_err().to_string();
    assert!(error.contains("rinfer models"), "{error}");
    our.remove(&format!("{REFERENCE}:q8_0")).unwrap();
    assert_eq!(files(&config.cache), Vec::<String>::new());
    assert!(our.remove(REFERENCE).unwrap_err().to_string().contains("is not there"));
}

#[test]
fn a_demo_is_what_it_is_pinned_to() {
    let hub = fake::Hub::start();
    let demo = rinfer::hub::Demo::named("small").unwrap();
    hub.repo(demo.repo, &[(demo.file, fake::Content::noise(1000, 3))]);
    let config = config("demo", hub.url());
    check_refused(&config, "demo:small", &["is pinned to", demo.sha256, "not fetched"]);
    assert_eq!(hub.asked(), 0);
    // Nor is it what is here by that file's name.
    pull(&config, &demo.reference().unwrap().to_string()).0.unwrap();
    let error = Hub::new(config).resolve("demo:small", &Told::default()).unwrap_err().to_string();
    assert!(error.contains("is pinned to"), "{error}");
}
