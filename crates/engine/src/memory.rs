//! How much memory this process may take.
use std::path::Path;

/// Bytes that are free or can be freed, within the process's control group; none if the system does
/// not say. `root` is `/` but in tests.
pub fn available(root: &Path) -> Option<usize> {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let free = text("proc/meminfo").and_then(|meminfo| field(&meminfo, "MemAvailable:"));
    free.into_iter().chain(within_group(&text)).min()
}

/// What a thread maps for itself: its stack, and what the allocator sets aside for it.
const THREAD: usize = (2 + 64) << 20;
/// The threads of a process beside those that compute: who schedules, listens, heeds signals.
const OTHERS: usize = 4;

/// Bytes that a model may take: as many as are `asked` for, or [`available`], but no more than the process
/// may map (`ulimit -v`) beside its `threads` that compute and all others. So many bytes are `mapped` already.
pub fn room(root: &Path, asked: Option<usize>, mapped: usize, threads: usize) -> Option<usize> {
    let room = asked.or_else(|| available(root));
    let beside = (threads + OTHERS) * THREAD;
    let left = address_space(root).map(|left| left.saturating_sub(beside).saturating_add(mapped));
    room.into_iter().chain(left).min()
}

/// Bytes that the process may still map, if that is bounded.
fn address_space(root: &Path) -> Option<usize> {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let limits = text("proc/self/limits")?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: usize = limit.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(field(&text("proc/self/status")?, "VmSize:")?))
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
        check_of(available, name, files, expected);
    }

    fn check_of(
        of: fn(&Path) -> Option<usize>,
        name: &str,
        files: &[(&str, &str)],
        expected: Option<usize>,
    ) {
        let root =
            std::env::temp_dir().join(format!("rinfer-memory-{}-{name}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let found = of(&root);
        let _ = std::fs::remove_dir_all(&root);
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn e4_groups_and_what_is_free() {
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

    #[test]
    fn e4_address_space() {
        let status = ("proc/self/status", "Name:\tx\nVmSize:\t     100 kB\n");
        let check = |name, soft: &str, expected| {
            let head = "Limit                     Soft Limit           Hard Limit           Units";
            let limits = format!("{head}\nMax address space         {soft} unlimited bytes\n");
            check_of(address_space, name, &[status, ("proc/self/limits", &limits)], expected);
        };
        check("space", "204800", Some(102_400));
        check("space for ever", "unlimited", None);
        check("space beyond", "4096", Some(0));
        check_of(address_space, "no space", &[status], None);
    }
}
