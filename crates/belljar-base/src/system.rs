//! What differs between the systems that belljar runs on. All else that depends on the system is code that does not compile
//! elsewhere, behind `cfg`.
//!
//! Nothing here was tried on macOS: the places are those that the engines' own documentation names.

use std::path::{Path, PathBuf};

/// A kind of system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux. Systems that are neither count as this one, and compile without what only Linux has.
    Linux,
    /// macOS, where containers run in a virtual machine.
    MacOs,
}

/// An engine of a desktop program, which runs containers in a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesktopSocket {
    /// The path of its socket.
    pub path: PathBuf,
    /// Whether Podman listens there, and not Docker.
    pub is_podman: bool,
}

/// Sockets below HOME, in the order in which they are tried: whether Podman listens there, and the path. The first two belong to
/// Podman's own machine and to Lima's template for Podman. The others belong to Docker Desktop on macOS and on Linux, OrbStack,
/// Colima (two places), Rancher Desktop and Lima's template for Docker.
const IN_HOME: [(bool, &str); 9] = [
    (true, ".local/share/containers/podman/machine/podman.sock"),
    (true, ".lima/podman/sock/podman.sock"),
    (false, ".docker/run/docker.sock"),
    (false, ".docker/desktop/docker.sock"),
    (false, ".orbstack/run/docker.sock"),
    (false, ".colima/default/docker.sock"),
    (false, ".config/colima/default/docker.sock"),
    (false, ".rd/docker.sock"),
    (false, ".lima/docker/sock/docker.sock"),
];
/// The socket of Podman's machine in the folder of temporary files, where Podman 5 has it on macOS.
const OF_MACHINE: &str = "podman/podman-machine-default-api.sock";
/// Parts of the paths of such sockets.
const OF_DESKTOPS: [&str; 6] = ["/.docker/", "/.orbstack/", "/colima/", "/.colima/", "/.lima/", "/.rd/"];

/// How the user gets a container engine that answers.
const LINUX_HINT: &str = "install one with `sudo apt-get install podman` (or your distribution's way), or start it with \
    `systemctl --user start podman.socket`; `belljar doctor` shows what was tried";
const MACOS_HINT: &str =
    "start one: `podman machine start`, or open Docker Desktop; to install Podman: `brew install podman`";

impl System {
    /// The system that this program was compiled for.
    pub const HERE: Self = if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux };

    /// The folder below HOME for what can be made again.
    #[must_use]
    pub const fn caches(self) -> &'static str {
        match self {
            Self::Linux => ".cache",
            Self::MacOs => "Library/Caches",
        }
    }

    /// The folder below HOME for what the user has installed.
    #[must_use]
    pub const fn data(self) -> &'static str {
        match self {
            Self::Linux => ".local/share",
            Self::MacOs => "Library/Application Support",
        }
    }

    /// The folder below HOME for the settings of programs with a window; `None`: that of all settings.
    #[must_use]
    pub const fn application_settings(self) -> Option<&'static str> {
        match self {
            Self::Linux => None,
            Self::MacOs => Some("Library/Application Support"),
        }
    }

    /// The command that opens an address in the user's browser.
    #[must_use]
    pub const fn opener(self) -> &'static str {
        match self {
            Self::Linux => "xdg-open",
            Self::MacOs => "open",
        }
    }

    /// How the user gets a container engine that answers.
    #[must_use]
    pub const fn engine_remedy(self) -> &'static str {
        match self {
            Self::Linux => LINUX_HINT,
            Self::MacOs => MACOS_HINT,
        }
    }

    /// Whether processes can be kept, confined and found by their environment: whether there are keepers, confined servers and
    /// sandboxes that are processes.
    #[must_use]
    pub const fn keeps_processes(self) -> bool {
        matches!(self, Self::Linux)
    }

    /// Whether containers of an engine that listens at this address use the kernel of this machine.
    #[must_use]
    pub fn shares_kernel(self, address: &str) -> bool {
        let is_virtual = address.contains("machine") || OF_DESKTOPS.iter().any(|part| address.contains(part));
        self == Self::Linux && address.starts_with("unix://") && !is_virtual
    }

    /// Where engines of desktop programs listen, whether they are installed or not, in the order in which they are tried.
    #[must_use]
    pub fn desktop_sockets(self, home: Option<&Path>, temporary: Option<&Path>) -> Vec<DesktopSocket> {
        let machine = temporary.filter(|_| self == Self::MacOs).map(|folder| (true, folder.join(OF_MACHINE)));
        let in_home = IN_HOME.iter().filter_map(|(is_podman, path)| Some((*is_podman, home?.join(path))));
        machine
            .into_iter()
            .chain(in_home)
            .map(|(is_podman, path)| DesktopSocket { path, is_podman })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_desktop_programs_are_where_each_system_has_them() {
        let of = |system: System| system.desktop_sockets(Some(Path::new("/h")), Some(Path::new("/t")));
        let (linux, mac) = (of(System::Linux), of(System::MacOs));
        assert_eq!((linux.len(), &mac[1..]), (IN_HOME.len(), &linux[..]));
        let machine =
            DesktopSocket { path: "/t/podman/podman-machine-default-api.sock".into(), is_podman: true };
        assert_eq!(mac[0], machine);
        assert_eq!(System::MacOs.desktop_sockets(None, Some(Path::new("/t"))), [machine]);
        for socket in mac {
            let address = format!("unix://{}", socket.path.display());
            let is_shared = [System::Linux, System::MacOs].map(|system| system.shares_kernel(&address));
            assert_eq!(is_shared, [false, false], "{address}");
            assert_eq!(socket.is_podman, address.ends_with("podman.sock") || address.ends_with("api.sock"));
        }
    }

    #[test]
    fn only_on_linux_do_containers_share_the_kernel_and_processes_have_keepers() {
        for address in ["unix:///run/podman/podman.sock", "unix:///var/run/docker.sock"] {
            assert!(System::Linux.shares_kernel(address) && !System::MacOs.shares_kernel(address));
        }
        assert!(!System::Linux.shares_kernel("tcp://127.0.0.1:2375"));
        assert!(System::Linux.keeps_processes() && !System::MacOs.keeps_processes());
    }

    #[test]
    fn folders_and_commands_are_those_of_the_system() {
        let of = |system: System| [system.caches(), system.data(), system.opener()];
        assert_eq!(of(System::Linux), [".cache", ".local/share", "xdg-open"]);
        assert_eq!(of(System::MacOs), ["Library/Caches", "Library/Application Support", "open"]);
        assert!(
            System::MacOs.application_settings().is_some() && System::Linux.application_settings().is_none()
        );
        assert!(System::Linux.engine_remedy().contains("`sudo apt-get install podman`"));
        assert!(System::MacOs.engine_remedy().contains("`brew install podman`"));
    }
}
