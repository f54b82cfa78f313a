//! Finds the file that a command name would start.
//!
//! It starts nothing, and does not say whether the file would work.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The executable file behind a command: looked for on `path_variable` (as in `PATH`) when it has no slash, else taken
/// from `cwd` when it is relative. `None` when there is no such file or it may not be executed.
#[must_use]
pub fn locate_program(program: &Path, path_variable: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    if program.as_os_str().is_empty() {
        return None;
    }
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(cwd.join(program)).filter(|file| is_executable(file));
    }
    path_folders(path_variable, cwd).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// The folders of `path_variable`. An empty part of PATH is the working folder.
pub fn path_folders(path_variable: Option<&OsStr>, cwd: &Path) -> impl Iterator<Item = PathBuf> {
    let parts =
        path_variable.into_iter().flat_map(|path| path.as_encoded_bytes().split(|byte| *byte == b':'));
    parts.map(|folder| cwd.join(std::os::unix::ffi::OsStrExt::from_bytes(folder) as &OsStr))
}

/// As [`locate_program`]; a name that is not on the path is also looked for in the folders of version managers, which
/// desktop programs do not have on their path.
#[must_use]
pub fn find_program(
    program: &Path,
    path_variable: Option<&OsStr>,
    cwd: &Path,
    home: Option<&Path>,
) -> Option<PathBuf> {
    let is_name =
        program.components().count() == 1 && !program.as_os_str().as_encoded_bytes().contains(&b'/');
    locate_program(program, path_variable, cwd).or_else(|| {
        let files = usual_folders(home).into_iter().filter(|_| is_name).map(|folder| folder.join(program));
        files.into_iter().find(|file| is_executable(file))
    })
}

/// The folders in which [`find_program`] looks for a program: those of PATH, and the others for a name that is in none of
/// these.
#[must_use]
pub fn searched_folders(
    program: &Path,
    path_variable: Option<&OsStr>,
    cwd: &Path,
    home: Option<&Path>,
) -> Vec<PathBuf> {
    let is_found = locate_program(program, path_variable, cwd).is_some();
    let others = if is_found { vec![] } else { usual_folders(home) };
    path_folders(path_variable, cwd).chain(others).collect()
}

/// The places where [`find_program`] looks for a name, in words.
#[must_use]
pub fn searched_places(path_variable: Option<&OsStr>) -> String {
    let path = path_variable.map_or_else(|| "no PATH".into(), |path| format!("PATH ({})", path.display()));
    format!(
        "{path} and the usual folders of nvm, fnm, pnpm, volta, asdf, mise, pyenv, Homebrew and ~/.local/bin"
    )
}

/// Where version managers and installers put programs, the newest version of each first.
fn usual_folders(home: Option<&Path>) -> Vec<PathBuf> {
    const OF_HOME: [&str; 17] = [
        ".local/bin",
        ".nvm/versions/node/*/bin",
        ".local/share/fnm/aliases/default/bin",
        ".local/share/fnm/node-versions/*/installation/bin",
        "Library/Application Support/fnm/aliases/default/bin",
        ".fnm/aliases/default/bin",
        ".fnm/node-versions/*/installation/bin",
        ".local/share/pnpm",
        "Library/pnpm",
        ".volta/bin",
        ".asdf/shims",
        ".local/share/mise/shims",
        ".pyenv/shims",
        ".cargo/bin",
        ".bun/bin",
        ".deno/bin",
        "go/bin",
    ];
    const OF_SYSTEM: [&str; 3] = ["/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/local/bin"];
    let of_home = home.into_iter().flat_map(|home| OF_HOME.map(|folder| (home, folder)));
    let of_home = of_home.flat_map(|(home, folder)| match folder.split_once("/*/") {
        None => vec![home.join(folder)],
        Some((versions, rest)) => {
            let entries = std::fs::read_dir(home.join(versions)).into_iter().flatten().flatten();
            let mut versions: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            versions.sort_by_cached_key(|version| std::cmp::Reverse(numbers(version)));
            versions.into_iter().map(|version| version.join(rest)).collect()
        }
    });
    of_home.chain(OF_SYSTEM.map(PathBuf::from)).collect()
}

/// The numbers in the name of a version.
fn numbers(version: &Path) -> Vec<u64> {
    let name = version.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_that_is_not_on_the_path_is_found_where_version_managers_put_it() {
        let home = tempfile::tempdir().unwrap();
        let versions =
            ["v9.11.2", "v22.3.0", "v18.20.4"].map(|name| format!(".nvm/versions/node/{name}/bin"));
        let folders = versions.iter().map(String::as_str).chain([".volta/bin", ".pyenv/shims", ".local/bin"]);
        for (folder, tool) in folders.zip(["npx", "npx", "npx", "npx", "uvx", "node"]) {
            let folder = home.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(tool), "").unwrap();
            fs::set_permissions(folder.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let found = |program: &str| {
            let found = find_program(
                Path::new(program),
                Some("/nowhere".as_ref()),
                Path::new("/nowhere"),
                Some(home.path()),
            );
            found.map(|file| file.strip_prefix(home.path()).unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(found("npx").as_deref(), Some(".nvm/versions/node/v22.3.0/bin/npx"));
        assert_eq!(found("uvx").as_deref(), Some(".pyenv/shims/uvx"));
        assert_eq!(found("node").as_deref(), Some(".local/bin/node"));
        // Only names are searched.
        assert_eq!((found("./npx"), found("bin/npx"), found("..")), (None, None, None));
        // Each further manager puts a program where no other does.
        for folder in [
            ".local/share/fnm/aliases/default/bin",
            ".local/share/fnm/node-versions/v20.1.0/installation/bin",
            "Library/Application Support/fnm/aliases/default/bin",
            ".fnm/aliases/default/bin",
            ".fnm/node-versions/v20.1.0/installation/bin",
            ".local/share/pnpm",
            "Library/pnpm",
            ".asdf/shims",
            ".local/share/mise/shims",
            ".cargo/bin",
            ".bun/bin",
            ".deno/bin",
            "go/bin",
        ] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
            fs::copy(home.path().join(".local/bin/node"), home.path().join(folder).join("alone")).unwrap();
            assert_eq!(found("alone"), Some(format!("{folder}/alone")));
            fs::remove_file(home.path().join(folder).join("alone")).unwrap();
        }
        let of_system = usual_folders(None);
        for folder in ["/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"] {
            assert!(of_system.contains(&folder.into()), "{folder}");
        }
        // The path comes first.
        let path = home.path().join(".volta/bin");
        let on_path =
            find_program(Path::new("npx"), Some(path.as_os_str()), Path::new("/nowhere"), Some(home.path()));
        assert_eq!(on_path, Some(path.join("npx")));
    }

    #[test]
    fn the_first_executable_file_of_the_path_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        for (place, mode) in [(&first, 0o644), (&second, 0o755)] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("tool"), "").unwrap();
            fs::set_permissions(place.join("tool"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("{}:{}:/nowhere", first.display(), second.display());
        let located = |program: &str| locate_program(Path::new(program), Some(path.as_ref()), folder.path());
        assert_eq!(located("tool"), Some(second.join("tool")));
        assert_eq!(located("b/tool"), Some(second.join("tool")));
        assert_eq!(located("a/tool"), None);
        assert_eq!(located("b"), None);
        assert_eq!(located("none"), None);
        assert_eq!(located(""), None);
    }
}
