//! `rinfer completions` and `rinfer man`: what packages for a system hold beside the program.
use super::put;
use clap::Command;
use clap_complete::Shell;
use std::path::PathBuf;

/// Print what completes commands and flags in a shell: rinfer completions bash
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Write the manual's pages: rinfer man path/to/man1
#[derive(clap::Args, Debug)]
#[command(hide = true)]
pub struct Man {
    /// A folder, made if it isn't there: rinfer.1, and a page for each command
    folder: PathBuf,
}

pub fn completions(args: &Completions, mut program: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "rinfer", &mut text);
    put(&String::from_utf8_lossy(&text))
}

pub fn man(args: &Man, program: Command) -> anyhow::Result<()> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(program, folder))
        .map_err(|e| anyhow::anyhow!("{}: can't be written: {e}", folder.display()))
}
