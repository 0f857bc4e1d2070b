//! A file that is written whole or not at all: under another name beside its own, brought to the
//! disk, then renamed. Whatever ends the program on the way, the old file is still there.
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Writes the file at `path` through `write`. What an ended program left behind as `NAME.part` is
/// written over.
///
/// # Errors
/// As `write`'s, and the system's: then nothing has changed, but for a `NAME.part` that could not be
/// removed.
pub fn replace<T, E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let part = beside(path)?;
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let problem = format!("another program is writing {}", part.display());
            return Err(Error::new(ErrorKind::ResourceBusy, problem).into());
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let written = written(&mut file, write).and_then(|done| {
        std::fs::rename(&part, path)?;
        Ok(done)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    let done = written?;
    settle(path)?;
    Ok(done)
}

fn written<T, E: From<Error>>(
    file: &mut File,
    write: impl FnOnce(&mut File) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    file.set_len(0)?;
    let done = write(file)?;
    file.sync_all()?;
    Ok(done)
}

/// The name that is written under.
fn beside(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder, not a file"));
    };
    // To rename over a device would take it from everyone.
    if std::fs::metadata(path).is_ok_and(|old| !old.is_file()) {
        let problem = "it is a device, a pipe or a socket, not a file: give another name";
        return Err(Error::new(ErrorKind::InvalidInput, problem));
    }
    let mut name = name.to_owned();
    name.push(".part");
    Ok(path.with_file_name(name))
}

/// Brings the new name to the disk too.
#[cfg(unix)]
fn settle(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
#[cfg(not(unix))]
fn settle(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A write that ends after so many bytes leaves the old file and nothing beside it.
    #[test]
    fn a_failed_write_changes_nothing() {
        let dir = std::env::temp_dir().join(format!("rinfer-replace-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a");
        let names = || std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name());
        for old in [None, Some(b"old")] {
            let check = |bytes: usize| {
                let failed: Result<()> = replace(&path, |file| {
                    file.write_all(&vec![7; bytes])?;
                    Err(Error::other("full"))
                });
                assert_eq!(failed.unwrap_err().to_string(), "full");
                assert_eq!(std::fs::read(&path).ok(), old.map(|old| old.to_vec()));
                assert_eq!(names().count(), usize::from(old.is_some()));
            };
            if let Some(old) = old {
                // Over what an ended program left.
                std::fs::write(dir.join("a.part"), [1; 99]).unwrap();
                replace(&path, |file| file.write_all(old)).unwrap();
            }
            [0, 1, 100_000].into_iter().for_each(check);
        }
        replace(&path, |file| {
            let busy = replace(&path, |other: &mut File| other.write_all(b"other")).unwrap_err();
            assert!(busy.to_string().contains("another program"), "{busy}");
            file.write_all(b"new")
        })
        .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(
            replace(&dir, |file| file.write_all(b"x")).unwrap_err().to_string().contains("folder")
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// What is no file stays what it is.
    #[cfg(unix)]
    #[test]
    fn nothing_else_is_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let dir = std::env::temp_dir().join(format!("rinfer-special-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (socket, link) = (dir.join("socket"), dir.join("link"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        for path in [&socket, &link] {
            let refused = replace(path, |file| file.write_all(b"x")).unwrap_err();
            assert!(refused.to_string().contains("not a file"), "{refused}");
            assert!(std::fs::metadata(path).unwrap().file_type().is_socket());
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
