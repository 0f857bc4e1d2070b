//! Rules over the sources: sizes, `unsafe`, ambient state, families, leaves, paths and names.
use crate::source::{self, File, code, words};
use std::collections::BTreeSet;
use std::path::Path;

const MAX_LINES: usize = 400;
const MAX_FUNCTION: usize = 60;
/// Where `unsafe` may be; the last is a test whose allocator counts.
const UNSAFE: [&str; 4] = [
    "crates/kernels/",
    "crates/formats/src/map.rs",
    "crates/gpu/src/",
    "crates/engine/tests/allocations.rs",
];
/// Where the environment may be read.
const AMBIENT: [&str; 3] = ["src/main.rs", "crates/testkit/", "xtask/"];
const LEAVES: [&str; 5] = ["kernels", "formats", "text", "grammar", "terminal"];
/// Where a family may not be named. `formats` names what files name, `text` what tokenizers name.
const GENERIC: [&str; 5] =
    ["crates/kernels/", "crates/engine/", "crates/server/", "crates/gpu/", "src/"];
const FAMILIES: &str = "crates/engine/src/families/";

/// Everything that breaks a rule, a line each: place, rule.
///
/// # Errors
/// If the repository can't be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = source::files(root)?;
    let families = families(&files);
    let mut broken = Vec::new();
    for file in &files {
        let mut say =
            |line: usize, what: String| broken.push(format!("{}:{line}: {what}", file.path));
        names(file, &mut say);
        if !file.is_rust() {
            continue;
        }
        opening(file, &mut say);
        leftovers(file, &mut say);
        unsafety(file, &mut say);
        ambient(file, &mut say);
        if file.is_product() {
            sizes(file, &mut say);
            generic(file, &families, &mut say);
        }
    }
    for file in files.iter().filter(|f| f.path.ends_with("Cargo.toml")) {
        leaf(file, &mut broken);
    }
    paths(root, &files, &mut broken);
    Ok(broken)
}

type Say<'a> = dyn FnMut(usize, String) + 'a;

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line))
}

/// Files of at most 400 lines, functions of at most 60, tests aside.
fn sizes(file: &File, say: &mut Say) {
    let text = file.before_tests();
    let count = text.lines().count();
    if count > MAX_LINES {
        say(1, format!("{count} lines: more than {MAX_LINES}"));
    }
    let mut open: Option<(usize, usize)> = None;
    for (n, line) in lines(text) {
        let indent = line.len() - line.trim_start().len();
        let code = code(line);
        let starts = words(&code).take(6).any(|w| w == "fn") && !code.trim_end().ends_with(';');
        let one_line = code.trim_end().ends_with('}');
        match open {
            None if starts && !one_line => open = Some((n, indent)),
            Some((from, at)) if indent == at && line.trim_start().starts_with('}') => {
                let length = n + 1 - from;
                if length > MAX_FUNCTION {
                    say(from, format!("a function of {length} lines: more than {MAX_FUNCTION}"));
                }
                open = None;
            }
            // A declaration without a body.
            Some((_, at)) if indent == at && code.trim_end().ends_with(';') => open = None,
            _ => {}
        }
    }
}

/// Every module says what it is for.
fn opening(file: &File, say: &mut Say) {
    if !file.text.starts_with("//!") {
        say(1, "does not open with `//!`".to_owned());
    }
}

/// Nothing is left for later.
fn leftovers(file: &File, say: &mut Say) {
    let marks = ["TO", "FIX", "XX"].map(|m| {
        m.to_owned()
            + if m == "TO" {
                "DO"
            } else if m == "FIX" {
                "ME"
            } else {
                "X"
            }
    });
    let macros = ["dbg", "todo", "unimplemented"].map(|m| format!("{m}!("));
    for (n, line) in lines(&file.text) {
        for mark in marks.iter().filter(|m| words(line).any(|w| w == m.as_str())) {
            say(n, format!("{mark} is left"));
        }
        for call in macros.iter().filter(|m| code(line).contains(m.as_str())) {
            say(n, format!("{call}…) is left"));
        }
    }
}

