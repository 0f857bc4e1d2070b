//! What a checkpoint's files say of its name and licence.
use crate::error::Result;
use crate::load::Opened;
use rinfer_formats::Checkpoint;
use std::path::Path;

/// What people call it: what the file says, or what it is called.
pub fn name(opened: &Opened) -> Result<String> {
    let said = match &opened.files {
        Checkpoint::Gguf(gguf) => gguf.metadata().str("general.name")?.map(str::to_owned),
        _ => None,
    };
    let path = Path::new(&opened.name);
    let called = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let called = if called.is_dir() { called.file_name() } else { called.file_stem() };
    let called = called.map(|name| name.to_string_lossy().into_owned());
    Ok(said.filter(|name| !name.is_empty()).or(called).unwrap_or_else(|| opened.name.clone()))
}

/// Under which licence it may be used, if a file says so.
pub fn license(opened: &Opened) -> Result<Option<String>> {
    match &opened.files {
        Checkpoint::Gguf(gguf) => Ok(gguf.metadata().str("general.license")?.map(str::to_owned)),
        Checkpoint::Folder(folder) => Ok(folder.readme()?.as_deref().and_then(of_card)),
        Checkpoint::Bundle(_) => Ok(opened.about.as_ref().and_then(|about| about.license.clone())),
    }
}

/// Of a model card, which begins with a few lines of YAML between dashes.
fn of_card(card: &str) -> Option<String> {
    let (head, _) = card.trim_start().strip_prefix("---")?.split_once("\n---")?;
    let line = head.lines().find_map(|line| line.strip_prefix("license:"))?;
    let name = line.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards() {
        let check = |card: &str, name: Option<&str>| assert_eq!(of_card(card).as_deref(), name);
        check("---\nlanguage: en\nlicense: apache-2.0\n---\n# Model", Some("apache-2.0"));
        check("---\nlicense: \"mit\"\n---", Some("mit"));
        check("---\nlicense:\n- mit\n---", None);
        check("# Model\nlicense: mit\n", None);
        check("---\ntags: x\n---\nlicense: mit", None);
    }
}
