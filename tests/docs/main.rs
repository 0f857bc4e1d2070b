//! The documentation says what is: links lead somewhere, messages are the program's own, versions are those that are tested,
//! names are exported. Its commands are parsed in `src/docs.rs`, its snippets of Rust are compiled as the library's examples,
//! its requests are sent in `crates/server/tests/server/docs.rs`.
#![expect(clippy::unwrap_used, reason = "tests")]
mod literals;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// All pages, and the README.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let mut all: Vec<PathBuf> =
        docs.map(|e| PathBuf::from("docs").join(e.unwrap().file_name())).collect();
    all.sort();
    all.push("README.md".into());
    all
}

/// The lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// What an anchor calls a heading.
fn slug(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    heading
        .to_lowercase()
        .chars()
        .filter(|c| kept(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The targets of a text's links.
fn links(text: &str) -> Vec<&str> {
    let rest = |piece: &'_ str| piece.split_once(')').map(|(target, _)| target.len());
    text.split("](").skip(1).filter_map(|piece| Some(&piece[..rest(piece)?])).collect()
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = read(&page);
        for target in prose(&text).flat_map(links).filter(|target| !target.starts_with("https://"))
        {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { page.with_file_name(path) };
            assert!(root().join(&file).is_file(), "{}: {target}", page.display());
            // A site has the folder alone.
            assert!(
                !page.starts_with("docs") || !path.contains('/'),
                "{}: {target}",
                page.display()
            );
            let there = read(&file);
            let headings = prose(&there)
                .filter_map(|line| Some(slug(line.trim_start_matches('#').strip_prefix(' ')?)));
            assert!(
                anchor.is_empty() || headings.into_iter().any(|h| h == anchor),
                "{}: {target}",
                page.display()
            );
        }
    }
}

#[test]
fn pages_have_one_title_and_are_listed() {
    let summary = read("docs/SUMMARY.md");
    let mut listed = links(&summary);
    listed.sort_unstable();
    let pages: Vec<PathBuf> = pages().into_iter().filter(|page| page.starts_with("docs")).collect();
    let names: Vec<&str> = pages.iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
    let others: Vec<&str> = names.into_iter().filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(listed, others);
    for page in pages.iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let text = read(page);
        let titles = prose(&text).filter(|line| line.starts_with("# ")).count();
        assert!(titles == 1 && text.starts_with("# "), "{}", page.display());
        let fences: Vec<&str> = text.lines().filter(|line| line.starts_with("```")).collect();
        assert!(
            fences.chunks(2).all(|pair| pair.len() == 2 && pair[0].len() > 3 && pair[1] == "```"),
            "{}",
            page.display()
        );
    }
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The cell of each row of the page's tables that has messages.
fn quotes(page: &str) -> Vec<&str> {
    let (mut column, mut all) = (None, Vec::new());
    for line in page.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let told = column.filter(|_| line.starts_with('|')).and_then(|at: usize| cells.get(at));
        all.extend(told.into_iter().flat_map(|cell| spans(cell)));
        column = match column {
            _ if !line.starts_with('|') => None,
            None => cells.iter().position(|cell| cell.contains("message")),
            column => column,
        };
    }
    all
}

/// Whether all that stays the same of a quote comes one after another in a literal.
fn is_in(quote: &str, literal: &str) -> bool {
    let mut rest = literal;
    quote.split('…').map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        true
    })
}

