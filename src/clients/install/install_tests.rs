//! Claims about changes of a file between reading and writing it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use belljar_base::limits::Limits;

use super::edit::{InstallContext, Plan, Registration, ReplaceRule, install};
use crate::clients::error::InstallError;
use crate::clients::known_clients::client;
use crate::clients::merge::{ConfinementChoice, merge};
use crate::clients::own_entry::{Calls, Reach, StartCommand};
use crate::clients::places::{Scope, Surroundings};
use crate::clients::reading::{Files, read_client};

fn surroundings(home: &Path) -> Surroundings {
    Surroundings {
        home: home.to_owned(),
        config: home.join(".config"),
        uid: nix::unistd::geteuid().as_raw(),
        project: None,
        project_of_given: None,
        named: Vec::new(),
    }
}

/// How a client starts belljar here.
fn starting() -> StartCommand<'static> {
    static NO_VARIABLES: BTreeSet<String> = BTreeSet::new();
    StartCommand {
        program: Path::new("/bin/belljar"),
        args: &[],
        longest_reply: Duration::from_secs(1),
        start: Duration::from_secs(1),
        variables: &NO_VARIABLES,
        calls: Calls::AsSet,
        reach: Reach::Start,
    }
}

#[test]
fn a_file_that_is_changed_between_reading_and_writing_is_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let (surroundings, limits) = (surroundings(home.path()), Limits::default());
    let state = home.path().join("state");
    let context = InstallContext { surroundings: &surroundings, state: &state, limits: &limits };
    let registration =
        Registration { client: client("cursor").unwrap(), name: "belljar", scope: Scope::User };
    let plan = install(&registration, starting(), (ReplaceRule::Refused, &|_, _| false), &context).unwrap();
    let Plan::Edit(edit) = plan else { panic!("nothing to do") };
    let file = home.path().join(".cursor/mcp.json");
    fs::create_dir(home.path().join(".cursor")).unwrap();
    fs::write(&file, "{\"mcpServers\": {\"new\": {\"command\": \"x\"}}}").unwrap();
    let refused = edit.make(&context).unwrap_err();
    assert!(matches!(refused, InstallError::Changed { .. }), "{refused}");
    assert!(!state.exists());

    let (found, problems) =
        read_client(registration.client, Files::OfUser, &surroundings, &limits, &|_, _| false);
    assert_eq!(problems, []);
    let folder = home.path().join("MCPs");
    let (changes, _) = merge(vec![found], (&folder, ConfinementChoice::Nothing), surroundings.uid, &limits);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("cursor.json"), "{}").unwrap();
    let refused = changes[0].write(surroundings.uid, &limits).unwrap_err();
    assert_eq!(refused.to_string(), "it has been changed meanwhile; run the command again");
    assert_eq!(fs::read_to_string(folder.join("cursor.json")).unwrap(), "{}");
}

#[test]
fn a_folder_of_the_project_that_becomes_a_link_leads_no_edit_elsewhere() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    let surroundings = Surroundings { project: Some(at("project")), ..surroundings(home.path()) };
    let (state, limits) = (at("state"), Limits::default());
    let context = InstallContext { surroundings: &surroundings, state: &state, limits: &limits };
    let registration =
        Registration { client: client("cursor").unwrap(), name: "belljar", scope: Scope::Project };
    let own = "{\"mcpServers\": {\"x\": {\"command\": \"x\"}}}";
    for folder in ["project/.cursor", "MCPs"] {
        fs::create_dir_all(at(folder)).unwrap();
        fs::write(at(folder).join("mcp.json"), own).unwrap();
    }
    let plan = || {
        let planned = install(&registration, starting(), (ReplaceRule::Refused, &|_, _| false), &context);
        let Plan::Edit(edit) = planned.unwrap() else { panic!("nothing to do") };
        edit
    };
    let edit = plan();
    fs::rename(at("project/.cursor"), at("project/moved")).unwrap();
    std::os::unix::fs::symlink(at("MCPs"), at("project/.cursor")).unwrap();
    edit.make(&context).unwrap_err();
    assert_eq!(fs::read_to_string(at("MCPs/mcp.json")).unwrap(), own);
    fs::remove_file(at("project/.cursor")).unwrap();
    fs::rename(at("project/moved"), at("project/.cursor")).unwrap();
    plan().make(&context).unwrap();
    assert!(
        fs::read_to_string(at("project/.cursor/mcp.json")).unwrap().contains("/bin/belljar"),
        "the control"
    );
}

#[test]
fn variables_that_move_a_client_s_folder_are_followed() {
    let home = tempfile::tempdir().unwrap();
    let mut surroundings = surroundings(home.path());
    let place = |surroundings: &Surroundings| client("codex").unwrap().user_file(surroundings).unwrap();
    assert_eq!(place(&surroundings), home.path().join(".codex/config.toml"));
    surroundings.named.push(("CODEX_HOME", "/elsewhere".into()));
    assert_eq!(place(&surroundings), Path::new("/elsewhere/config.toml"));
    let expected = [
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "QWEN_HOME",
        "COPILOT_HOME",
        "CLINE_DIR",
        "VIBE_HOME",
        "CONTINUE_GLOBAL_DIR",
    ];
    assert_eq!(crate::clients::places::place_variables(), expected);
}
