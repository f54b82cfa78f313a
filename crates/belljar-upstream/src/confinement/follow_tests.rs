//! Claims about the files that are found for each kind of installation, in folders that imitate them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use belljar_base::look_budget::LookBudget;
use belljar_confine::ChangeablePlaces;
use belljar_confine::{PrivatePlaces, SecretPlaces};

use super::super::surroundings::LOOKS_MAX;
use super::*;

/// A home with files.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    /// A program, or any other file.
    fn file(self, path: &str, content: &str) -> Self {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, self.expanded(content)).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(self.expanded(target), at).unwrap();
        self
    }

    fn expanded(&self, text: &str) -> String {
        text.replace('~', self.at("").to_str().unwrap().trim_end_matches('/'))
    }

    fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.at(path)).unwrap();
        self
    }

    /// The paths that are visible for this command, each as `access path`. `PATH` has these folders.
    fn visible(&self, path: &str, command: &str) -> String {
        self.found(path, command, &[]).0
    }

    /// The visible paths if servers can change these folders, and the paths that were not followed.
    fn found(&self, path: &str, command: &str, changeable: &[&str]) -> (String, String) {
        self.found_with(path, command, changeable, &[])
    }

    /// The two lists of `found`, for an entry with variables of its own.
    fn found_with(
        &self,
        path: &str,
        command: &str,
        changeable: &[&str],
        entrys: &[(&str, &str)],
    ) -> (String, String) {
        let home = self.at("");
        let path = path.split(':').map(|folder| home.join(folder).to_str().unwrap().to_owned());
        let path = path.collect::<Vec<_>>().join(":");
        let inherited = BTreeMap::from([("PATH".to_owned(), format!("{path}:/usr/bin:/bin"))]);
        let mut variables = inherited.clone();
        variables.extend(entrys.iter().map(|(name, value)| ((*name).to_owned(), self.expanded(value))));
        let homes = [home.clone()];
        let private = PrivatePlaces::new(Some(home.clone()), ["MCPs", "all/own"].map(|own| home.join(own)));
        let changeable = changeable.iter().map(|path| ((*path).to_owned(), home.join(path)));
        let at = Surroundings {
            changeable: &ChangeablePlaces::new(changeable),
            projects: &[ResolvedPath::of(&home.join("work")).end],
            variables: &variables,
            inherited: &inherited,
            home: &home,
            user_homes: &homes,
            homes: &homes,
            folder: Some(&home.join("work")),
            private: &PrivatePlaces::default(),
            secret: &private.secret(),
            looks: LookBudget::new(LOOKS_MAX),
        };
        let mut words = command.split(' ').map(|word| self.expanded(word));
        let program = at.locate(Path::new(&words.next().unwrap())).unwrap();
        let mut found = VisibleFiles::new(&at);
        found.command(&program, &words.collect::<Vec<_>>(), &at);
        let parts = found.into_parts();
        let named = |path: &Path| path.strip_prefix(&home).unwrap_or(path).display().to_string();
        let shown = parts.visible.iter().map(|(path, access)| format!("{access:?} {}", named(path)));
        let unfollowed = parts.unfollowed.iter().map(|path| named(path));
        (shown.collect::<Vec<_>>().join(", "), unfollowed.collect::<Vec<_>>().join(", "))
    }
}

/// A HOME with a secret, and with a script in a repository.
fn repository() -> Home {
    let home = Home::new().file(".ssh/id", "secret").file("src/repo/server.py", "").folder("src/repo/data");
    home.file("src/repo/requirements.txt", "")
}

/// The command that starts the script of [`repository`].
const SERVER: &str = "sh ~/src/repo/server.py";

const NODE: &str = "#!/usr/bin/env node\n";

#[test]
fn a_version_managers_runtimes_are_found_through_the_first_line_of_a_script() {
    let home = Home::new()
        .file(".nvm/versions/node/v20/bin/node", "")
        .file(".nvm/versions/node/v20/lib/node_modules/server/cli.js", NODE)
        .link(".nvm/versions/node/v20/bin/server", "../lib/node_modules/server/cli.js")
        .file(".ssh/id", "");
    assert_eq!(home.visible(".nvm/versions/node/v20/bin", "server"), "Execute .nvm");
}

#[test]
fn a_script_has_its_package_and_the_modules_above_it() {
    let home = Home::new()
        .file("src/all/node_modules/dependency/index.js", "")
        .file("src/all/server/package.json", "{}")
        .file("src/all/server/dist/index.js", "")
        .file("src/other/secret", "");
    let found = "Execute src/all/node_modules, Execute src/all/server";
    assert_eq!(home.visible("", "sh ~/src/all/server/dist/index.js ~/src/other"), found);
    let home = home.file("alone.py", "").file("notes", "");
    assert_eq!(home.visible("", "sh ~/alone.py"), "Execute alone.py");
}

