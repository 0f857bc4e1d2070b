//! How much memory this process may take.
use std::path::Path;

/// Bytes that are free or can be freed, within the process's control group; none if the system does
/// not say. `root` is `/` but in tests.
pub fn available(root: &Path) -> Option<usize> {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let free = text("proc/meminfo").and_then(|meminfo| field(&meminfo, "MemAvailable:"));
    free.into_iter().chain(within_group(&text)).min()
}

/// A field of a file that counts in kB.
fn field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// What the limits of the process's control group and those above it leave. Files in the page
/// cache that nobody uses count as free.
fn within_group(text: &impl Fn(&str) -> Option<String>) -> Option<usize> {
    let mut least: Option<usize> = None;
    for line in text("proc/self/cgroup")?.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, limit, usage, cache) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "),
            c if c.split(',').any(|c| c == "memory") => (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file ",
            ),
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let file = |name: &str| text(&format!("{mount}/{}/{name}", group.display()));
            let number = |name: &str| file(name)?.trim().parse::<usize>().ok();
            let Some((limit, used)) = number(limit).zip(number(usage)) else { continue };
            let stat = file("memory.stat").unwrap_or_default();
            let cached = stat.lines().find_map(|line| line.strip_prefix(cache)?.parse().ok());
            let left = limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0)));
            least = least.into_iter().chain([left]).min();
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, files: &[(&str, &str)], expected: Option<usize>) {
        let root =
            std::env::temp_dir().join(format!("rinfer-memory-{}-{name}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let found = available(&root);
        let _ = std::fs::remove_dir_all(&root);
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn trees() {
        let free = ("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   50 kB\n");
        check("bare", &[], None);
        check("plain", &[free], Some(50 * 1024));
        let v2 = ("proc/self/cgroup", "0::/a\n");
        let limit = ("sys/fs/cgroup/a/memory.max", "40960\n");
        let used = ("sys/fs/cgroup/a/memory.current", "10000\n");
        let stat = ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 4000\n");
        check("v2", &[free, v2, limit, used, stat], Some(34_960));
        check("no limit", &[free, v2, ("sys/fs/cgroup/a/memory.max", "max\n"), used], Some(51_200));
        let v1 = [
            ("proc/self/cgroup", "4:memory:/x/y\n1:cpu:/\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "20000\n"),
            ("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "30000\n"),
            ("sys/fs/cgroup/memory/x/memory.stat", "total_inactive_file 15000\n"),
        ];
        check("v1", &[&v1[..], &[free]].concat(), Some(5_000));
    }
}
