//! The file of what was typed: its owner alone reads it, and what starts with a space is never in it.
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

const ENTRIES: usize = 2000;

/// What was typed, here and in earlier conversations.
pub struct Past {
    /// None if it is kept nowhere.
    file: Option<PathBuf>,
}

impl Past {
    /// Reads a file into `history`. Why it can't be is returned, and nothing is written to it then.
    pub fn open(file: Option<PathBuf>, history: &mut FileHistory) -> (Past, Option<String>) {
        let Some(path) = file else { return (Past { file: None }, None) };
        let read = own(&path).map_err(ReadlineError::from).and_then(|()| history.load(&path));
        match read {
            Ok(()) => (Past { file: Some(path) }, None),
            Err(error) => {
                let why = format!("{}: {error}: what is typed is not kept", path.display());
                (Past { file: None }, Some(why))
            }
        }
    }

    /// Takes note of what was typed, and writes it at once.
    pub fn add(&mut self, text: &str, history: &mut FileHistory) -> Option<String> {
        let added = history.add(text).unwrap_or(false);
        let path = self.file.as_ref().filter(|_| added)?;
        let error = history.append(path).err()?;
        let why = format!("{}: {error}: what is typed is not kept", path.display());
        self.file = None;
        Some(why)
    }

    /// As it is to be set up.
    pub fn configure(builder: rustyline::config::Builder) -> rustyline::config::Builder {
        // The only fault is a length that can't be had.
        let builder = builder.max_history_size(ENTRIES).unwrap_or_default();
        builder.history_ignore_space(true)
    }
}

/// Makes the file, if there is none, and its owner's alone.
fn own(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    private(&options.open(path)?)
}

#[cfg(unix)]
fn private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = file.metadata()?.permissions();
    if permissions.mode() & 0o077 != 0 && file.metadata()?.is_file() {
        permissions.set_mode(0o600);
        file.set_permissions(permissions)?;
    }
    Ok(())
}

/// Folders of their own are what other systems have for it.
#[cfg(not(unix))]
fn private(_: &File) -> io::Result<()> {
    Ok(())
}