#[test]
fn a_script_without_a_package_has_its_folder_only_if_nothing_else_is_there() {
    let home = Home::new().file("srv/server.py", "").file("srv/helper.py", "").folder("srv/__pycache__");
    let found = |home: &Home| home.found("", "sh ~/srv/server.py", &[]);
    assert_eq!(found(&home), ("Execute srv".to_owned(), String::new()));
    let home = home.file("srv/taxes/2025.txt", "secret");
    assert_eq!(found(&home), ("Execute srv/server.py".to_owned(), "srv".to_owned()));
    let home = home.file("srv/requirements.txt", "");
    assert_eq!(found(&home), ("Execute srv".to_owned(), String::new()));
}

#[test]
fn no_folder_with_logins_or_belljars_own_files_is_visible_because_of_a_script() {
    let found = |folder: &str| {
        let home = Home::new().file("all/own", "").file(".docker/config.json", "");
        let home =
            home.file(&format!("{folder}/server.py"), "").file(&format!("{folder}/package.json"), "{}");
        let home =
            home.file(&format!("{folder}/.venv/pyvenv.cfg"), "").folder(&format!("{folder}/node_modules"));
        home.visible("", &format!("sh ~/{folder}/server.py"))
    };
    for folder in ["MCPs", "MCPs/server", "all", ".docker"] {
        assert_eq!(found(folder), format!("Execute {folder}/server.py"));
    }
    assert_eq!(found("apart"), "Execute apart");
}

#[test]
fn a_virtual_environment_has_its_python_and_not_what_its_files_name() {
    let home = Home::new()
        .file("opt/python/3.12/bin/python3.12", "")
        .file("opt/python/3.12/lib/python3.12/os.py", "")
        .file("src/server/pyproject.toml", "")
        .file("src/server/src/server.py", "")
        .link("src/server/.venv/bin/python", "~/opt/python/3.12/bin/python3.12");
    let home = home
        .file("src/server/.venv/pyvenv.cfg", "home = ~/.ssh\n")
        .file("src/server/.venv/lib/python3.12/site-packages/server.pth", "~/src/server/src\n~/.ssh\n")
        .file("src/server/.venv/bin/server", "#!~/src/server/.venv/bin/python\n")
        .file(".ssh/python", "");
    for command in ["server", "python -m server"] {
        let (visible, unfollowed) = home.found("src/server/.venv/bin", command, &[]);
        assert_eq!(visible, "Execute opt/python/3.12, Execute src/server/.venv", "{command}");
        // The package may be installed in editable mode.
        assert_eq!(unfollowed, "src/server", "{command}");
    }
}

#[test]
fn a_packages_symlinks_do_not_lead_out_of_its_folder() {
    let visible = "Execute src/repo";
    for (link, target, unfollowed) in [
        ("node_modules", "../..", ""),
        ("node_modules", "../../.ssh", ""),
        ("node_modules", "/", ""),
        ("node_modules", "/sys", ""),
        ("node_modules", "/proc/self/root", ""),
        (".venv", "../..", ""),
        (".venv", "../../.ssh", ""),
        (".venv", "data", ""),
    ] {
        let home = repository().file("pyvenv.cfg", "").link(&format!("src/repo/{link}"), target);
        let found = home.found("", SERVER, &[]);
        assert_eq!(found, (visible.to_owned(), unfollowed.to_owned()), "{link} -> {target}");
    }
    let home = Home::new().file("other/x", "").link("work/node_modules", "../other").file("bin/npx", NODE);
    assert_eq!(home.visible("bin", "npx server"), "Execute bin/npx");
    let home = Home::new().file("work/node_modules/.bin/server", "").file("bin/npx", NODE);
    assert_eq!(home.visible("bin", "npx server"), "Execute bin/npx, Layer work/node_modules");
}

/// A module of the working folder is visible without the rest of it, where the user's own files are. A clone may have
/// symlinks to these.
#[test]
fn a_module_of_the_working_folder_is_no_symlink() {
    let home =
        || Home::new().file("work/server/__main__.py", "").file("work/.env", "secret").file("bin/npx", "");
    for (link, target, command) in [
        ("server.py", ".env", "python3 -m server"),
        ("other", "server", "python3 -m other"),
        ("package.json", ".env", "npx own"),
    ] {
        let home = home().file("work/node_modules/.bin/own", "").link(&format!("work/{link}"), target);
        let (visible, _) = home.found("bin", command, &[]);
        assert!(!visible.contains(".env") && !visible.contains("other"), "{command}: {visible}");
    }
    assert_eq!(home().found("bin", "python3 -m server", &[]).0, "Execute work/server", "the control");
}

