//! Lists the files of `entrypoint/` for `bundle.rs`, which embeds them.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Given to the interpreter as arguments, not as files.
const ARGUMENTS: [&str; 3] = ["bootstrap.py", "remote/relay.py", "remote/stream.py"];

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=entrypoint");
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("entrypoint");
    let mut files = Vec::new();
    add_files(&root, "", &mut files)?;
    files.sort();
    // The compiler adds the folder, so that a moved checkout with the same target folder is built anew.
    let folder = r#"env!("CARGO_MANIFEST_DIR"), "/entrypoint/""#;
    let line = |file: &String| format!("({file:?}, include_str!(concat!({folder}, {file:?}))),\n");
    let lines: String = files.iter().map(line).collect();
    fs::write(Path::new(&variable("OUT_DIR")?).join("runtime_files.rs"), format!("[\n{lines}]\n"))
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|error| Error::other(format!("{name}: {error}")))
}

/// Adds the Python files below this folder, by their paths from `entrypoint/`.
fn add_files(folder: &Path, prefix: &str, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name =
            entry.file_name().into_string().map_err(|name| Error::other(format!("{name:?} is not UTF-8")))?;
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            add_files(&entry.path(), &format!("{path}/"), files)?;
        } else if name.ends_with(".py") && !ARGUMENTS.contains(&path.as_str()) {
            files.push(path);
        }
    }
    Ok(())
}
