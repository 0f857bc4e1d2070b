//! What is served, by name: what the command line gives, and what a folder holds. Requests name an entry
//! of this list, never a path.
use crate::cmd::options::adapter;
use crate::cmd::{Environment, Usage};
use anyhow::Context;
use rinfer_engine::lora::Adapter;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How deep a folder is read: `publisher/model/file.gguf`.
const DEPTH: usize = 3;

/// A model and what requests call it.
#[derive(Debug, PartialEq)]
pub struct Named {
    /// Its own first.
    pub names: Vec<String>,
    /// None is the program's own.
    pub path: Option<String>,
    /// What is merged into it.
    pub adapters: Vec<Adapter>,
}

impl Named {
    /// Has what is on the hub fetched now, rather than while someone waits for an answer.
    pub fn resolve(&mut self, env: &Environment) -> anyhow::Result<()> {
        if let Some(path) = &self.path {
            self.path = Some(env.resolve(path)?.display().to_string());
        }
        for adapter in &mut self.adapters {
            *adapter = env.resolve_adapter(adapter)?;
        }
        Ok(())
    }
}

/// What an argument gives: `[NAME[,NAME]…=]MODEL[+ADAPTER[=SCALE]]…`.
pub fn given(text: Option<&str>, env: &Environment) -> Result<Named, Usage> {
    let Some(text) = text else {
        let names = vec![stem(&env.program)];
        return Ok(Named { names, path: None, adapters: Vec::new() });
    };
    // A path that has the sign in a folder's name is a path.
    let named = text.split_once('=').filter(|(names, _)| !names.contains(['/', '\\', '+']));
    let Some((names, rest)) = named else {
        let names = vec![stem(Path::new(text))];
        return Ok(Named { names, path: Some(text.to_owned()), adapters: Vec::new() });
    };
    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err(Usage(format!(
            "'{text}' gives an empty name: write NAME=MODEL or NAME,OTHER=MODEL"
        )));
    }
    let (path, adapters) = adapted(rest);
    let adapters = adapters.map(adapter).collect::<Result<_, _>>();
    let adapters = adapters.map_err(|problem| Usage(format!("'{text}': {problem}")))?;
    Ok(Named { names, path: Some(path.to_owned()), adapters })
}

/// The longest part up to a plus that is there is the model; what follows are adapters.
fn adapted(text: &str) -> (&str, impl Iterator<Item = &str>) {
    let ends = || text.match_indices('+').map(|(at, _)| at);
    let there = |end: &usize| Path::new(&text[..*end]).exists();
    let end = [text.len()].into_iter().chain(ends().rev()).find(there);
    let end = end.or_else(|| ends().next()).unwrap_or(text.len());
    let rest = text[end..].strip_prefix('+');
    (&text[..end], rest.into_iter().flat_map(|rest| rest.split('+')))
}

/// A file's name without the ending of a model, or a folder's.
fn stem(path: &Path) -> String {
    let known = path.extension().is_some_and(|e| e == "gguf" || e == "rinf" || e == "exe");
    let name = if known { path.file_stem() } else { path.file_name() };
    name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The models in a folder, by their paths in it without endings: GGUF files (of several parts the first),
/// bundles, and folders with a config.json. What links lead out of the folder is left out, and said.
///
/// # Errors
/// A folder that can't be read, or that has two models of one name.
pub fn folder(root: &Path, say: &mut dyn FnMut(String)) -> anyhow::Result<Vec<Named>> {
    let inside = root.canonicalize().with_context(|| format!("--models {}", root.display()))?;
    let mut found = BTreeMap::new();
    read(root, "", DEPTH, &inside, &mut found, say)
        .with_context(|| format!("--models {}", root.display()))?;
    let model = |(name, path): (String, PathBuf)| {
        let path = path.into_os_string().into_string();
        path.ok().map(|path| Named { names: vec![name], path: Some(path), adapters: Vec::new() })
    };
    Ok(found.into_iter().filter_map(model).collect())
}

fn read(
    folder: &Path,
    at: &str,
    depth: usize,
    inside: &Path,
    found: &mut BTreeMap<String, PathBuf>,
    say: &mut dyn FnMut(String),
) -> anyhow::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    entries.sort();
    for path in entries {
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if file.starts_with('.') || file.contains(char::is_control) {
            continue;
        }
        if !path.canonicalize().is_ok_and(|real| real.starts_with(inside)) {
            say(format!("{} leads out of the folder of models: it is left out", path.display()));
            continue;
        }
        let name = match () {
            () if path.join("config.json").exists() => file,
            () if path.is_dir() => {
                if depth > 1 && !path.join("adapter_config.json").exists() {
                    read(&path, &format!("{at}{file}/"), depth - 1, inside, found, say)?;
                }
                continue;
            }
            () => match model_of(file) {
                Some(name) => name,
                None => continue,
            },
        };
        if let Some(other) = found.insert(format!("{at}{name}"), path.clone()) {
            let (other, path) = (other.display(), path.display());
            anyhow::bail!("{other} and {path} would both be called '{at}{name}': rename one");
        }
    }
    Ok(())
}

