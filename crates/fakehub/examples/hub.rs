//! A hub that has the repositories of a folder, FOLDER/OWNER/REPOSITORY/FILE, for tests of programs: hub FOLDER
//!
//! It prints its address, does what its input tells, a line each, and ends with it: `rate BYTES` is what comes a second on a
//! connection, `refuse STATUS CODE` is what is answered for files, and `well` ends both.
use rinfer_fakehub::{Content, Faults, Hub, Refusal};
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).expect("a folder");
    let hub = Hub::start();
    for owner in names(&folder) {
        for repo in names(&folder.join(&owner)) {
            let at = folder.join(&owner).join(&repo);
            let read = |file: String| {
                let bytes = fs::read(at.join(&file)).expect("a file");
                (file, Content::from(bytes))
            };
            let files: Vec<(String, Content)> = names(&at).into_iter().map(read).collect();
            let files: Vec<_> = files.iter().map(|(name, file)| (&**name, file.clone())).collect();
            hub.repo(&format!("{owner}/{repo}"), &files);
        }
    }
    println!("{}", hub.url());
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        hub.faults(match words[..] {
            ["rate", bytes] => Faults { rate: bytes.parse().ok(), ..Faults::default() },
            ["refuse", status, code] => {
                let status = status.parse().expect("a status");
                let files = Refusal::always(status, code.to_owned().leak());
                Faults { files, ..Faults::default() }
            }
            _ => Faults::default(),
        });
        println!("{line}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}
