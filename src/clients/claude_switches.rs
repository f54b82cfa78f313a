//! Servers that Claude Code switches off outside of their entries: by folder in `.claude.json`, and in settings files.
//!
//! This module opens only these files, and reports only those that it cannot read or parse.

use std::path::Path;

use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem};

use super::file;
use super::formats::format::Format;
use super::formats::spanned::{Node, Value};
use super::places::Surroundings;

/// The key of the list of servers in `.mcp.json` that the user does not want.
const OF_PROJECT_FILE: &str = "disabledMcpjsonServers";
/// The key of the list of servers that the user does not want, whichever file they are in.
const OF_ANY: &str = "disabledMcpServers";

/// The names of servers that Claude Code's own file switches off in a folder.
pub(super) fn switched_off_in<'v>(root: &'v Value, folder: Option<&Path>) -> Vec<&'v str> {
    let projects = root.get("projects").map(Value::members).unwrap_or_default();
    let here = projects.iter().filter(|project| folder == Some(Path::new(&project.key)));
    here.flat_map(|project| names(&project.value, OF_ANY)).collect()
}

/// The names of servers of a project's `.mcp.json` that are switched off.
pub(super) fn switched_off_of_project(
    own_file: &Path,
    surroundings: &Surroundings,
    project: &Path,
    limits: &Limits,
) -> Result<Vec<String>, Box<Problem>> {
    let named = surroundings.named.iter().find(|(name, _)| *name == "CLAUDE_CONFIG_DIR");
    let of_user = named.map_or_else(|| surroundings.home.join(".claude"), |(_, folder)| folder.into());
    let settings = [
        of_user.join("settings.json"),
        project.join(".claude/settings.json"),
        project.join(".claude/settings.local.json"),
    ];
    let read = |path: &Path| -> Result<Option<Value>, Box<Problem>> {
        let Some(text) = file::read(path, surroundings.uid, limits)? else { return Ok(None) };
        let bare = text.strip_prefix('\u{feff}').unwrap_or(&text);
        Format::Json.read(bare, limits).map(Some).map_err(|defect| {
            let message = format!("what it switches off is not known: {}", defect.message);
            Box::new(Problem::of_file(path, message).at(Position::of(bare, defect.at)))
        })
    };
    let mut off = Vec::new();
    if let Some(root) = read(own_file)? {
        let projects = root.get("projects").map(Value::members).unwrap_or_default();
        for here in projects.iter().filter(|here| Path::new(&here.key) == project) {
            off.extend(
                names(&here.value, OF_ANY).chain(names(&here.value, OF_PROJECT_FILE)).map(str::to_owned),
            );
        }
    }
    for path in settings {
        if let Some(root) = read(&path)? {
            off.extend(names(&root, OF_PROJECT_FILE).map(str::to_owned));
        }
    }
    Ok(off)
}

fn names<'v>(table: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    let items = match table.get(key).map(|list| &list.node) {
        Some(Node::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter().filter_map(Value::text)
}
