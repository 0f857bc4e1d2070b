//! No dependency compiles C, or finds a C library, when the product is built.
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::Command;

/// What compiles, binds or looks for C.
const COMPILERS: [&str; 8] =
    ["cc", "cmake", "bindgen", "pkg-config", "vcpkg", "system-deps", "cxx", "nasm-rs"];
/// Declarations of what the system has, which compile nothing.
const DECLARATIONS: [&str; 8] = [
    "core-foundation-sys",
    "jni-sys",
    "js-sys",
    "linux-raw-sys",
    "renderdoc-sys",
    "security-framework-sys",
    "web-sys",
    "windows-sys",
];

/// Every package that breaks the rule, with what needs it. `arguments` are passed on to
/// `cargo tree`, which, unlike `cargo metadata`, leaves out what is optional and not chosen.
///
/// # Errors
/// If cargo fails.
pub fn check(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let tree = |more: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(env!("CARGO"))
            .current_dir(root)
            .args(["tree", "--workspace", "--edges", "normal,build", "--prefix", "none"])
            .args(["--format", "{p}"])
            .args(arguments)
            .args(more)
            .output()
            .context("cargo tree")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut found: Vec<String> =
        tree(&[])?.lines().filter(|p| is_c(p)).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    let explain = |package: String| {
        let spec = package.split(' ').take(2).collect::<Vec<_>>().join("@").replace("@v", "@");
        let by = tree(&["--invert", &spec]).unwrap_or_default();
        let by: Vec<&str> = by.lines().skip(1).take(3).collect();
        format!("no-c: {package} compiles or links C; needed by {}", by.join(", "))
    };
    Ok(found.into_iter().map(explain).collect())
}

/// Whether a line of `cargo tree` names such a package.
fn is_c(package: &str) -> bool {
    let name = package.split(' ').next().unwrap_or_default();
    COMPILERS.contains(&name) || (name.ends_with("-sys") && !DECLARATIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_c() {
        for name in ["cc v1.2.3", "openssl-sys v0.9", "cmake v0.1", "bindgen v0.7"] {
            assert!(is_c(name), "{name}");
        }
        for name in ["ccc v1.0", "linux-raw-sys v0.9", "windows-sys v0.61", "serde v1"] {
            assert!(!is_c(name), "{name}");
        }
    }
}
