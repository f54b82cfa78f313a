//! Requests each engine to mask files of the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bollard::models::HostConfig;

use super::super::masks::{DEFAULTS, OF_PROC, OF_SYS};
use super::find::{ContainerEngine, EngineKind};

/// The mount options of an empty folder that covers a folder of the kernel.
const EMPTY: &str = "ro,noexec,nosuid,nodev,size=4k,mode=555";

/// The control groups: those of the sandbox, or those of the machine.
const GROUPS: &str = "/sys/fs/cgroup";

/// The control groups that a sandbox sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgroupView {
    /// The sandbox sees its own control group.
    Own,
    /// The sandbox sees the control groups of the machine, with the usage of every container and service, since a
    /// rootless engine cannot create groups of cgroup version 1. These groups do not limit the sandbox, so the
    /// supervisor does not need them.
    Machine,
}

impl CgroupView {
    /// A sandbox sees the machine's groups if the engine is rootless, according to the owner of its socket, and the
    /// machine does not use cgroup version 2.
    fn of(engine: &ContainerEngine) -> Self {
        let socket = engine.address.strip_prefix("unix://").map(fs::metadata);
        let is_rootless = socket.is_some_and(|socket| socket.is_ok_and(|socket| socket.uid() != 0));
        let has_version_1 =
            Path::new(GROUPS).is_dir() && !Path::new(GROUPS).join("cgroup.controllers").exists();
        if is_rootless && has_version_1 { Self::Machine } else { Self::Own }
    }

    fn masked(self) -> Option<&'static str> {
        (self == Self::Machine).then_some(GROUPS)
    }
}

impl ContainerEngine {
    /// All paths that a sandbox on this engine must not show.
    pub(super) fn masked(&self) -> Vec<&'static str> {
        masked_paths(CgroupView::of(self)).collect()
    }

    /// Adds the masks to the request for a container.
    pub(super) fn mask(&self, host: &mut HostConfig) {
        mask(self.kind, CgroupView::of(self), host);
    }
}

fn masked_paths(groups: CgroupView) -> impl Iterator<Item = &'static str> {
    DEFAULTS.into_iter().chain(OF_PROC).chain(OF_SYS).chain(groups.masked())
}

fn mask(kind: EngineKind, groups: CgroupView, host: &mut HostConfig) {
    match kind {
        EngineKind::Podman => {
            // Podman adds these paths to its own list. An empty file system over /sys takes less time than a mask for
            // each folder. Docker does not get one, since it would hide the control groups there.
            let paths: Vec<&str> = OF_PROC.into_iter().chain(groups.masked()).collect();
            host.security_opt.get_or_insert_default().push(format!("mask={}", paths.join(":")));
            host.tmpfs.get_or_insert_default().insert("/sys".into(), EMPTY.into());
        }
        EngineKind::Docker => host.masked_paths = Some(masked_paths(groups).map(str::to_owned).collect()),
    }
    // Message queues would be another writable place for files.
    host.tmpfs.get_or_insert_default().insert("/dev/mqueue".into(), EMPTY.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_the_machine_are_masked() {
        for kind in [EngineKind::Podman, EngineKind::Docker] {
            for groups in [CgroupView::Own, CgroupView::Machine] {
                let mut host = HostConfig::default();
                mask(kind, groups, &mut host);
                let options = host.security_opt.unwrap_or_default();
                let paths: Vec<String> = match kind {
                    EngineKind::Podman => {
                        options[0].strip_prefix("mask=").unwrap().split(':').map(str::to_owned).collect()
                    }
                    EngineKind::Docker => host.masked_paths.unwrap(),
                };
                assert!(paths.iter().any(|path| path == "/proc/sys"), "{kind:?}");
                let has_groups = paths.iter().any(|path| path == GROUPS);
                assert_eq!(has_groups, groups == CgroupView::Machine, "{kind:?} {groups:?}");
                assert_eq!(masked_paths(groups).any(|path| path == GROUPS), has_groups);
            }
        }
    }
}
