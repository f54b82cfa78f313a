//! Claims about where settings come from: the documented order, and what a project's file may do.
//!
//! They use real files in a temporary home.

use std::path::PathBuf;

use super::*;
use crate::config::Sampling;
use crate::config::test_home::Home;

impl Home {
    /// What is not a default, then every problem, with the home's place replaced.
    fn settings(&self) -> String {
        let config = self.load();
        let place = |path: &PathBuf| path.strip_prefix(self.folder.path()).unwrap().display().to_string();
        let set = config.settings.iter().filter_map(|Setting { name, value, source }| {
            let value = value.as_ref().map(ToString::to_string).unwrap_or_default();
            match source {
                Source::Default => None,
                Source::File { path, position } => {
                    let Position { line, column } = position;
                    Some(format!("{name} = {value} ({}:{line}:{column})", place(path)))
                }
                Source::Variable(variable) => Some(format!("{name} = {value} ({variable})")),
            }
        });
        let problems =
            config.problems.iter().map(|problem| self.said(format!("{}: {problem}", problem.severity)));
        set.chain(problems).collect::<Vec<_>>().join("\n")
    }
}

const EVERYTHING: &str = r#"
[sandbox]
workspace = "sales"
runtime = ["ssh://me@box", "tcp://two:2376"]
certificates = "~/.docker"
reconnect_timeout = 150
kubernetes = { context = "c", tolerations = [{ key = "k", operator = "Exists" }] }
image = "python:3.13"
oci_runtime = "runsc"
memory = "1g"
pids = 64
cpus = 0.5
user = "1000:1000"
allow_weak = ["memory", "mounts"]
idle_timeout = 0
prewarm = false
preload = ["pandas"]
rollback = false
checkpoints = 4
extra_syscalls = ["mincore"]
[run]
timeout = 5
max_timeout = 600
task_after = 10
servers = ["files"]
[jobs]
max = 2
timeout = 60
[output]
mode = "toon"
structured = true
images_as_files = ["mine"]
learn_shapes = false
[log]
level = "debug"
audit = "off"
journal = "off"
[servers]
shared = true
roots = ["~"]
sandbox = true
sampling = "off"
[model]
via = "endpoint"
endpoint = "https://me.example/v1?token=s3cret"
name = "small-1"
key = "${env:HOME}"
requests_per_run = 1
requests_per_session = 2
tokens_per_run = 3
tokens_per_session = 4
timeout = 5
concurrency = 6
[state]
dir = "~/state"
[policy]
profile = "careful"
allow_self_server = true
allow_cmd = true
"#;

#[test]
fn every_key_of_the_users_file_is_a_setting_with_its_place() {
    let home = Home::new().user(EVERYTHING);
    insta::assert_snapshot!(home.settings());
    let written = EVERYTHING.lines().filter(|line| line.contains('=')).count();
    let keys = definitions().iter().filter(|row| row.key.is_some()).count();
    assert_eq!((written, home.load().sandbox_problem), (keys, None));
}

#[test]
fn the_environment_counts_more_than_a_project_and_that_more_than_the_user() {
    let home = Home::new()
        .user("[run]\ntimeout = 20\nmax_timeout = 100\n[output]\nmode = \"json\"\n")
        .project("[run]\ntimeout = 10\nmax_timeout = 50\n")
        .variable("MCP_BRIDGE_TIMEOUT", "40");
    assert_eq!(
        home.settings(),
        "run.timeout = 40 (MCP_BRIDGE_TIMEOUT)\n\
         run.max_timeout = 50 (work/.belljar/config.toml:3:15)\n\
         output.mode = \"json\" (.config/belljar/config.toml:5:8)"
    );
}

#[test]
fn a_project_that_is_not_trusted_only_narrows() {
    let home = Home::new()
        .user("[run]\ntimeout = 20\nservers = [\"a\", \"b\"]\n[output]\nlearn_shapes = false\n")
        .project(EVERYTHING);
    insta::assert_snapshot!(home.settings().replace(home.folder.path().to_str().unwrap(), "~"));
    let config = home.load();
    assert_eq!((config.memory_bytes, config.sandbox_problem), (512 << 20, None));
    // A choice among the user's servers widens nothing, even if it leaves none.
    assert_eq!(config.chosen_servers, Some(vec![]));
}

