//! What is left of a bridge that has ended: processes, servers, files and containers.

use super::processes::marked;
use super::{Engine, Fixture, Home};

pub const NEVER_STARTED: &str = "container that never started";
/// In the environment of everything that a bridge starts.
const MARK: &str = "BELLJAR_TEST";

/// A home whose processes can be told from others by the name of its folder.
pub fn marking(home: Home) -> Home {
    let name = name(&home);
    home.env(MARK, &name)
}

/// What is there of the bridges of a marking home, their server, and the containers of these owners.
pub fn left(engine: &Engine, home: &Home, fixture: &Fixture, owners: &[String]) -> Vec<String> {
    let processes = marked(MARK, &name(home)).into_iter().map(|pid| format!("process {pid}"));
    let servers = fixture.living().into_iter().map(|pid| format!("process {pid} of a server"));
    let files = files(home).into_iter().map(|name| format!("file {name:?}"));
    let containers = engine.containers_of(owners).into_iter().map(|id| {
        let state = engine.inspect_container(&id)["State"]["Status"].clone();
        if state == "created" { format!("{NEVER_STARTED} {id}") } else { format!("container {id}, {state}") }
    });
    processes.chain(servers).chain(files).chain(containers).collect()
}

/// The files of the home's bridges, and the workspaces of their sessions. The number of the folder of locks stays for the next
/// bridge.
pub fn files(home: &Home) -> Vec<String> {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(home.path().join(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
    };
    let of_sessions = names("MCPs/workspaces").filter(|name| name.starts_with(".session-"));
    names("run/belljar").filter(|name| name != "folder-number").chain(of_sessions).collect()
}

fn name(home: &Home) -> String {
    home.path().file_name().unwrap().to_str().unwrap().to_owned()
}