/// `unsafe` only where it may be, and never without its reason.
fn unsafety(file: &File, say: &mut Say) {
    let allowed = UNSAFE.iter().any(|place| file.path.starts_with(place));
    let all: Vec<&str> = file.text.lines().collect();
    for (i, line) in all.iter().enumerate() {
        let code = code(line);
        if !words(&code).any(|w| w == "unsafe") {
            continue;
        }
        if !allowed {
            say(i + 1, "`unsafe` outside of the places that may have it".to_owned());
        }
        let block = code.contains("unsafe {") || code.contains("unsafe impl");
        // Several lines of one statement share the reason above it.
        let mut above = all[..i].iter().rev().take(8);
        if block && !line.contains("SAFETY:") && !above.any(|l| l.contains("SAFETY:")) {
            say(i + 1, "`unsafe` without a `// SAFETY:` line".to_owned());
        }
    }
    let root = file.path.ends_with("/src/lib.rs") || file.path == "src/main.rs";
    if root
        && !file.path.starts_with("tests/")
        && !allowed
        && !file.path.starts_with("crates/formats/")
    {
        let forbids = file.text.contains("#![forbid(unsafe_code)]");
        if !forbids {
            say(1, "no `#![forbid(unsafe_code)]`".to_owned());
        }
    }
}

/// Libraries read no environment and no clock of the day.
fn ambient(file: &File, say: &mut Say) {
    if AMBIENT.iter().any(|place| file.path.starts_with(place)) {
        return;
    }
    for (n, line) in lines(&file.text) {
        let code = code(line);
        for call in ["env::var", "env::vars", "env::set_var", "SystemTime::now"] {
            if code.contains(call) {
                say(n, format!("`{call}` outside of src/main.rs"));
            }
        }
    }
}

/// The families' names: the modules of `families/` that are no operation of their own.
fn families(files: &[File]) -> BTreeSet<String> {
    let stem = |path: &str, folder: &str| -> Option<String> {
        let stem = path.strip_prefix(folder)?.strip_suffix(".rs")?;
        (!stem.contains('/') && !["mod", "common"].contains(&stem)).then(|| stem.to_owned())
    };
    let ops: BTreeSet<String> =
        files.iter().filter_map(|f| stem(&f.path, "crates/kernels/src/ops/")).collect();
    let families = files.iter().filter_map(|f| stem(&f.path, FAMILIES));
    families.filter(|name| !ops.contains(name)).collect()
}

/// A model is data: no code but a family's own names it.
fn generic(file: &File, families: &BTreeSet<String>, say: &mut Say) {
    let applies = GENERIC.iter().any(|place| file.path.starts_with(place));
    if !applies || file.path.starts_with(FAMILIES) {
        return;
    }
    for (n, line) in lines(file.before_tests()) {
        let line = line.split("//").next().unwrap_or_default();
        for name in words(line).map(str::to_lowercase).filter(|w| families.contains(w)) {
            say(n, format!("names the family {name}"));
        }
    }
}

/// Leaves depend on nothing of ours, tests aside.
fn leaf(file: &File, broken: &mut Vec<String>) {
    let Some(name) = LEAVES.iter().find(|leaf| file.path == format!("crates/{leaf}/Cargo.toml"))
    else {
        return;
    };
    let mut section = "";
    for (n, line) in lines(&file.text) {
        if line.starts_with('[') {
            section = line;
        }
        if line.starts_with("rinfer-") && !section.contains("dev-dependencies") {
            broken.push(format!("{}:{n}: the leaf {name} depends on {line}", file.path));
        }
    }
}

/// Paths in the documents exist, and so do the tests they name (`path::test`).
fn paths(root: &Path, files: &[File], broken: &mut Vec<String>) {
    let ours = |f: &&File| f.path.starts_with("docs/") || !f.path.contains('/');
    let documents = files.iter().filter(ours).filter(|f| f.path.ends_with(".md"));
    for file in documents {
        for (n, line) in lines(&file.text) {
            let quoted = line.split('`').skip(1).step_by(2);
            for path in quoted.filter(|q| is_path(q)).flat_map(expand) {
                let (path, test) = path.split_once("::").unwrap_or((&path, ""));
                let found = root.join(path);
                let has_test = |text: String| text.contains(&format!("fn {test}("));
                if !found.exists() {
                    broken.push(format!("{}:{n}: there is no {path}", file.path));
                } else if !test.is_empty() && !std::fs::read_to_string(found).is_ok_and(has_test) {
                    broken.push(format!("{}:{n}: {path} has no test {test}", file.path));
                }
            }
        }
    }
}

/// Whether quoted text in a document is a path of the repository.
fn is_path(text: &str) -> bool {
    let folders =
        ["crates/", "src/", "docs/", "scripts/", "xtask/", "goldens/", "tests/", "tools/", ".ci/"];
    let plain = !text.contains([' ', '<', '>', '*', '$', '…', '=']);
    plain && folders.iter().any(|folder| text.starts_with(folder))
}

