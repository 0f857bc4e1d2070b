//! What Tab offers: commands, the names of sampling flags, models and files.
use super::command::{self, Asked, COMMANDS, Verb};
use super::saved::expanded;
use rinfer_terminal::Assist;
use std::path::PathBuf;

/// What there is to complete with.
pub struct Words {
    /// Of sampling flags.
    pub flags: Vec<String>,
    pub models: Vec<String>,
    /// What `~` is.
    pub home: Option<PathBuf>,
}

impl Assist for Words {
    fn is_open(&self, text: &str) -> bool {
        command::is_open(text)
    }

    fn complete(&self, line: &str) -> (usize, Vec<String>) {
        if !line.starts_with('/') || line.contains('\n') {
            return (0, Vec::new());
        }
        let Some((_, rest)) = line.split_once(' ') else {
            let names = COMMANDS.iter().map(|command| {
                let space = if command.takes.is_empty() { "" } else { " " };
                format!("/{}{space}", command.name)
            });
            return (0, begun(names, line));
        };
        let Asked::Command(verb, _) = command::asked(line) else { return (0, Vec::new()) };
        let rest = rest.trim_start();
        let from = line.len() - rest.len();
        let words = |words: &[&str]| begun(words.iter().map(|word| (*word).to_owned()), rest);
        let found = match verb {
            Verb::Think => words(&["auto", "fold", "off", "on", "show"]),
            Verb::Json => [words(&["off"]), self.files(rest)].concat(),
            Verb::Image | Verb::Load | Verb::Save => self.files(rest),
            Verb::Model => [begun(self.models.iter().cloned(), rest), self.files(rest)].concat(),
            Verb::Set => return self.set(line.len(), from, rest),
            _ => Vec::new(),
        };
        (from, found)
    }
}

impl Words {
    fn set(&self, end: usize, from: usize, rest: &str) -> (usize, Vec<String>) {
        match rest.split_once(' ') {
            None => (from, begun(self.flags.iter().map(|flag| format!("{flag} ")), rest)),
            Some(("schema" | "grammar", path)) => (end - path.len(), self.files(path)),
            Some(("think", how)) => {
                let ways = ["auto", "off", "on"].map(str::to_owned);
                (end - how.len(), begun(ways.into_iter(), how))
            }
            Some(_) => (end, Vec::new()),
        }
    }

    /// Paths that begin so. Spaces are written as they are: a path is all of what follows a command.
    fn files(&self, begin: &str) -> Vec<String> {
        let cut = begin.rfind(std::path::is_separator).map_or(0, |at| at + 1);
        let (folder, name) = begin.split_at(cut);
        let place = if folder.is_empty() { "." } else { folder };
        let Ok(entries) = std::fs::read_dir(expanded(place, self.home.as_deref())) else {
            return Vec::new();
        };
        let entry = |entry: std::fs::DirEntry| {
            let found = entry.file_name().into_string().ok()?;
            let hidden = found.starts_with('.') && !name.starts_with('.');
            let strange = found.contains(char::is_control);
            let end = if entry.path().is_dir() { std::path::MAIN_SEPARATOR_STR } else { "" };
            (found.starts_with(name) && !hidden && !strange)
                .then(|| format!("{folder}{found}{end}"))
        };
        let mut found: Vec<String> = entries.flatten().filter_map(entry).collect();
        found.sort();
        found
    }
}

fn begun(words: impl Iterator<Item = String>, begin: &str) -> Vec<String> {
    words.filter(|word| word.starts_with(begin)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers() {
        let folder = std::env::temp_dir().join(format!("rinfer-complete-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a folder")).unwrap();
        std::fs::write(folder.join("a file.json"), "").unwrap();
        std::fs::write(folder.join(".hidden"), "").unwrap();
        let words = Words {
            flags: vec!["top-k".into(), "top-p".into(), "seed".into()],
            models: vec!["demo:tiny".into()],
            home: Some(folder.clone()),
        };
        let check = |line: &str, from: usize, expect: &[&str]| {
            let (at, found) = words.complete(line);
            assert_eq!(found, expect, "{line}");
            assert!(found.is_empty() || at == from, "{line}: {at}");
        };
        check("hi", 0, &[]);
        check("/re", 0, &["/retry", "/reset"]);
        check("/sa", 0, &["/save "]);
        check("/set to", 5, &["top-k ", "top-p "]);
        check("/set think o", 11, &["off", "on"]);
        check("/think f", 7, &["fold"]);
        check("/model demo:", 7, &["demo:tiny"]);
        let sep = std::path::MAIN_SEPARATOR;
        check("/load ~/a", 6, &["~/a file.json", &format!("~/a folder{sep}")]);
        check("/load ~/.", 6, &["~/.hidden"]);
        check("/json of", 6, &["off"]);
        check("/undo x", 0, &[]);
        check("/load nowhere/", 0, &[]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