/// The name of a model in a file of this name, if it is one: projectors of images are none, and of a
/// model's parts the first stands for all.
fn model_of(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".gguf").or_else(|| file.strip_suffix(".rinf"))?;
    if name.starts_with("mmproj") {
        return None;
    }
    let Some((rest, _)) = name.rsplit_once("-of-") else { return Some(name) };
    match rest.rsplit_once('-') {
        Some((model, "00001")) => Some(model),
        Some((_, part)) if part.len() == 5 && part.bytes().all(|b| b.is_ascii_digit()) => None,
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_follow_the_model() {
        let check = |text: &str, model: &str, adapters: &[&str]| {
            let (path, found) = adapted(text);
            assert_eq!((path, found.collect::<Vec<_>>()), (model, adapters.to_vec()), "{text}");
        };
        check("a.gguf", "a.gguf", &[]);
        check("a.gguf+x+y=0.5", "a.gguf", &["x", "y=0.5"]);
        check("src+x", "src", &["x"]);
        let plus = std::env::temp_dir().join(format!("rinfer-a+b-{}", std::process::id()));
        std::fs::write(&plus, "").unwrap();
        let model = plus.to_str().unwrap();
        check(model, model, &[]);
        check(&format!("{model}+x"), model, &["x"]);
        std::fs::remove_file(plus).unwrap();
    }

    #[test]
    fn parts_are_one_model() {
        for (file, name) in [
            ("a.gguf", Some("a")),
            ("a.rinf", Some("a")),
            ("a-00001-of-00003.gguf", Some("a")),
            ("a-00002-of-00003.gguf", None),
            ("best-of-all.gguf", Some("best-of-all")),
            ("one-best-of-all.gguf", Some("one-best-of-all")),
            ("mmproj-a.gguf", None),
            ("a.safetensors", None),
            ("README.md", None),
        ] {
            assert_eq!(model_of(file), name, "{file}");
        }
    }

    /// R8: what a folder offers lies in it.
    #[test]
    fn r8_folders() {
        let top = std::env::temp_dir().join(format!("rinfer-models-{}", std::process::id()));
        let root = top.join("models");
        for path in [
            "a.gguf",
            "x/y/b.rinf",
            "x/c/config.json",
            "x/c/d.gguf",
            "x/l/adapter_config.json",
            ".hidden.gguf",
            "notes.txt",
            "1/2/3/deep.gguf",
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(top.join("outside.gguf"), "").unwrap();
        let links = if cfg!(unix) { 2 } else { 0 };
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(top.join("outside.gguf"), root.join("out.gguf")).unwrap();
            std::os::unix::fs::symlink(&top, root.join("up")).unwrap();
            std::os::unix::fs::symlink(root.join("a.gguf"), root.join("same.gguf")).unwrap();
        }
        let mut said = Vec::new();
        let found = folder(&root, &mut |text| said.push(text)).unwrap();
        let mut names: Vec<&str> = found.iter().map(|named| &*named.names[0]).collect();
        names.retain(|name| *name != "same");
        assert_eq!(names, ["a", "x/c", "x/y/b"]);
        assert_eq!(said.len(), links, "{said:?}");
        std::fs::write(root.join("a.rinf"), "").unwrap();
        let twice = folder(&root, &mut |_| {}).unwrap_err().to_string();
        std::fs::remove_dir_all(&top).unwrap();
        assert!(twice.contains("--models"), "{twice}");
    }
}