#[test]
fn a_first_line_names_no_file_that_is_no_program_of_the_package() {
    for (first, unfollowed) in [
        ("#!~/.ssh", ""),
        ("#!~/.ssh/id", ".ssh/id"),
        ("#!/usr/bin/env ~/.ssh/id", ".ssh/id"),
        ("#!/usr/bin/env -S PATH=~/.ssh id", ""),
        ("#!.ssh/id", ""),
        ("#!../../.ssh/id", ""),
    ] {
        let home = repository().file("src/repo/server.py", first);
        let found = home.found("", SERVER, &[]);
        assert_eq!(found, ("Execute src/repo".to_owned(), unfollowed.to_owned()), "{first}");
    }
}

#[test]
fn what_a_tool_has_installed_leads_to_other_tools_only() {
    let tool = ".local/share/uv/tools/server";
    let home = Home::new()
        .file(".ssh/id", "")
        .file(".pyenv/versions/3.12/bin/python3.12", "")
        .file(&format!("{tool}/pyvenv.cfg"), "")
        .link(&format!("{tool}/bin/python"), "~/.pyenv/versions/3.12/bin/python3.12")
        .file(&format!("{tool}/bin/server"), "#!/usr/bin/python3\n")
        .link(".local/bin/server", &format!("~/{tool}/bin/server"));
    let (visible, unfollowed) = home.found(".local/bin", "server", &[]);
    assert_eq!(visible, "Execute .local/share/uv/tools, Execute .pyenv");
    assert_eq!(unfollowed, "");
    let home = Home::new().file(".ssh/python", "").file(&format!("{tool}/pyvenv.cfg"), "");
    let home =
        home.file(&format!("{tool}/bin/server"), "").link(&format!("{tool}/bin/python"), "~/.ssh/python");
    assert_eq!(home.visible(&format!("{tool}/bin"), "server"), "Execute .local/share/uv/tools");
}

#[test]
fn what_a_server_can_change_is_not_followed_out_of() {
    // Another server has planted symlinks, and files that name folders.
    let home = repository()
        .link("src/repo/node_modules", "../../.ssh")
        .link("data/server.py", "~/.ssh/id")
        .link("data/inside.py", "real.py")
        .file("data/real.py", "")
        .file("data/venv/pyvenv.cfg", "")
        .link("srv/.venv", "../data/venv")
        .file("srv/server.py", "");
    let home = home
        .file("data/venv/lib/python3/site-packages/x.pth", "~/.ssh")
        .file("src/repo/.venv/lib/python3/site-packages/x.pth", "~/.ssh")
        .file("src/repo/.venv/pyvenv.cfg", "")
        .file("src/repo/first.py", "#!~/.ssh/id\n");
    let changeable = ["src/repo", "data"];
    let visible = |command: &str| home.found("", command, &changeable).0;
    for command in [SERVER, "sh ~/src/repo/first.py"] {
        assert_eq!(visible(command), "Execute src/repo", "{command}");
    }
    assert_eq!(visible("sh ~/data/server.py"), "");
    assert_eq!(visible("sh ~/data/inside.py"), "Execute data/real.py");
    assert_eq!(visible("sh ~/srv/server.py"), "Execute srv");
    // A path that a server has replaced by a symlink must not extend the changeable paths.
    let home = home.link("src/repo/docs", "/");
    assert_eq!(home.found("", "sh ~/srv/server.py", &["src/repo", "src/repo/docs", "data"]).0, "Execute srv");
}

#[test]
fn whoever_can_change_a_package_does_not_choose_another_one_by_hiding_it() {
    let package = |mark: &str| {
        let home =
            Home::new().file("mono/.env", "secret").file("mono/package.json", "").folder("mono/servers/data");
        home.file("mono/servers/server.py", "").file("mono/pyproject.toml", "").folder("work").file(mark, "")
    };
    let (python, of_other) = ("python3 ~/mono/servers/server.py", "work/mark");
    for (command, mark) in [(python, "mono/servers/package.json"), (python, of_other)] {
        for changeable in ["mono/servers", "mono/servers/data"] {
            let is_hidden = mark == of_other;
            let home = package(mark);
            let found = home.found("/usr/bin", command, &[changeable]).0;
            // The control: who cannot change the package's own folder cannot hide it.
            let expected = match (is_hidden, changeable) {
                (true, "mono/servers/data") => "Execute mono",
                (true, _) => "Execute mono/servers/server.py",
                (false, _) => "Execute mono/servers",
            };
            assert_eq!(found, expected, "{mark} {changeable}");
        }
    }
}

