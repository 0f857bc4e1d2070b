//! Fetching: ranges, resuming, and what comes wrong.
use super::*;
use fake::{At, Faults};

const SIZE: u64 = 3 << 20;

fn always(byte: u64) -> Option<At> {
    Some(At { byte, times: u32::MAX })
}

fn once(byte: u64) -> Option<At> {
    Some(At { byte, times: 1 })
}

#[test]
fn d10_every_byte_is_asked_for_once() {
    let (hub, content) = hub_with(SIZE + 5);
    let config = config("every_byte", hub.url());
    let told = check_pull(&config, &content);
    assert!(told.has("fetching m-Q4_K_M.gguf, 3.1 MB; licence: mit"));
    assert_eq!((hub.asked(), *told.came.lock().unwrap()), (SIZE + 5, SIZE + 5));
    assert_eq!(hub.log().iter().filter(|r| r.range.is_some()).count(), 13);
    // What is here is not fetched again; a pull asks what the hub has, and a start asks nothing.
    check_pull(&config, &content);
    assert_eq!(hub.log().len(), 1);
    let path = Hub::new(config.clone()).resolve(REFERENCE, &Told::default()).unwrap();
    assert!(path.is_file() && hub.log().is_empty());
}

#[test]
fn files_of_no_and_few_bytes() {
    let hub = fake::Hub::start();
    let config = config("few_bytes", hub.url());
    for size in [0, 1, 255] {
        let content = fake::Content::noise(size, 1);
        hub.repo("owner/repo", &[(MODEL, content.clone())]);
        let _ = std::fs::remove_dir_all(&config.cache);
        check_pull(&config, &content);
    }
}

