//! How many threads a forward pass should have: the physical cores that this process may use, but
//! no more than its share of processor time. Threads beyond either slow every phase down to the
//! slowest of them.
use std::collections::BTreeSet;
use std::path::Path;

/// What the system says about processors and this process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Processors {
    /// Processors that the process may run on.
    pub allowed: usize,
    /// Physical cores among them; of two kinds of core only the fast one is counted.
    pub cores: usize,
    /// Processors' worth of time that a container's quota grants.
    pub quota: Option<f64>,
}

impl Processors {
    /// Of this machine.
    pub fn detect() -> Processors {
        let found = Processors::read(Path::new("/"));
        if found.allowed > 0 {
            return found;
        }
        let n = std::thread::available_parallelism().map_or(1, usize::from);
        Processors { allowed: n, cores: n, quota: None }
    }

    /// From the files of a Linux system under `root`; no processors if it has none.
    pub fn read(root: &Path) -> Processors {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let status = text("proc/self/status");
        let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        let mut allowed = parse_list(allowed.unwrap_or_default());
        let count = allowed.len();
        let fast = parse_list(&text("sys/devices/cpu_core/cpus"));
        let capacity = |cpu: &usize| {
            text(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity")).trim().parse().ok()
        };
        let most: Option<u32> = allowed.iter().filter_map(capacity).max();
        if allowed.intersection(&fast).next().is_some() {
            allowed.retain(|cpu| fast.contains(cpu));
        } else if let Some(most) = most {
            allowed.retain(|cpu| capacity(cpu).is_none_or(|c| c >= most / 4 * 3));
        }
        let core = |cpu: &usize| {
            let id = |name| text(&format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
            let (package, core) = (id("physical_package_id"), id("core_id"));
            // Where nothing is said, each processor is a core.
            if core.is_empty() { (cpu.to_string(), String::new()) } else { (package, core) }
        };
        let cores = allowed.iter().map(core).collect::<BTreeSet<_>>().len();
        Processors { allowed: count, cores, quota: quota(&text) }
    }

    /// The default number of threads: at least one.
    pub fn threads(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |q| q as usize);
        self.cores.min(self.allowed).min(quota).max(1)
    }

    /// Why it is that number, in words.
    pub fn reason(&self) -> String {
        let mut reason = format!("{} physical cores of {} processors", self.cores, self.allowed);
        if let Some(quota) = self.quota {
            reason += &format!(", with a quota of {quota:.2} processors' time");
        }
        reason
    }
}

/// The smallest quota of the process's control group and those above it, in either version.
fn quota(text: &impl Fn(&str) -> String) -> Option<f64> {
    let mut least: Option<f64> = None;
    for line in text("proc/self/cgroup").lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let one = controllers.split(',').any(|c| c == "cpu");
        if !one && !controllers.is_empty() {
            continue;
        }
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let group = group.display();
            let share = if one {
                let number = |name| {
                    text(&format!("sys/fs/cgroup/cpu/{group}/cpu.cfs_{name}_us"))
                        .trim()
                        .parse()
                        .ok()
                };
                share(number("quota"), number("period"))
            } else {
                let max = text(&format!("sys/fs/cgroup/{group}/cpu.max"));
                let mut fields = max.split_whitespace().map(|f| f.parse().ok());
                share(fields.next().flatten(), fields.next().flatten())
            };
            least = least.into_iter().chain(share).reduce(f64::min);
        }
    }
    least
}

fn share(quota: Option<f64>, period: Option<f64>) -> Option<f64> {
    // No quota is `max` or -1.
    let (quota, period) = (quota.filter(|q| *q > 0.0)?, period.filter(|p| *p > 0.0)?);
    Some(quota / period)
}

