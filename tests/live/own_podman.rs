//! Podman without a running service: the bridge starts one on a private socket, and ends it.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::processes::is_alive;
use crate::support::{Bridge, Engine, Home, eventually, survivors};

/// Process numbers of Podman services below this folder.
fn services(folder: &str) -> Vec<i32> {
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let serves = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("system\0service") && line.contains(folder)
    };
    processes.filter_map(|name| name.parse().ok()).filter(serves).collect()
}

#[test]
fn the_bridge_starts_podmans_service_and_ends_it() {
    // The images of an ordinary user belong to a home that this test does not have.
    let is_root = nix::unistd::geteuid().is_root();
    let system = "/run/podman/podman.sock";
    if Engine::find("podman-rootful").is_none() || !is_root || Path::new(system).exists() {
        assert!(std::env::var_os("CI").is_none(), "it needs root, Podman, and no service at {system}");
        eprintln!("SKIPPED: it needs root, Podman, and no service at {system}");
        return;
    }
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "podman").env("MCP_BRIDGE_PREWARM", "0");
    let folder = home.path().join("run/belljar").to_str().unwrap().to_owned();
    let left = || survivors::files(&home);
    let mut bridge = Bridge::start(&home);
    assert_eq!(services(&folder), [0; 0], "not before the first run");
    assert_eq!(bridge.first("1 + 1"), "2");
    assert_eq!(services(&folder).len(), 1);
    // Longer than a service without connections stays: the sandbox's own is one.
    std::thread::park_timeout(Duration::from_secs(7));
    assert_eq!(bridge.ok("2 + 2"), "4");
    bridge.hang_up();
    bridge.wait(Duration::from_secs(3));
    eventually("the service goes", Duration::from_secs(3), || services(&folder).is_empty());
    assert_eq!(left(), Vec::<String>::new());

    let mut bridge = Bridge::start(&home);
    assert_eq!(bridge.first("1 + 1"), "2");
    let serves = services(&folder);
    assert_eq!(serves.len(), 1);
    bridge.signal(Signal::SIGKILL);
    let within = Duration::from_secs(10);
    let took = eventually("the service ends by itself", within, || !is_alive(serves[0]));
    eventually("its folder goes", within.saturating_sub(took), || left().is_empty());
}
