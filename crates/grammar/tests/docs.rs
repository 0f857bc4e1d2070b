//! `docs/structured-output.md` lists what is true.
use rinfer_grammar::{FORMATS, Fate, INTEGERS, KEYWORDS};

fn rows() -> Vec<String> {
    let keywords = KEYWORDS.iter().map(|(keyword, fate)| match fate {
        Fate::Kept => format!("| `{keyword}` | kept | |"),
        Fate::Partly(when) => format!("| `{keyword}` | partly | {when} |"),
        Fate::Annotation => format!("| `{keyword}` | annotation | |"),
        Fate::Refused(instead) => format!("| `{keyword}` | refused | {instead} |"),
    });
    let formats = FORMATS.iter().map(|(name, _, how)| format!("| `{name}` | {how} |"));
    let integers =
        INTEGERS.iter().map(|(name, low, high)| format!("| `{name}` | {low} to {high} |"));
    keywords.chain(formats).chain(integers).collect()
}

#[test]
fn every_keyword_and_format_is_listed() {
    let page = include_str!("../../../docs/structured-output.md");
    let missing: Vec<String> =
        rows().into_iter().filter(|row| !page.lines().any(|line| line == row)).collect();
    assert!(missing.is_empty(), "docs/structured-output.md has not:\n{}", missing.join("\n"));
    let listed = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(listed, rows().len(), "docs/structured-output.md lists more than there is");
}