#[test]
fn a_folder_comes_whole() {
    let hub = fake::Hub::start();
    let content = |text: &str| fake::Content::from(text);
    let large = fake::Content::noise(SIZE, 2);
    let files_there: &[(&str, fake::Content)] = &[
        ("README.md", content("read me")),
        ("config.json", content("{}")),
        ("tokenizer.json", content("{\"t\": 1}")),
        ("model.safetensors", large.clone()),
        ("original/weights.bin", content("no")),
    ];
    hub.repo("owner/repo", files_there);
    let config = config("a_folder", hub.url());
    let here = pull(&config, REFERENCE).0.unwrap();
    assert_eq!(files(&here.path), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert!(std::fs::read(here.path.join("model.safetensors")).unwrap() == large.bytes());
    assert_eq!(std::fs::read_to_string(here.path.join("tokenizer.json")).unwrap(), "{\"t\": 1}");
}

#[test]
fn d10_another_host_gets_no_token() {
    let (hub, content) = hub_with(SIZE);
    hub.faults(Faults { cdn: true, ..Faults::default() });
    let mut config = config("another_host", hub.url());
    config.route.token = Some(rinfer::hub::Secret::new("hf_secret").unwrap());
    check_pull(&config, &content);
    let log = hub.log();
    assert!(log.iter().any(|r| r.cdn) && log.iter().any(|r| !r.cdn && r.range.is_some()));
    for request in &log {
        let expected = (!request.cdn).then_some("Bearer hf_secret");
        assert_eq!(request.token.as_deref(), expected, "{request:?}");
    }
}

#[test]
fn d3_broken_connections_go_on_where_they_broke() {
    let (hub, content) = hub_with(SIZE);
    let check = |test: &str, faults: Faults, more: u64| {
        let mut config = config(test, hub.url());
        if faults.stall.is_some() {
            config.route.silence = Duration::from_secs(3);
        }
        hub.log();
        hub.faults(faults);
        let told = check_pull(&config, &content);
        assert_eq!(*told.came.lock().unwrap(), SIZE, "{test}");
        assert_eq!(hub.asked(), SIZE + more, "{test}");
    };
    let range = 256 << 10;
    // What was asked and did not come is asked once more.
    check("ends", Faults { end: once(range + 1000), ..Faults::default() }, range - 1000);
    check(
        "ends_late",
        Faults { end: once(SIZE / 100 * 95), ..Faults::default() },
        SIZE.div_ceil(range) * range - SIZE / 100 * 95,
    );
    check("stalls", Faults { stall: once(2 * range + 10), ..Faults::default() }, range - 10);
    check("slow", Faults { rate: Some(4 << 20), ..Faults::default() }, 0);
}

#[test]
fn one_connection_is_alone_where_it_is_fast() {
    let (hub, content) = hub_with(SIZE);
    let connections = |test: &str, rate: Option<u64>, alone: Duration| {
        let mut config = config(test, hub.url());
        config.alone = alone;
        hub.faults(Faults { rate, ..Faults::default() });
        hub.log();
        check_pull(&config, &content);
        let log = hub.log();
        let ports = log.iter().filter(|r| r.range.is_some()).map(|r| r.port);
        ports.collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!(connections("fast", None, Duration::from_secs(60)), 1);
    assert_eq!(connections("slow_way", Some(2 << 20), Duration::from_millis(50)), 4);
}

#[test]
fn d3_an_end_that_always_comes_is_told_and_the_next_run_goes_on() {
    let (hub, content) = hub_with(SIZE);
    let config = config("always_ends", hub.url());
    let at = SIZE / 100 * 95;
    hub.faults(Faults { end: always(at), ..Faults::default() });
    check_refused(&config, REFERENCE, &["/owner/repo/resolve/", "goes on from where it stopped"]);
    hub.faults(Faults::default());
    hub.log();
    let told = check_pull(&config, &content);
    assert!(*told.came.lock().unwrap() <= SIZE - at, "what was good is fetched again");
    assert_eq!(hub.asked(), *told.came.lock().unwrap());
}

#[test]
fn d1_a_flipped_byte_is_found() {
    let (hub, content) = hub_with(SIZE);
    let config = config("flip_once", hub.url());
    hub.faults(Faults { flip: once(1_000_000), ..Faults::default() });
    let told = check_pull(&config, &content);
    assert!(told.has("not what the hub declares"));
    // Again only up to the range that was wrong.
    let again = (1_000_000u64).div_ceil(256 << 10) * (256 << 10);
    assert_eq!(hub.asked(), SIZE + again);
}

#[test]
fn d1_a_byte_that_is_always_flipped_is_refused() {
    let (hub, content) = hub_with(SIZE);
    let config = config("flip_always", hub.url());
    hub.faults(Faults { flip: always(1_000_000), ..Faults::default() });
    let declared = content.sha256();
    check_refused(&config, REFERENCE, &["m-Q4_K_M.gguf", "ETag", &declared, "nothing is kept"]);
    assert_eq!(files(&config.cache), Vec::<String>::new());
    assert_eq!(hub.asked(), 2 * SIZE);
}

#[test]
fn d1_what_the_disk_lost_is_fetched_alone() {
    let (hub, content) = hub_with(SIZE);
    let config = config("disk_lost", hub.url());
    hub.faults(Faults { end: always(SIZE - 1), ..Faults::default() });
    check_refused(&config, REFERENCE, &[]);
    let part = files(&config.cache).into_iter().find(|name| name.ends_with(".part")).unwrap();
    let part = config.cache.join(part);
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[300_000] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    hub.faults(Faults::default());
    hub.log();
    let told = check_pull(&config, &content);
    assert!(told.has("the disk did not keep"));
    assert!(hub.asked() <= 2 * (256 << 10), "{}", hub.asked());
}

#[test]
fn d1_a_server_without_ranges_serves_too() {
    let (hub, content) = hub_with(SIZE);
    let config = config("no_ranges", hub.url());
    hub.faults(Faults { whole: true, end: once(2_000_000), ..Faults::default() });
    let told = check_pull(&config, &content);
    assert_eq!(*told.came.lock().unwrap(), SIZE);
}

#[test]
fn d1_a_file_that_changes_is_fetched_anew_or_refused() {
    let (hub, content) = hub_with(SIZE);
    let config = config("changes", hub.url());
    // The listing's digest is of the first content, which the hub has no more.
    hub.faults(Faults { change: Some(5), ..Faults::default() });
    let error = check_refused(&config, REFERENCE, &["owner/repo"]);
    assert!(matches!(error, Error::Digest { .. } | Error::Changed { .. }), "{error}");
    assert_eq!(files(&config.cache), Vec::<String>::new());
    assert!(hub.log().iter().any(|r| r.if_range.is_some()));
    hub.faults(Faults::default());
    check_pull(&config, &content);
}

#[test]
fn mirrors_without_digests() {
    let (hub, content) = hub_with(SIZE);
    let config = config("bare", hub.url());
    hub.faults(Faults { bare: true, cdn: true, ..Faults::default() });
    // The hub's own headers have what the listing lacks.
    check_pull(&config, &content);
}

#[test]
fn d5_a_full_disk_is_told_before_it_is_full() {
    let (hub, _) = hub_with(1 << 50);
    hub.faults(Faults { raw: Some(format!(
        r#"{{"id":"owner/repo","sha":"{}","siblings":[{{"rfilename":"m.gguf","lfs":{{"sha256":"{}","size":{}}}}}]}}"#,
        fake::COMMIT, "ab".repeat(32), 1u64 << 50,
    )), ..Faults::default() });
    let config = config("no_room", hub.url());
    check_refused(&config, REFERENCE, &["room for", "1.1 PB are needed", "RINFER_MODELS"]);
    assert_eq!(hub.asked(), 0);
}

#[test]
fn two_pulls_share_the_work() {
    let (hub, content) = hub_with(SIZE);
    hub.faults(Faults { rate: Some(3 << 20), ..Faults::default() });
    let config = config("two_pulls", hub.url());
    std::thread::scope(|s| {
        let pulls = [(); 3].map(|()| s.spawn(|| pull(&config, REFERENCE)));
        let told = pulls.map(|pull| pull.join().unwrap());
        assert!(told.iter().all(|(here, _)| here.is_ok()));
        assert_eq!(told.iter().filter(|(_, told)| told.has("waiting")).count(), 2);
    });
    assert_eq!(hub.asked(), SIZE);
    check_pull(&config, &content);
}

#[test]
fn a_new_commit_is_pulled_and_an_old_one_stays_pinned() {
    let (hub, content) = hub_with(SIZE);
    let config = config("new_commit", hub.url());
    check_pull(&config, &content);
    let newer = fake::Content::noise(SIZE, 7);
    hub.repo("owner/repo", &[(MODEL, newer.clone())]);
    hub.advance("owner/repo");
    let resolve = |reference: &str| {
        std::fs::read(Hub::new(config.clone()).resolve(reference, &Told::default()).unwrap())
            .unwrap()
    };
    assert!(resolve(REFERENCE) == content.bytes(), "a start asks nothing");
    pull(&config, REFERENCE).0.unwrap();
    assert!(resolve(REFERENCE) == newer.bytes());
    assert!(resolve(&format!("{REFERENCE}@{}", fake::COMMIT)) == content.bytes());
}