/// The kernel's lists: `0-3,8`.
fn parse_list(list: &str) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    for range in list.trim().split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) {
            all.extend(from..=to.min(from.saturating_add(1 << 16)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a tree of files, written for this, says.
    fn found(name: &str, files: &[(&str, &str)]) -> Processors {
        let root =
            std::env::temp_dir().join(format!("rinfer-threads-{}-{name}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let found = Processors::read(&root);
        let _ = std::fs::remove_dir_all(&root);
        found
    }

    fn check(name: &str, files: &[(&str, &str)], cores: usize, quota: Option<f64>, threads: usize) {
        let found = found(name, files);
        assert_eq!((found.cores, found.quota, found.threads()), (cores, quota, threads), "{name}");
    }

    const STATUS: &str = "proc/self/status";
    const EIGHT: (&str, &str) = (STATUS, "Name:\tx\nCpus_allowed_list:\t0-7\nMems_allowed:\t1\n");

    /// What each of some processors' file of topology says.
    fn topology(of: std::ops::Range<usize>, name: &str, id: fn(usize) -> usize) -> Tree {
        let path = |cpu| format!("sys/devices/system/cpu/cpu{cpu}/{name}");
        of.map(|cpu| (path(cpu), format!("{}\n", id(cpu)))).collect()
    }

    type Tree = Vec<(String, String)>;

    fn tree<'a>(parts: &[&'a Tree], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let files =
            parts.iter().flat_map(|part| part.iter().map(|(a, b)| (a.as_str(), b.as_str())));
        files.chain(more.iter().copied()).collect()
    }

    /// E1: no more threads than processors that the process may use, nor than its quota of time, rounded
    /// down: threads beyond it are stopped in the middle of a phase, and all others wait for them.
    #[test]
    fn e1_affinity_and_quota() {
        let group2 = ("proc/self/cgroup", "0::/a/b\n");
        let group1 = ("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/1\n");
        check("bare", &[], 0, None, 1);
        check("plain", &[EIGHT], 8, None, 8);
        check("affinity", &[(STATUS, "Cpus_allowed_list: 1-2,5\n")], 3, None, 3);
        let none = ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        check("no quota", &[EIGHT, group2, none], 8, None, 8);
        let max = ("sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
        check("v2", &[EIGHT, group2, max], 8, Some(2.5), 2);
        let above = ("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        check("v2 above", &[EIGHT, group2, max, above], 8, Some(0.5), 1);
        let quota = ("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "300000\n");
        let period = ("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
        check("v1", &[quota, period, EIGHT, group1], 8, Some(3.0), 3);
        let unlimited = (quota.0, "-1\n");
        check("v1 unlimited", &[unlimited, period, EIGHT, group1], 8, None, 8);
    }

    /// E2: a thread a physical core, of the fast kind where there are two, and the reason in words.
    #[test]
    fn e2_fast_physical_cores() {
        let siblings = topology(0..8, "topology/core_id", |cpu| cpu / 2);
        check("siblings", &tree(&[&siblings], &[EIGHT]), 4, None, 4);
        let pinned = (STATUS, "Cpus_allowed_list: 0,2,3\n");
        check("pinned", &tree(&[&siblings], &[pinned]), 2, None, 2);
        // Two packages, whose cores have the same numbers.
        let cores = topology(0..8, "topology/core_id", |cpu| cpu % 4);
        let packages = topology(0..8, "topology/physical_package_id", |cpu| cpu / 4);
        check("packages", &tree(&[&cores, &packages], &[EIGHT]), 8, None, 8);
        // Two fast cores of two threads each, and four slow ones.
        let hybrid = topology(0..8, "topology/core_id", |cpu| if cpu < 4 { cpu / 2 } else { cpu });
        let fast = ("sys/devices/cpu_core/cpus", "0-3\n");
        check("hybrid", &tree(&[&hybrid], &[EIGHT, fast]), 2, None, 2);
        // One that may use slow cores alone uses them all.
        let slow = (STATUS, "Cpus_allowed_list: 4-7\n");
        check("slow ones", &tree(&[&hybrid], &[slow, fast]), 4, None, 4);
        let capacity = topology(0..4, "cpu_capacity", |cpu| if cpu < 3 { 1024 } else { 400 });
        let four = (STATUS, "Cpus_allowed_list: 0-3\n");
        check("big and little", &tree(&[&capacity], &[four]), 3, None, 3);
        let reason = found("reason", &tree(&[&siblings], &[EIGHT])).reason();
        assert_eq!(reason, "4 physical cores of 8 processors");
        let quota = Processors { allowed: 8, cores: 4, quota: Some(2.5) }.reason();
        assert!(quota.contains("a quota of 2.50 processors"), "{quota}");
    }
}