#[test]
fn a_trusted_project_counts_in_full_until_its_file_changes() {
    let home = Home::new().project("[sandbox]\nmemory = \"2g\"\n").trusted();
    assert_eq!(home.settings(), "sandbox.memory = \"2g\" (work/.belljar/config.toml:2:10)");
    let home = home.project("[sandbox]\nmemory = \"3g\"\n");
    let said = home.settings();
    assert!(
        said.starts_with(
            "warning: work/.belljar/config.toml:2:10: sandbox.memory: is more than 512m, which counts without it, \
             and is not taken from a project whose file has changed since it was trusted; read the file, then run \
             `belljar config trust` in "
        ),
        "{said}"
    );
}

#[test]
fn system_calls_are_added_by_the_user_only() {
    let calls = "[sandbox]\nextra_syscalls = [\"mincore\"]\n";
    assert_eq!(Home::new().user(calls).load().extra_syscalls, ["mincore".parse().unwrap()]);
    let home = Home::new().project(calls).trusted();
    assert_eq!(home.load().extra_syscalls, []);
    assert!(
        home.settings().contains("only the user's own config.toml and the environment set it"),
        "{}",
        home.settings()
    );
    let config = Home::new().user(&calls.replace("mincore", "mincore\", \"ptrace")).load();
    let problem = config.sandbox_problem.unwrap().to_string();
    assert!(
        problem.contains("has \"ptrace\", which cannot be added: it reaches into other processes"),
        "{problem}"
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_the_nearest_key() {
    let home = Home::new().user(
        "timeout = 3\n[sandbx]\npids = 1\n[sandbox]\nmemroy = \"64m\"\npids = \"64\"\ncpus = 1e9\ntimeout = 1\n\
         colour = 1\nallow_weak = [1]\n[run]\ntimeout = 2025-01-01\nmax_timeout = 60\nrun = 7\nrun = 8\n[log]\nlevel = loud\n",
    );
    insta::assert_snapshot!(home.settings());
    assert_eq!(home.load().timeout_max.as_secs(), 60);
}

#[test]
fn a_setting_of_earlier_versions_is_one_warning_that_says_so() {
    let home = Home::new()
        .user("[search]\nsemantic = \"off\"\nsemantc = 1\n")
        .variable("MCP_BRIDGE_SEMANTIC", "off");
    assert_eq!(
        home.settings(),
        "warning: .config/belljar/config.toml:2:1: search.semantic: is no longer a setting: tools are searched by words \
         only; remove it\n\
         error: .config/belljar/config.toml:3:1: search.semantc: is no key that belljar knows\n\
         warning: MCP_BRIDGE_SEMANTIC: is no longer a setting: tools are searched by words only; remove it"
    );
    assert_eq!(home.load().sandbox_problem, None);
}

#[test]
fn servers_are_told_of_folders_that_are_there_and_a_misread_switch_lets_no_model_be_asked() {
    let home = Home::new()
        .file("notes/a.txt", "")
        .variable("MCP_BRIDGE_ROOTS", "~, ~/notes/,~/notes/a.txt,gone\u{202e}");
    let config = home.load();
    assert_eq!(config.roots, [home.folder.path().to_owned(), home.folder.path().join("notes")]);
    let said: Vec<&str> = config.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        said,
        ["names \"~/notes/a.txt\", which is no folder", "names \"gone\\u202e\", which is no folder"]
    );
    assert_eq!(home.variable("MCP_BRIDGE_SAMPLING", "of").load().sampling, Sampling::Off);
    assert_eq!(Home::new().load().sampling, Sampling::Ask);
    assert!(Home::new().project("[servers]\nroots = [\"~\"]").load().roots.is_empty());
}

#[test]
fn a_file_that_may_have_held_a_limit_and_cannot_be_read_starts_no_sandbox() {
    let problem = |text: &str| Home::new().user(text).load().sandbox_problem.map(|problem| problem.message);
    assert_eq!(problem("[sandbox]\nmemroy = \"64m\"").unwrap(), "is no key that belljar knows");
    assert_eq!(problem("[sandbox]\nmemory = \"6x\"").unwrap(), "is \"6x\", not a size");
    assert_eq!(problem("[sandbx]\nmemory = \"64m\"").unwrap(), "is no section that belljar knows");
    assert!(problem("[sandbox]\nmemory = 64m").unwrap().starts_with("is no TOML: "));
    assert_eq!(problem("[run]\ntimeot = 3"), None);
    for choice in ["serverz = [\"a\"]", "only_servers = [\"a\"]", "srvers = [\"a\"]", "Servers = [\"a\"]"] {
        assert_eq!(problem(&format!("[run]\n{choice}")).unwrap(), "is no key that belljar knows", "{choice}");
    }
    assert_eq!(problem(" \n"), None);
    // A valid value in the environment replaces it.
    let home = Home::new().user("[sandbox]\nmemory = \"6x\"").variable("MCP_BRIDGE_MEMORY", "64m");
    assert_eq!(home.load().sandbox_problem, None);
    // What an untrusted project asks for does not stand in for it.
    for (user, project) in [
        ("[sandbox]\npids = 8", "[sandbox]\npids = 128"),
        ("[sandbox]\ncpus = 0.0", "[sandbox]\ncpus = 1.0"),
        ("[sandbox]\nmemory = \"6x\"", "[sandbox]\nmemory = \"64m\""),
    ] {
        assert!(Home::new().user(user).project(project).load().sandbox_problem.is_some(), "{user}");
        assert_eq!(Home::new().user(user).project(project).trusted().load().sandbox_problem, None, "{user}");
    }
    // A problem in an untrusted project's file has no effect.
    assert_eq!(Home::new().project("[sandbox]\nmemory = 64m").load().sandbox_problem, None);
}

#[test]
fn a_file_that_may_have_held_a_policy_and_cannot_be_read_lets_no_call_pass() {
    let of = |home: &Home| home.load().policy.policy().defect.clone();
    let defect = |text: &str| of(&Home::new().user(text));
    for (text, said) in [
        ("[policy]\nprofil = \"careful\"", "config.toml:2:1: policy.profil: is no key that belljar knows"),
        ("[policy]\nread_only = true", "config.toml:2:1: policy.read_only: is no key that belljar knows"),
        ("[policy]\nprofile = 3", "config.toml:2:11: policy.profile: must be a string, not a number"),
        ("[policy]\nprofile = \"carefull\"", "config.toml:2:11: policy.profile: is \"carefull\""),
        ("[polcy]\nprofile = \"careful\"", "config.toml:1:2: polcy: is no section that belljar knows"),
        ("profile = \"careful\"", "config.toml:1:1: profile: is no section that belljar knows"),
        ("[policy]\nprofile = careful", "config.toml:2:11: is no TOML: "),
    ] {
        let defect = defect(text).unwrap_or_else(|| panic!("no defect: {text}"));
        assert!(defect.contains(said), "{defect}");
    }
    // The defaults of these keys are the stricter values.
    assert_eq!(defect("[policy]\nallow_cmd = 3\nprofile = \"careful\""), None);
    assert_eq!(defect("[run]\ntimeot = 3"), None);
    let slip = "[policy]\nprofile = \"carefull\"";
    assert_eq!(of(&Home::new().user(slip).variable("MCP_BRIDGE_POLICY", "read-only")), None);
    assert!(of(&Home::new().variable("MCP_BRIDGE_POLICY", "reed-only")).is_some());
    assert_eq!(of(&Home::new().project("[policy]\nprofil = \"careful\"")), None);
    assert!(of(&Home::new().project("[policy]\nprofil = \"careful\"").trusted()).is_some());
}

#[test]
fn nothing_of_a_file_for_a_newer_belljar_counts() {
    let load = |version: &str| Home::new().user(&format!("{version}\n[sandbox]\nmemory = \"600m\"")).load();
    for version in ["version = 2", "version = \"1\"", "version = 1.0", "[version]"] {
        let config = load(version);
        let problem = config.sandbox_problem.unwrap().to_string();
        assert!(problem.contains("version: is not 1, the version that this belljar reads"), "{problem}");
        assert_eq!(config.memory_bytes, 512 << 20);
        assert!(config.policy.policy().defect.is_some(), "{version}");
    }
    let config = load("version = 1");
    assert_eq!((config.sandbox_problem, config.memory_bytes), (None, 600 << 20));
}

#[test]
fn a_folder_that_cannot_be_looked_into_is_not_taken_for_one_without_files() {
    let home = Home::new().file(".config/other", "");
    std::os::unix::fs::symlink("belljar", home.folder.path().join(".config/belljar")).unwrap();
    let config = home.load();
    let said = "config.toml: is a symbolic link that leads back to itself";
    assert!(config.sandbox_problem.unwrap().to_string().contains(said));
    assert!(config.policy.policy().defect.as_ref().unwrap().contains(said));
}

#[test]
fn a_misspelt_variable_of_the_policy_or_of_confinement_refuses_as_a_misspelt_key_does() {
    let refusals = |name: &str, value: &str| {
        let config = Home::new().variable(name, value).load();
        let is_denied = config.policy.policy().defect.is_some();
        (config.sandbox_problem.is_some(), is_denied)
    };
    for name in ["MCP_BRIDGE_POLCY", "MCP_BRIDGE_POLICY_PROFILE", "MCP_BRIDGE_PROFILE"] {
        assert_eq!(refusals(name, "read-only"), (false, true), "{name}");
    }
    // The default of these is a limit, too, and other programs may have such variables.
    for name in ["MCP_BRIDGE_MEMRY", "MCP_BRIDGE_USER", "MCP_BRIDGE_PID"] {
        assert_eq!(refusals(name, "1"), (false, false), "{name}");
    }
    for name in ["MCP_BRIDGE_TIMOUT", "MCP_BRIDGE_SOMETHING_ELSE", "MCP_BRIDGE_SEMANTIC"] {
        assert_eq!(refusals(name, "1"), (false, false), "{name}");
    }
    let home = Home::new().file("MCPs/a.json", r#"{"mcpServers": {"a": {"command": "true"}}}"#);
    assert_eq!(home.variable("MCP_BRIDGE_SERVERS_SANDBOX", "1").load().servers, []);
}

#[test]
fn belljars_own_folders_are_not_in_the_project_that_is_open() {
    let home = || {
        Home::new().user("[run]\ntimeout = 7\n").file("work/.x/belljar/config.toml", "[run]\ntimeout = 9\n")
    };
    let names = ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"];
    for (name, refuses) in names.into_iter().zip([true, true, false, false]) {
        let home = home();
        let clone = home.path("work/.x").display().to_string();
        let config = home.variable(name, &clone).load();
        assert_eq!(config.timeout.as_secs(), 7, "{name}");
        let folders = [config.cache_dir.clone(), config.own_state_dir.clone(), config.owner.pins()];
        assert!(folders.iter().flatten().all(|folder| !folder.starts_with(&clone)), "{folders:?}");
        assert_eq!(config.problems.iter().filter(|problem| problem.message.contains("is open")).count(), 1);
        // Without the user's own limits and rules nothing may run.
        let is_denied = config.policy.policy().defect.is_some();
        assert_eq!((config.sandbox_problem.is_some(), is_denied), (refuses, refuses), "{name}");
    }
    // Also a folder that is not used now stays closed to servers: another belljar uses it.
    let home = home();
    let (clone, entry) = (home.path("work/.x").display().to_string(), "~/work/.x");
    let text =
        format!(r#"{{"mcpServers": {{"a": {{"command": "c", "sandbox": {{"write": ["{entry}"]}}}}}}}}"#);
    let home = home.file("MCPs/a.json", text).variable("XDG_CONFIG_HOME", &clone);
    assert_eq!(home.load().servers, []);
    let clone = Home::new().path("work/.x").display().to_string();
    for folder in [clone.as_str(), ".state"] {
        let config = Home::new().variable("MCP_BRIDGE_STATE_DIR", folder).load();
        let is_refused = config.sandbox_problem.is_some();
        assert_eq!(is_refused, folder == ".state", "{folder}: another home's project is not open here");
    }
    let apart = Home::new().variable("MCP_BRIDGE_STATE_DIR", "~/state").load();
    assert_eq!(apart.sandbox_problem, None);
}