/// If the first script of a command counted, a server that can remove or replace that one would choose the next.
#[test]
fn the_words_of_a_command_decide_which_of_them_are_scripts() {
    let scripts = || Home::new().file("priv/other.py", "").file("priv/package.json", "").file("bin/uv", "");
    let whole = || scripts().file("app/server.py", "").file("app/package.json", "");
    for command in [
        "python3 ~/app/server.py ~/priv/other.py",
        "python3 -X utf8 -W ignore ~/app/server.py ~/priv/other.py",
        "node --import tsx ~/app/server.py --config ~/priv/other.py",
        "uv run python3 -W ignore ~/app/server.py ~/priv/other.py",
        "uv run --with fastmcp fastmcp run --transport stdio ~/app/server.py:app ~/priv/other.py",
        "perl -I lib ~/app/server.py ~/priv/other.py",
    ] {
        let visible = |home: Home, changeable: &[&str]| {
            let (visible, _) = home.file("bin/node", "").folder("work").found("bin", command, changeable);
            visible.split(", ").filter(|path| !path.contains("bin/")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(visible(whole(), &[]), ["Execute app", "Execute priv"], "{command}");
        assert_eq!(visible(scripts().folder("app"), &["app"]), ["Execute priv"], "{command}");
        assert_eq!(visible(scripts().folder("app/server.py"), &["app"]), ["Execute priv"], "{command}");
    }
    let home = whole().folder("work").file("app/run", "");
    for (command, expected) in [
        ("python3 ~/app/run", "Execute app/run"),
        ("sh ~/app/run ~/priv", "Execute app/run"),
        ("python3 -m server ~/priv/other.py", ""),
        ("python3 -Im server ~/priv/other.py", ""),
        ("python3 -uImserver ~/priv/other.py", ""),
        ("python3 -c pass ~/priv/other.py", ""),
        ("python3 -Ecpass ~/priv/other.py", ""),
        ("python3 -u ~/app/run", "Execute app/run"),
        ("python3 -W ignore ~/app/run ~/priv", "Execute app/run"),
        ("python3 -m server ~/app/run", ""),
    ] {
        assert_eq!(home.found("bin", command, &[]).0, expected, "{command}");
    }
}

#[test]
fn no_program_is_searched_where_others_can_put_one() {
    let home = Home::new().file("w/node", "").file("w/deno", "").file("tools/deno", "").folder("work");
    let home = home.file("app/server", "#!/usr/bin/env deno\n").file("linked/node", "");
    for command in ["env deno", "sh -c deno", "app/server", "env node", "sh -c node"] {
        let command = command.replace("app/", "~/app/");
        let (visible, _) = home.found("w:tools", &command, &["w"]);
        assert!(!visible.contains("w/"), "{command}: {visible}");
        assert_eq!(visible.contains("tools/deno"), !command.ends_with("node"), "{command}: {visible}");
        let (control, _) = home.found("w:tools", &command, &[]);
        assert!(control.contains("w/"), "{command}: {control}");
    }
}

#[test]
fn what_a_project_lacks_is_not_looked_for_above_it() {
    let home =
        Home::new().file("code/package.json", "").file("code/.env", "").file("code/node_modules/x", "");
    let home = home.file("code/app/server.py", "").folder("code/app/sub").link("work", "code/app");
    // The project is opened through a link.
    let (visible, _) = home.found("/usr/bin", "python3 ~/code/app/server.py", &[]);
    assert_eq!(visible, "Execute code/app/server.py, Execute code/node_modules");
    // Nor may its files refer to the folder above, whose environment is used.
    let home = home
        .file("code/pyproject.toml", "")
        .file("code/.venv/pyvenv.cfg", "")
        .file("code/app/package.json", "");
    let home = home.file("code/app/server.py", "#!~/code/.env\n");
    let (visible, _) = home.found("/usr/bin", "python3 ~/code/app/server.py", &[]);
    assert!(!visible.contains("code/.env"), "{visible}");
}

#[test]
fn a_package_does_not_make_the_folder_above_it_its_own() {
    // It says of itself that it is a virtual environment, in a package that is installed in editable mode.
    let home =
        Home::new().file("code/pyproject.toml", "").file("code/.env", "").file("code/pkg/server.py", "");
    let home = home.file("code/pkg/package.json", "").file("code/pkg/pyvenv.cfg", "");
    let home = home.file("code/pkg/lib/python3/site-packages/x.pth", "~/code").folder("work");
    assert_eq!(home.found("/usr/bin", "python3 ~/code/pkg/server.py", &[]).0, "Execute code/pkg");
    // A project that is called bin, beside lib.
    let home = Home::new().file("code/.env", "").folder("code/lib").file("code/bin/served", "#!/bin/sh");
    let opened = home.link("work", "code/bin");
    assert_eq!(opened.found("", "~/code/bin/served", &[]).0, "Execute code/bin/served");
    let home = Home::new().folder("code/lib").file("code/bin/served", "#!/bin/sh").folder("work");
    assert_eq!(home.found("", "~/code/bin/served", &[]).0, "Execute code", "the control");
}

#[test]
fn what_another_user_puts_into_a_folder_above_makes_it_no_package() {
    if !nix::unistd::geteuid().is_root() {
        return; // Only root can make another user's file.
    }
    let with_mark_of = |mark: &str, owner: u32, of_folder: u32| {
        let home = Home::new().file("team/private/.env", "").file("team/mine/server.py", "").folder("work");
        let home = home.file(&format!("team/{mark}"), "");
        let top = home.at("team").join(mark.split('/').next().unwrap());
        std::os::unix::fs::chown(top, Some(owner), None).unwrap();
        std::os::unix::fs::chown(home.at("team"), Some(of_folder), None).unwrap();
        home.found("", "python3 ~/team/mine/server.py", &[]).0
    };
    for (mark, own) in [("package.json", "Execute team"), ("node_modules/x", "node_modules")] {
        for (owner, of_folder, counts) in [(0, 0, true), (1, 0, false), (1, 1, true), (2, 1, false)] {
            let visible = with_mark_of(mark, owner, of_folder);
            let has = visible == own || visible.contains("team/node_modules");
            assert_eq!(has, counts, "{mark} of {owner} in a folder of {of_folder}: {visible}");
        }
    }
}

#[test]
fn a_store_that_others_can_choose_is_left_out_and_named() {
    let with_mode = |mode: u32| {
        let home = Home::new().file("bin/uvx", "").file(".cache/uv/CACHEDIR.TAG", "").folder("work");
        fs::set_permissions(home.at(".cache"), fs::Permissions::from_mode(mode)).unwrap();
        home.found("bin", "uvx x", &[])
    };
    let (visible, unfollowed) = with_mode(0o755);
    assert!(visible.contains(".cache/uv") && unfollowed.is_empty(), "the control: {visible}, {unfollowed}");
    let (visible, unfollowed) = with_mode(0o777);
    assert!(!visible.contains(".cache") && unfollowed == ".cache/uv", "{visible}, {unfollowed}");
}

#[test]
fn another_users_link_does_not_lead_to_the_users_own_files() {
    if !nix::unistd::geteuid().is_root() {
        return; // Only root can make another user's link.
    }
    let home = Home::new().file("priv/key.py", "").file("priv/package.json", "").file("app/srv.py", "");
    let home = home.file("bin/uvx", "").folder("work").link("shared/out.py", "~/priv/key.py");
    let home = home.link("shared/p", "~/priv").link("shared/python3", "/usr/bin/python3");
    let commands =
        ["python3 ~/app/srv.py --out ~/shared/out.py", "~/shared/out.py", "uvx --from ~/shared/p x"];
    for command in commands {
        assert!(home.found("bin", command, &[]).0.contains("priv"), "the control: {command}");
    }
    for link in ["shared/out.py", "shared/p", "shared/python3"] {
        std::os::unix::fs::lchown(home.at(link), Some(1), None).unwrap();
    }
    for command in commands {
        assert!(!home.found("bin", command, &[]).0.contains("priv"), "{command}");
    }
    let (visible, _) = home.found("", "~/shared/python3 ~/app/srv.py", &[]);
    assert!(visible.contains("app"), "a program of the system stays usable: {visible}");
}

#[test]
fn symlinks_of_a_project_do_not_lead_out_of_it() {
    let home = Home::new().file("priv/key.py", "").file("priv/package.json", "").file(".nvm/bin/node", "");
    let home =
        home.folder("work").link("work/server.py", "../priv/key.py").link("work/node", "../.nvm/bin/node");
    assert_eq!(home.found("", "sh ~/work/server.py", &[]).0, "");
    assert_eq!(home.found("", "sh ~/priv/key.py", &[]).0, "Execute priv", "the control");
    assert_eq!(home.found("", "~/work/node x", &[]).0, "Execute .nvm", "installed programs stay visible");
}

#[test]
fn a_symlink_through_anothers_environment_does_not_make_that_visible() {
    let private = || {
        let home =
            Home::new().file("priv/.venv/pyvenv.cfg", "").file("priv/.env", "secret").folder("priv/lib");
        let home = home.link("priv/.venv/bin/python", "/usr/bin/env").link("priv/bin/python", "/usr/bin/env");
        home.file("priv/pyproject.toml", "").folder("work")
    };
    for (link, target, program) in [
        ("bin/python", "~/priv/.venv/bin/python", "bin/python"),
        (".venv", "~/priv/.venv", ".venv/bin/python"),
        ("bin/python", "~/priv/bin/python", "bin/python"),
        ("bin", "~/priv/bin", "bin/python"),
    ] {
        for (folder, changeable) in [("work", &[][..]), ("data", &["data"])] {
            let home = private().link(&format!("{folder}/{link}"), target);
            let (visible, _) = home.found("", &format!("~/{folder}/{program} -V"), changeable);
            assert!(!visible.contains("priv"), "{folder}/{link} -> {target}: {visible}");
        }
        let home = private().link(&format!("own/{link}"), target);
        let (control, _) = home.found("", &format!("~/own/{program} -V"), &[]);
        // The names between the first and the end do not count.
        let is_first = !target.ends_with("python");
        assert_eq!(control.contains("priv"), is_first, "the user's own link {link} -> {target}: {control}");
    }
    // A Python with its library is an installed program.
    let home = Home::new().file("conda/bin/python3", "").file("conda/lib/python3/os.py", "");
    let home = home.file("work/venv/pyvenv.cfg", "").link("work/venv/bin/python", "~/conda/bin/python3");
    assert_eq!(home.found("", "~/work/venv/bin/python", &[]).0, "Execute conda, Execute work/venv");
}

#[test]
fn only_regular_files_are_read() {
    let pth = "src/repo/.venv/lib/python3/site-packages/x.pth";
    let repository = || repository().file("src/repo/.venv/pyvenv.cfg", "").file(pth, "");
    for path in [pth, "src/repo/.venv/pyvenv.cfg", "src/repo/server.py", "src/repo/.venv/lib"] {
        for target in [None, Some("/dev/stdin"), Some("/dev/zero"), Some("/proc/self/fd/0")] {
            let home = repository();
            let at = home.at(path);
            if at.is_dir() {
                fs::remove_dir_all(&at).unwrap()
            } else {
                fs::remove_file(&at).unwrap()
            }
            match target {
                Some(target) => symlink(target, at).unwrap(),
                None => nix::unistd::mkfifo(&at, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            }
            let found = home.visible("", SERVER);
            assert!(["", "Execute src/repo"].contains(&found.as_str()), "{path} {target:?}: {found}");
        }
    }
}

#[test]
fn runners_have_what_they_have_stored_with_a_layer_for_changes() {
    let home = Home::new()
        .file(".npm/_npx/1/node_modules/server/cli.js", NODE)
        .file(".npm/_cacache/index", "")
        .file(".npm/_logs/secret", "")
        .file(".npmrc", "token")
        .file("bin/npx", NODE)
        .file(".cache/uv/archive/x", "")
        .file(".local/share/uv/tools/server/pyvenv.cfg", "")
        .file(".local/bin/uv", "")
        .file(".local/bin/uvx", "")
        .file("src/project/pyproject.toml", "");
    assert_eq!(home.visible("bin", "npx -y server"), "Layer .npm/_cacache, Layer .npm/_npx, Execute bin/npx");
    let uv = "Layer .cache/uv, Execute .local/bin/uv, Execute .local/bin/uvx, Layer .local/share/uv/tools";
    assert_eq!(home.visible(".local/bin", "uvx server"), uv);
    let with_project = home.visible(".local/bin", "uv --directory ~/src/project run server");
    assert!(with_project.contains("Layer src/project"), "{with_project}");
}

#[test]
fn files_in_a_runners_own_arguments_are_visible() {
    let home = Home::new()
        .file("bin/uvx", "")
        .file("bin/npx", "")
        .file("locks/a.lock", "")
        .file("locks/b.toml", "")
        .file("secret", "");
    let found = home
        .visible("bin", "uvx --constraints ~/locks/a.lock --config-file=~/locks/b.toml server -c ~/secret");
    assert_eq!(found, "Execute bin/uvx, Execute locks/a.lock, Execute locks/b.toml");
    assert_eq!(home.visible("bin", "npx -y server --from ~/secret"), "Execute bin/npx");
}

#[test]
fn a_script_that_a_runner_starts_has_its_package() {
    let home = Home::new()
        .file("bin/uv", "")
        .file("bin/npx", "")
        .file("src/server/pyproject.toml", "")
        .file("src/server/server.py", "")
        .file("src/node/package.json", "{}")
        .file("src/node/server.ts", "")
        .file("src/data.py", "");
    let both = "Execute bin/uv, Execute src/data.py, Execute src/server";
    assert_eq!(home.visible("bin", "uv run ~/src/server/server.py ~/src/data.py"), both);
    for command in [
        "uv run --with mcp[cli] mcp run ~/src/server/server.py",
        "uv run --no-project fastmcp run ~/src/server/server.py:app",
        "uv run python ~/src/server/server.py",
    ] {
        assert_eq!(home.visible("bin", command), "Execute bin/uv, Execute src/server", "{command}");
    }
    assert_eq!(home.visible("bin", "npx -y tsx ~/src/node/server.ts"), "Execute bin/npx, Execute src/node");
    assert_eq!(home.visible("bin", "npx -y linter ~/src/data.py"), "Execute bin/npx");
}

#[test]
fn names_in_the_working_folder_lead_nowhere_else() {
    // The user did not choose the author of the files in the working folder.
    let home =
        Home::new().file(".ssh/id", "secret").file("bin/uvx", "").file("bin/uv", "").file("bin/npx", "");
    let home = ["mcp", "tsx", "run", "server", "server.py", "a.lock"]
        .into_iter()
        .fold(home, |home, name| home.link(&format!("work/{name}"), "~/.ssh/id"))
        .link("work/folder", "~/.ssh");
    for command in [
        "python3 -m mcp",
        "node --import tsx x.js",
        "sh server",
        "sh -c ./server",
        "uvx --from folder x",
        "uvx --with=folder x",
        "uvx --constraints a.lock x",
        "uv --directory folder run x",
        "uv run server.py",
        "npx --prefix folder x",
        "npx tsx server.py",
    ] {
        let (visible, _) = home.found("bin", command, &[]);
        assert!(!visible.contains(".ssh"), "{command}: {visible}");
    }
    // With a reference to the open folder, also a path that the entry writes in full.
    assert_eq!(home.visible("bin", "sh ~/work/server"), "");
    let home = home.link("srv/server", "~/.ssh/id");
    assert!(home.visible("bin", "sh ~/srv/server").contains(".ssh/id"), "the user chose that link");
}

#[test]
fn words_of_the_servers_own_command_are_no_options_of_its_runner() {
    let home = Home::new().file("bin/npx", "").file("bin/uvx", "").file("work/package.json", "{}");
    let home = home.file("work/.env", "secret").folder("data");
    for command in ["npx -y server start", "npx server run", "uvx server --directory ~/data"] {
        let (visible, _) = home.found("bin", command, &[]);
        assert!(!visible.contains("Layer work,") && !visible.ends_with("Layer work"), "{command}: {visible}");
        assert!(!visible.contains("data"), "{command}: {visible}");
    }
}

#[test]
fn a_project_is_visible_to_what_runs_it_only() {
    let home = ["uv", "uvx", "npm", "npx", "pnpm", "pnpx", "pipx", "yarn", "bun", "bunx", "deno"]
        .into_iter()
        .fold(Home::new(), |home, name| home.file(&format!("bin/{name}"), ""))
        .file("work/package.json", "{}")
        .file("work/node_modules/.bin/own", "")
        .file("work/.env", "secret");
    let of_work = |command: &str| {
        let (visible, _) = home.found("bin", command, &[]);
        let of_work = visible.split(", ").filter(|path| path.contains("work")).map(str::to_owned);
        of_work.collect::<Vec<_>>().join(", ")
    };
    for command in ["uv run x", "npm start", "npm --silent run x", "pnpm run x", "yarn start", "bun run x"] {
        assert_eq!(of_work(command), "Layer work", "{command}");
    }
    for command in ["npx own", "npx -y own run", "npm exec own", "pnpm exec own"] {
        assert_eq!(of_work(command), "Layer work/node_modules, Layer work/package.json", "{command}");
    }
    for command in [
        "uv tool run x",
        "uv tool run run",
        "uvx run x",
        "pipx run x",
        "pipx run own",
        "npx x",
        "npx run x",
        "npx ../.bin/own",
        "npx .",
        "pnpx start",
        "bunx run x",
        "npm exec x",
        "pnpm dlx x",
    ] {
        assert_eq!(of_work(command), "", "{command}");
    }
}

#[test]
fn an_entrys_variables_name_nothing_but_stores() {
    let home = Home::new().file("bin/uvx", "").file(".ssh/id", "").file("bin/deno", "");
    let entrys = [("UV_CACHE_DIR", "~/.ssh"), ("UV_TOOL_DIR", "~/.ssh"), ("DENO_DIR", "~/.ssh")];
    for command in ["uvx server", "deno run server.ts"] {
        let (visible, _) = home.found_with("bin", command, &[], &entrys);
        assert!(!visible.contains(".ssh"), "{command}: {visible}");
    }
    let home = home.file("uv/CACHEDIR.TAG", "");
    let (visible, _) = home.found_with("bin", "uvx server", &[], &[("UV_CACHE_DIR", "~/uv")]);
    assert!(visible.contains("Layer uv"), "{visible}");
    // A server that empties its own store does not see the user's.
    let home = home.file(".cache/uv/CACHEDIR.TAG", "").folder("empty");
    let of = |entrys: &[(&str, &str)]| home.found_with("bin", "uvx server", &[], entrys).0;
    assert!(of(&[]).contains("Layer .cache/uv") && !of(&[("UV_CACHE_DIR", "~/empty")]).contains(".cache/uv"));
}

#[test]
fn another_users_links_lead_to_no_store() {
    let home = Home::new().file("bin/uvx", "").file("bin/python3", "").file("s.py", "");
    let home = home
        .file("theirs/python3.11/x.py", "")
        .link(".cache/uv", "../theirs")
        .link(".local/lib", "../theirs");
    let of = |home: &Home| {
        ["uvx server", "python3 ~/s.py"].map(|command| home.visible("bin", command).contains("theirs"))
    };
    assert_eq!(of(&home), [true, true]);
    // Only root can play both users.
    if nix::unistd::geteuid().is_root() {
        for link in [".cache/uv", ".local/lib"] {
            std::os::unix::fs::lchown(home.at("").join(link), Some(4242), None).unwrap();
        }
        assert_eq!(of(&home), [false, false]);
    }
}

#[test]
fn a_server_does_not_choose_the_folder_of_pythons_packages() {
    let of = |target: &str, changeable: &[&str]| {
        let home =
            Home::new().file("bin/python3", "").file("server/s.py", "").file("code/python-private/.env", "");
        let home = home.file("libs/python3.11/site.py", "").link(".local/lib", target);
        home.found("bin", "python3 ~/server/s.py", changeable).0
    };
    assert!(of("~/libs", &[]).contains("libs/python3.11"));
    let visible = of("~/code", &[".local"]);
    assert!(!visible.contains("code"), "{visible}");
    let home = Home::new().file("bin/python3", "").file("s.py", "").file(".ssh/python_key", "");
    assert_eq!(
        home.link(".local/lib", "../.ssh").visible("bin", "python3 ~/s.py").matches(".ssh").count(),
        0
    );
}

impl Home {
    /// The looks that finding the files of [`SERVER`] costs, with what is found.
    fn cost(&self) -> (usize, FollowResult) {
        let variables = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let (root, homes, folder) = (self.at(""), [self.at("")], self.at("src/repo"));
        let at = Surroundings {
            changeable: &ChangeablePlaces::default(),
            projects: &[],
            variables: &variables,
            inherited: &variables,
            home: &root,
            user_homes: &homes,
            homes: &homes,
            folder: Some(&folder),
            private: &PrivatePlaces::default(),
            secret: &SecretPlaces::default(),
            looks: LookBudget::new(LOOKS_MAX),
        };
        let mut found = VisibleFiles::new(&at);
        found.command(
            Path::new("/bin/sh"),
            &[self.at("src/repo/server.py").to_str().unwrap().to_owned()],
            &at,
        );
        (LOOKS_MAX - at.looks.left(), found.into_parts())
    }
}

#[test]
fn a_path_to_which_files_lead_is_not_visible_if_it_is_not_utf_8() {
    let home = repository();
    let odd = OsStr::from_bytes(b"odd \xff");
    fs::create_dir(home.at("src").join(odd)).unwrap();
    symlink(odd, home.at("src/node_modules")).unwrap();
    assert_eq!(home.cost().1.visible, [(home.at("src/repo"), Access::Execute)]);
}

#[test]
fn many_files_of_a_package_cost_a_bounded_number_of_looks() {
    let home = Home::new().file("src/repo/server.py", "");
    for number in 0..LOOKS_MAX {
        fs::write(home.at(&format!("src/repo/{number}.py")), "").unwrap();
    }
    let (looks, found) = home.cost();
    assert_eq!(looks, LOOKS_MAX);
    assert_eq!(found.visible, [(home.at("src/repo/server.py"), Access::Execute)]);
}
