//! What is found for each kind of installation, in folders that look like them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// A home with files, made below it.
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
        fs::write(&at, content).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target.replace('~', self.at("").to_str().unwrap().trim_end_matches('/')), at).unwrap();
        self
    }

    /// What is visible for this command with `PATH` set to these folders, each as `access path`.
    fn visible(&self, path: &str, command: &str) -> String {
        let home = self.at("");
        let path = path.split(':').map(|folder| home.join(folder).to_str().unwrap().to_owned());
        let path = path.collect::<Vec<_>>().join(":");
        let variables = BTreeMap::from([("PATH".to_owned(), format!("{path}:/usr/bin:/bin"))]);
        let at = Surroundings { variables: &variables, home: &home, folder: &home.join("work") };
        let mut words =
            command.split(' ').map(|word| word.replace('~', home.to_str().unwrap().trim_end_matches('/')));
        let program = at.locate(Path::new(&words.next().unwrap())).unwrap();
        let mut found = VisibleFiles::default();
        found.command(&program, &words.collect::<Vec<_>>(), &at);
        let shown = found.into_parts().1.into_iter().map(|(path, access)| {
            format!("{access:?} {}", path.strip_prefix(&home).unwrap_or(&path).display())
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

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
fn a_virtual_environment_has_its_python_and_packages_from_elsewhere() {
    let home = Home::new()
        .file("opt/python/3.12/bin/python3.12", "")
        .file("opt/python/3.12/lib/python3.12/os.py", "")
        .file("src/server/src/server.py", "")
        .file("venv/lib/python3.12/site-packages/server.pth", "~")
        .link("venv/bin/python", "~/opt/python/3.12/bin/python3.12");
    let python = home.at("venv/bin/python").display().to_string();
    let (config, elsewhere) = (
        format!("home = {}\n", home.at("opt/python/3.12/bin").display()),
        format!("{}\n", home.at("src/server/src").display()),
    );
    let home = home
        .file("venv/pyvenv.cfg", &config)
        .file("venv/lib/python3.12/site-packages/server.pth", &elsewhere)
        .file("venv/bin/server", &format!("#!{python}\n"));
    let found = "Execute opt/python/3.12, Execute src/server/src, Execute venv";
    assert_eq!(home.visible("venv/bin", "server"), found);
    assert_eq!(home.visible("venv/bin", "python -m server"), found);
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
    for command in [
        "uv run ~/src/server/server.py ~/src/data.py",
        "uv run --with mcp[cli] mcp run ~/src/server/server.py",
        "uv run --no-project fastmcp run ~/src/server/server.py:app",
        "uv run python ~/src/server/server.py",
    ] {
        assert_eq!(home.visible("bin", command), "Execute bin/uv, Execute src/server", "{command}");
    }
    assert_eq!(home.visible("bin", "npx -y tsx ~/src/node/server.ts"), "Execute bin/npx, Execute src/node");
    assert_eq!(home.visible("bin", "npx -y linter ~/src/data.py"), "Execute bin/npx");
}