#[test]
fn messages_are_the_programs_own_and_all_are_there() {
    let page = read("docs/troubleshooting.md");
    let quotes = quotes(&page);
    assert!(quotes.len() > 120, "{}", quotes.len());
    let sources = literals::sources(root());
    let literals: Vec<String> = sources.iter().flat_map(|source| literals::of(source)).collect();
    let missing: Vec<&&str> = quotes
        .iter()
        .filter(|quote| !literals.iter().any(|literal| is_in(quote, literal)))
        .collect();
    assert!(missing.is_empty(), "nothing says {missing:#?}");
    // What an error type says, and what the server's programs tell refusals by.
    let errors = sources.iter().flat_map(|source| literals::errors(source));
    let unsaid: Vec<String> =
        errors.filter(|literal| !quotes.iter().any(|quote| is_in(quote, literal))).collect();
    assert!(unsaid.is_empty(), "the page does not have {unsaid:#?}");
    let codes: BTreeSet<&str> = sources.iter().flat_map(|source| literals::codes(source)).collect();
    let unsaid: Vec<&&str> = codes.iter().filter(|code| !quotes.contains(code)).collect();
    assert!(codes.len() > 15 && unsaid.is_empty(), "the page does not have {unsaid:?}");
}

/// Versions that a page says are tested are those that are.
#[test]
fn tested_clients_are_tested() {
    let page = read("docs/recipes.md");
    let named: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("Tested: "))
        .flat_map(|line| line.split_once(". ").map_or(line, |(first, _)| first).split(", "))
        .map(|client| {
            let (name, version) = client.trim_end_matches('.').split_once(' ').unwrap();
            (name.to_owned(), version.to_owned())
        })
        .collect();
    assert_eq!(named.len(), 12, "{named:?}");
    let pip = read("tests/clients/requirements.txt");
    let mut tested: BTreeSet<(String, String)> = pip
        .lines()
        .filter_map(|line| line.split_once("=="))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    for package in ["tests/clients/package.json", "tests/clients/agents/package.json"] {
        let package: serde_json::Value = serde_json::from_str(&read(package)).unwrap();
        for (name, version) in package["dependencies"].as_object().unwrap() {
            tested.insert((name.clone(), version.as_str().unwrap().to_owned()));
        }
    }
    let unknown: Vec<_> = named.difference(&tested).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Every variable that the program reads has its line, and no other.
#[test]
fn the_environment_is_all_that_is_read() {
    let name = |text: &&str| {
        text.len() > 3
            && !text.starts_with("CARGO_")
            && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let source = read("src/main.rs");
    let literals = literals::of(&source);
    let read_there: BTreeSet<&str> = literals.iter().map(String::as_str).filter(name).collect();
    let page = read("docs/install.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let told: BTreeSet<&str> =
        rows.flat_map(|row| spans(row.split(" | ").next().unwrap_or(row))).filter(name).collect();
    assert_eq!(told, read_there);
}

/// Every name that the library exports is of one tier, and no other is.
#[test]
fn the_api_has_two_tiers() {
    let source = read("src/lib.rs");
    let page = read("docs/api.md");
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    let told: Vec<&str> = page.lines().filter(|l| l.starts_with("| `")).flat_map(spans).collect();
    let mut exported = vec!["hub"];
    for statement in source.split(';').filter(|statement| statement.contains("pub use ")) {
        let (_, path) = statement.split_once("pub use ").unwrap();
        let names = path.rsplit_once("::").unwrap().1.split(',');
        let shown = names.filter_map(|name| name.split(word).rfind(|word| !word.is_empty()));
        exported.extend(shown.map(|name| if name == "self" { "schemars" } else { name }));
    }
    assert!(exported.len() > 50, "{exported:?}");
    for name in &exported {
        let times = told.iter().filter(|text| *text == name).count();
        assert_eq!(times, 1, "{name}");
    }
    let unknown = told.iter().filter(|t| {
        t.starts_with(char::is_uppercase) && !t.contains("::") && !exported.contains(t)
    });
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&&str>::new());
}

/// What the guide says of threads.
#[test]
fn models_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    fn sent<T: Send>() {}
    shared::<rinfer::Model>();
    shared::<rinfer::Embedder>();
    shared::<rinfer::Reranker>();
    sent::<rinfer::Session>();
    sent::<rinfer::Turn>();
    sent::<rinfer::Answer>();
}
