//! Podman without a running service: the bridge starts one on a private socket, and ends it.

use std::path::Path;
use std::time::Duration;

use crate::support::{Bridge, Engine, Home, eventually};

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
        eprintln!("SKIPPED: it needs root, Podman, and no service at {system}");
        return;
    }
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "podman").env("MCP_BRIDGE_PREWARM", "0");
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let folder = temporary.to_str().unwrap().to_owned();
    let home = home.env("TMPDIR", &folder);
    let mut bridge = Bridge::start(&home);
    assert_eq!(services(&folder), [0; 0], "not before the first run");
    assert_eq!(bridge.first("1 + 1"), "2");
    assert_eq!(services(&folder).len(), 1);
    bridge.hang_up();
    bridge.wait(Duration::from_secs(3));
    eventually("the service goes", Duration::from_secs(3), || services(&folder).is_empty());
    let left: Vec<_> =
        std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("hotcell-podman-")), "{left:?}");
}
