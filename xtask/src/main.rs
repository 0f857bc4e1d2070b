//! `cargo xtask tidy` and `cargo xtask no-c`.
#![forbid(unsafe_code)]
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let broken = match std::env::args().nth(1).as_deref() {
        Some("tidy") => xtask::tidy::check(&root),
        Some("no-c") => xtask::no_c::check(&root, &["--target", "all"]),
        _ => {
            eprintln!("cargo xtask tidy    the rules of the house, over all sources");
            eprintln!("cargo xtask no-c    no dependency compiles or links C, on any platform");
            return ExitCode::from(2);
        }
    };
    match broken {
        Ok(broken) => {
            broken.iter().for_each(|line| eprintln!("{line}"));
            ExitCode::from(u8::from(!broken.is_empty()))
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
