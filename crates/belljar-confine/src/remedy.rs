//! The remedies for a machine that does not allow a process to create namespaces.

use std::fs;

use super::step::{StepFailure, StepKind};

/// Kernel settings that forbid namespaces, each with the forbidding value and the remedy.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are forbidden by a switch of the kernel: `sudo sysctl -w kernel.unprivileged_userns_clone=1`",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are forbidden by a switch of the kernel: `sudo sysctl -w user.max_user_namespaces=10000`",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids user namespaces to programs without a profile: `sudo cp config/apparmor/belljar \
         /etc/apparmor.d/belljar && sudo apparmor_parser -r /etc/apparmor.d/belljar` with the file of belljar's sources \
         allows them to belljar; or, for all programs, `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
];
const IN_CONTAINER: &str = "inside a container, its engine forbids it: start that container with the options \
                            `--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Docker) or \
                            `--security-opt seccomp=unconfined --security-opt unmask=ALL` (Podman)";

/// How to let processes make namespaces on this machine, if the step failed because something forbids it. Steps of the
/// other kind get no remedy, since files of a package can make them fail with the same error numbers.
#[must_use]
pub fn remedy(failed: &StepFailure) -> Option<String> {
    is_refusal(failed)
        .then(|| found(|path| fs::read_to_string(path).ok(), is_container()))
        .flatten()
        .map(str::to_owned)
}

/// The error numbers EPERM, EACCES, ENOSPC (too many namespaces), EINVAL (no such namespaces) and EUSERS.
const REFUSALS: [i32; 5] = [1, 13, 28, 22, 87];

fn is_refusal(failed: &StepFailure) -> bool {
    failed.kind == StepKind::Namespaces && failed.errno.is_some_and(|errno| REFUSALS.contains(&errno))
}

fn found(read: impl Fn(&str) -> Option<String>, is_container: bool) -> Option<&'static str> {
    let forbids =
        |(path, value, _): &&(&str, &str, &str)| read(path).is_some_and(|found| found.trim() == *value);
    let switch = SWITCHES.iter().find(forbids).map(|(_, _, remedy)| *remedy);
    switch.or(is_container.then_some(IN_CONTAINER))
}

fn is_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|path| fs::exists(path).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::super::step::Step;
    use super::*;

    #[test]
    fn the_switch_that_forbids_it_is_named() {
        let with = |path: &'static str, value: &'static str| {
            found(move |asked| (asked == path).then(|| format!("{value}\n")), false)
        };
        for (path, value, _) in SWITCHES {
            let name = path.rsplit('/').next().unwrap();
            assert!(with(path, value).is_some_and(|remedy| remedy.contains(name)), "{path}");
            assert_eq!(with(path, "7"), None);
        }
        assert!(found(|_| None, true).unwrap().contains("--security-opt"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_forbids_no_namespaces() {
        let refused = || nix::Result::<()>::Err(nix::errno::Errno::EACCES);
        assert!(is_refusal(&refused().namespace_step("make a user namespace").unwrap_err()));
        assert!(!is_refusal(&refused().step("open \"/srv/x\"").unwrap_err()));
        let other = nix::Result::<()>::Err(nix::errno::Errno::EIO);
        assert!(!is_refusal(&other.namespace_step("make a user namespace").unwrap_err()));
    }
}