/// `a/{b,c}.rs` to `a/b.rs`, `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(a, rest)| Some((a, rest.split_once('}')?)));
    match parts {
        Some((before, (middle, after))) => {
            middle.split(',').flat_map(|m| expand(&format!("{before}{m}{after}"))).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// No package registry's host and no machine's own paths.
fn names(file: &File, say: &mut Say) {
    let hosts = [
        ("crates", "io"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "com"),
        ("ghcr", "io"),
        ("docker", "io"),
    ];
    let hosts = hosts.map(|(name, end)| format!("{name}.{end}"));
    let folders = ["work", "root", "home"].map(|name| format!("/{name}/"));
    for (n, line) in lines(&file.text) {
        for host in hosts.iter().filter(|host| line.contains(host.as_str())) {
            say(n, format!("names the registry {host}"));
        }
        for folder in &folders {
            let at = line.find(folder.as_str());
            let starts = |at: usize| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c))
            };
            if at.is_some_and(starts) {
                say(n, format!("names a machine's path under {folder}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rules say of one file.
    fn check(path: &str, text: &str, rule: fn(&File, &mut Say)) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let mut found = Vec::new();
        rule(&file, &mut |line, _| found.push(line));
        found
    }

    #[test]
    fn every_rule_finds_its_fault() {
        let long = format!("fn f() {{\n{}}}\n", "    x();\n".repeat(60));
        assert_eq!(check("crates/a/src/a.rs", &long, sizes), [1]);
        assert_eq!(check("crates/a/src/a.rs", &"\n".repeat(401), sizes), [1]);
        let tests = format!("//!\n#[cfg(test)]\nmod tests {{\n{}}}", "\n".repeat(500));
        assert_eq!(check("crates/a/src/a.rs", &tests, sizes), []);
        assert_eq!(check("a.rs", "use a;\n", opening), [1]);
        let mark = ["TO", "DO"].concat();
        assert_eq!(check("a.rs", &format!("x\n// {mark}: y\ndbg!(x)"), leftovers), [2, 3]);
        let block = "//!\n// SAFETY: so\nunsafe { a() }\n";
        assert_eq!(check("crates/kernels/src/a.rs", block, unsafety), []);
        assert_eq!(check("crates/text/src/a.rs", block, unsafety), [3]);
        assert_eq!(check("crates/kernels/src/a.rs", "unsafe { a() }", unsafety), [1]);
        assert_eq!(check("crates/text/src/lib.rs", "//!", unsafety), [1]);
        assert_eq!(check("crates/text/src/a.rs", "std::env::var(\"A\")", ambient), [1]);
        assert_eq!(check("src/main.rs", "std::env::var(\"A\")", ambient), []);
        let host = ["see crates", "io"].join(".");
        assert_eq!(check("a.md", &host, names), [1]);
        assert_eq!(check("a.md", &["in ", "work", "x"].join("/"), names), [1]);
    }

    #[test]
    fn families_leaves_and_paths() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let names = families(&[
            file("crates/engine/src/families/llama.rs", ""),
            file("crates/engine/src/families/mamba2.rs", ""),
            file("crates/kernels/src/ops/mamba2.rs", ""),
        ]);
        assert_eq!(names, BTreeSet::from(["llama".to_owned()]));
        let rule = |f: &File, say: &mut Say| generic(f, &BTreeSet::from(["llama".to_owned()]), say);
        let mut found = Vec::new();
        let text = "// llama\nif arch == \"llama\" {}\n";
        rule(&file("crates/engine/src/a.rs", text), &mut |n, _| found.push(n));
        rule(&file("crates/engine/src/families/a.rs", text), &mut |n, _| found.push(n));
        assert_eq!(found, [2]);
        let mut broken = Vec::new();
        let text =
            "[dependencies]\nrinfer-text.workspace = true\n[dev-dependencies]\nrinfer-testkit = 1";
        leaf(&file("crates/kernels/Cargo.toml", text), &mut broken);
        assert_eq!(broken.len(), 1);
        let text = "`src/{main,none}.rs` `src/main.rs::nothing` `cargo x`";
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        paths(&root, &[file("A.md", text)], &mut broken);
        assert_eq!(
            broken[1..],
            ["A.md:1: there is no src/none.rs", "A.md:1: src/main.rs has no test nothing"]
        );
    }
}
