//! The kernels of sandboxes and of this machine: which OCI runtimes use another kernel than the machine's, and which
//! limits this machine enforces on a sandbox with such a runtime. That sandbox cannot see these limits itself.

use std::fs;
use std::path::Path;

/// The kernel that the containers of an OCI runtime run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The machine's kernel.
    Shared,
    /// A kernel in a virtual machine, as with Kata and krun.
    Guest,
    /// gVisor, a program that answers system calls, and shows less of itself than Linux.
    Gvisor,
}

impl Kernel {
    /// The kernel of a runtime, by the runtime's name in the engine's configuration. An unknown runtime counts as using
    /// the machine's kernel.
    #[must_use]
    pub fn of_runtime(name: Option<&str>) -> Self {
        let has = |word| name.is_some_and(|name| name.contains(word));
        match () {
            () if has("runsc") || has("gvisor") => Self::Gvisor,
            () if has("kata") || has("krun") => Self::Guest,
            () => Self::Shared,
        }
    }

    /// Release and version of this machine's kernel, in the form of `uname`; `None`: /proc does not have them.
    #[must_use]
    pub fn of_machine() -> Option<String> {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        Some(format!("{} {}", read("osrelease")?.trim_end(), read("version")?.trim_end()))
    }
}

/// Limits that this machine's cgroups enforce on a container; `None`: no limit is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OuterLimits {
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads on this machine, which are those of the runtime itself.
    pub pids: Option<u64>,
    /// Thousandths of a CPU.
    pub cpu_millis: Option<u64>,
}

impl OuterLimits {
    /// The limits of this process's cgroup, if its name shows that it belongs to the container.
    pub(super) fn of(pid: u32, container: &str) -> Self {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Self::read(&groups, container, Path::new("/sys/fs/cgroup"))
    }

    fn read(groups: &str, container: &str, root: &Path) -> Self {
        let file = |controller: &str, v2: &str, v1: &str| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                if !path.contains(container) {
                    return None;
                }
                let (folder, name) = match controllers {
                    "" => (root.to_owned(), v2),
                    _ if controllers.split(',').any(|own| own == controller) => (root.join(controllers), v1),
                    _ => return None,
                };
                fs::read_to_string(folder.join(path.trim_start_matches('/')).join(name)).ok()
            })
        };
        let number =
            |text: Option<String>| text?.trim().parse::<u64>().ok().filter(|number| *number < 1 << 60);
        let cpu = || {
            let quota = file("cpu", "cpu.max", "cpu.cfs_quota_us")?;
            let mut words = quota.split_whitespace().map(str::parse::<u64>);
            let quota = words.next()?.ok()?;
            let period = match words.next() {
                Some(period) => period.ok()?,
                None => number(file("cpu", "", "cpu.cfs_period_us"))?,
            };
            quota.checked_mul(1000)?.checked_div(period)
        };
        Self {
            memory_bytes: number(file("memory", "memory.max", "memory.limit_in_bytes")),
            pids: number(file("pids", "pids.max", "pids.max")),
            cpu_millis: cpu(),
        }
    }
}

/// The number of online processors of this machine, including those that this process may not use.
#[cfg(target_os = "linux")]
pub(super) fn online_processors() -> u64 {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    online.ok().flatten().and_then(|count| u64::try_from(count).ok()).unwrap_or(1).max(1)
}

/// The number of processors that this process may use.
#[cfg(not(target_os = "linux"))]
pub(super) fn online_processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_with_own_kernels_are_known_by_name() {
        let of = |name| Kernel::of_runtime(Some(name));
        assert_eq!((of("runsc"), of("runsc-kvm")), (Kernel::Gvisor, Kernel::Gvisor));
        assert_eq!((of("io.containerd.kata.v2"), of("krun")), (Kernel::Guest, Kernel::Guest));
        assert_eq!((of("crun"), Kernel::of_runtime(None)), (Kernel::Shared, Kernel::Shared));
    }

    #[test]
    fn outer_limits_are_read_from_both_versions_of_cgroups() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("memory/docker/abc/memory.limit_in_bytes", "536870912\n");
        put("pids/docker/abc/pids.max", "128\n");
        put("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
        put("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
        let v1 = "4:memory:/docker/abc\n8:pids:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n";
        let found = OuterLimits::read(v1, "abc", root.path());
        let limits = |memory_bytes, pids, cpu_millis| OuterLimits { memory_bytes, pids, cpu_millis };
        assert_eq!(found, limits(Some(512 << 20), Some(128), Some(500)));
        put("system.slice/docker-abc.scope/memory.max", "1073741824\n");
        put("system.slice/docker-abc.scope/pids.max", "max\n");
        put("system.slice/docker-abc.scope/cpu.max", "150000 100000\n");
        let found = OuterLimits::read("0::/system.slice/docker-abc.scope\n", "abc", root.path());
        assert_eq!(found, limits(Some(1 << 30), None, Some(1500)));
        // A cgroup with another name does not belong to this container.
        assert_eq!(OuterLimits::read(v1, "xyz", root.path()), OuterLimits::default());
    }
}
