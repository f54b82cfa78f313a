//! Replaces references in a configured value: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${file:PATH}`, `${cmd:PROGRAM
//! ARGUMENTS}`.
//!
//! It runs nothing: the caller passes in the output of commands. It knows no other shell syntax: `$NAME` stays, `$${`
//! is a literal `${`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use belljar_base::limits::Limits;
use belljar_base::programs::{locate_program, path_folders};
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text;
use belljar_confine::PrivatePlaces;

use super::changeable::{NamedFile, ReadTime};
use super::environment::Environment;
use super::file::{self, WatchedFile};
use super::plain_value::{is_existing_path, is_plain_address};
use crate::clients::{Node, Value};

/// The beginnings of references that other programs use.
const KINDS: [&str; 5] = ["input:", "command:", OPEN_FOLDER, "userHome", "prompt:"];
/// The name that VS Code and Cursor have for the folder that they have open.
const OPEN_FOLDER: &str = "workspaceFolder";
/// Variables that name places and users. Their values may be repeated in texts.
const NO_SECRETS: [&str; 8] = ["HOME", "USER", "LOGNAME", "PWD", "PATH", "SHELL", "TMPDIR", "LANG"];
/// The longest part of a program's name or a path that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;
const LITERAL_HINT: &str = "write $${ for a literal ${";

/// The sources that references are resolved from.
pub(crate) struct Sources<'s> {
    pub(crate) environment: &'s Environment,
    pub(crate) limits: &'s Limits,
    pub(crate) files: Files,
    pub(crate) commands: Commands<'s>,
    /// The files and folders that a server gets only if its entry names them.
    pub(crate) private: &'s PrivatePlaces,
}

/// The treatment of `${file:…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    /// The file is read.
    Read,
    /// No file is opened.
    Closed,
}

/// The treatment of `${cmd:…}`.
#[derive(Clone, Copy)]
pub(crate) enum Commands<'s> {
    /// The user has not allowed it.
    Refused,
    /// The command is collected, to be run when the server is started.
    Later,
    /// The commands were run: the output of each, by the text of its reference.
    Ran(&'s BTreeMap<String, String>),
}

/// A command of a `${cmd:…}`.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The text inside the reference.
    pub written: String,
    /// The program and its arguments; never empty. A program with a slash is relative to `folder`.
    pub words: Vec<String>,
    /// The working folder: that of the file with the reference, or HOME if a variable has it.
    pub folder: Option<PathBuf>,
}

/// The values, files and commands that references have led to.
#[derive(Default)]
pub(crate) struct ResolvedReferences {
    /// The values to redact, each with a name that can be shown.
    pub(crate) values: Vec<(String, String)>,
    pub(crate) files: Vec<WatchedFile>,
    /// The commands that are still to be run.
    pub(crate) commands: Vec<CommandLine>,
    /// The files that were named, including those on command lines.
    pub(crate) named: Vec<NamedFile>,
}

/// The reason for which a reference cannot be resolved. No value is repeated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl Sources<'_> {
    /// Replaces every reference in the value; `None` while the value needs the output of a command that was not run.
    /// Relative paths are taken from `folder`.
    pub(crate) fn substitute(
        &self,
        value: &str,
        folder: Option<&Path>,
        resolved: &mut ResolvedReferences,
    ) -> Result<Option<String>, Unresolved> {
        let mut replaced = Some(String::with_capacity(value.len()));
        let mut push = |text: Option<&str>| match text {
            Some(text) => replaced.iter_mut().for_each(|replaced| replaced.push_str(text)),
            None => replaced = None,
        };
        let mut rest = value;
        while let Some(dollar) = rest.find("${") {
            if let Some(before) = rest[..dollar].strip_suffix('$') {
                push(Some(before));
                push(Some("${"));
                rest = &rest[dollar + 2..];
                continue;
            }
            push(Some(&rest[..dollar]));
            let Some((reference, after)) = rest[dollar + 2..].split_once('}') else {
                return Err(unresolved("has \"${\" without its \"}\""));
            };
            if reference.contains("${") {
                return Err(unresolved("has a reference within a reference, which belljar does not know"));
            }
            let found = match reference.split_once(':') {
                Some(("file", path)) => self.file(path, folder, resolved).map(Some)?,
                Some(("cmd", command)) => self.command(command, folder, resolved)?,
                _ => self.variable(reference, resolved).map(Some)?,
            };
            push(found.as_deref());
            rest = after;
        }
        push(Some(rest));
        Ok(replaced)
    }

    fn variable(&self, reference: &str, resolved: &mut ResolvedReferences) -> Result<String, Unresolved> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        let bare = name.strip_prefix("env:");
        // A password may look like a reference, so a text that may be a password is not repeated.
        let kind = KINDS.iter().find(|kind| reference.starts_with(**kind));
        let shown = match (bare, kind) {
            (Some(bare), _) => format!("${{env:{bare}}}"),
            (None, _) if is_usual_name(name) => format!("${{{name}}}"),
            (None, Some(kind)) if name == *kind => format!("${{{kind}}}"),
            (None, Some(kind)) => format!("${{{kind}…}}"),
            (None, None) => "a ${…}".to_owned(),
        };
        let name = bare.unwrap_or(name);
        if !is_variable_name(name) {
            return Err(unresolved(format!("refers to {shown}, which is no environment variable")));
        }
        let found = match (self.environment.variable(name), default) {
            (Some(found), _) => found
                .to_str()
                .ok_or_else(|| unresolved(format!("refers to {shown}, whose value is not UTF-8")))?,
            (None, Some(default)) => return Ok(default.to_owned()),
            (None, None) if name == OPEN_FOLDER => return self.open_folder(),
            (None, None) => return Err(unresolved(format!("refers to {shown}, which is not set"))),
        };
        if !NO_SECRETS.contains(&name) {
            self.note(name, found, resolved);
        }
        Ok(found.to_owned())
    }

    /// The folder that belljar was started in: clients start their servers in the folder that they have open.
    fn open_folder(&self) -> Result<String, Unresolved> {
        let folder = self.environment.cwd.as_deref().and_then(Path::to_str).map(str::to_owned);
        folder.ok_or_else(|| unresolved("refers to ${workspaceFolder}, and the working folder is not known"))
    }

    /// Marks a value as one to redact, unless it only says where something is.
    fn note(&self, name: &str, found: &str, resolved: &mut ResolvedReferences) {
        let is_place = (self.files == Files::Read && is_existing_path(found)) || is_plain_address(found);
        if !is_place {
            resolved.values.push((name.to_owned(), found.to_owned()));
        }
    }

    fn file(
        &self,
        path: &str,
        folder: Option<&Path>,
        resolved: &mut ResolvedReferences,
    ) -> Result<String, Unresolved> {
        let shown = format!("${{file:{}}}", text::bounded(path, SHOWN_CHARS_MAX));
        let unresolved = |message: &str| Unresolved {
            message: format!("refers to {shown}, which {message}"),
            hint: "a relative path is taken from this file's folder",
        };
        if path.trim().is_empty() || path.contains('\0') {
            return Err(unresolved("names no file"));
        }
        if self.files == Files::Closed {
            return Err(unresolved("is not opened here"));
        }
        let path = self.environment.resolve(path.trim(), folder);
        // The fingerprint is taken before the file is read, so that a change in between is noticed.
        resolved.files.push((path.clone(), file::fingerprint(&path)));
        let way = ResolvedPath::of(&std::path::absolute(&path).unwrap_or_else(|_| path.clone()));
        // The path may lead to another file by now: only the file at the end of the resolved path is read.
        let bytes = file::read_at_end(&path, &way, self.environment.uid, self.limits.reference_bytes_max)
            .map_err(|problem| unresolved(&problem.message))?;
        resolved.named.push(NamedFile { shown: shown.clone(), way, read: ReadTime::Now, is_program: false });
        let found = String::from_utf8(bytes).map_err(|_| unresolved("is not UTF-8"))?;
        let found = without_line_end(&found).to_owned();
        self.note("file", &found, resolved);
        Ok(found)
    }

    fn command(
        &self,
        written: &str,
        folder: Option<&Path>,
        resolved: &mut ResolvedReferences,
    ) -> Result<Option<String>, Unresolved> {
        let mut words = words(written).ok_or_else(|| {
            unresolved("refers to a ${cmd:…} without a program, or with a quote that is not closed")
        })?;
        match self.commands {
            Commands::Refused => Err(Unresolved {
                message: format!(
                    "refers to ${{cmd:{} …}}, and commands are not run",
                    text::bounded(&words[0], SHOWN_CHARS_MAX)
                ),
                hint: "the user may set policy.allow_cmd = true in the own config.toml, or MCP_BRIDGE_ALLOW_CMD=1",
            }),
            Commands::Later => {
                if words[0].contains('/')
                    && let Some(program) = self.environment.resolve(&words[0], folder).to_str()
                {
                    words[0] = program.to_owned();
                }
                if self.files == Files::Read {
                    self.files_of_command(&words, folder, resolved);
                }
                let folder = folder.map(Path::to_owned);
                let command = CommandLine { written: written.to_owned(), words, folder };
                if !resolved.commands.contains(&command) {
                    resolved.commands.push(command);
                }
                Ok(None)
            }
            Commands::Ran(printed) => {
                let printed = printed
                    .get(written)
                    .ok_or_else(|| unresolved("refers to a ${cmd:…} that was not run"))?;
                let found = without_line_end(printed).to_owned();
                self.note("cmd", &found, resolved);
                Ok(Some(found))
            }
        }
    }
}

impl Sources<'_> {
    /// Records the program of a command, and its arguments as files, whether they exist or not: a file that is missing
    /// now can be there when the command runs. The folders of PATH count as well, since programs look for others there.
    fn files_of_command(&self, words: &[String], folder: Option<&Path>, resolved: &mut ResolvedReferences) {
        let shown = format!("${{cmd:{} …}}", text::bounded(&words[0], SHOWN_CHARS_MAX));
        let folder = folder.or(self.environment.cwd.as_deref()).unwrap_or(Path::new("/"));
        let path = self.environment.variable("PATH");
        let program =
            locate_program(Path::new(&words[0]), path, folder).unwrap_or_else(|| folder.join(&words[0]));
        let values = words[1..]
            .iter()
            .flat_map(|word| [Some(word.as_str()), word.split_once('=').map(|(_, value)| value)]);
        let files = values.flatten().map(|value| folder.join(value));
        let programs = [program].into_iter().chain(path_folders(path, folder)).map(|path| (path, true));
        for (path, is_program) in programs.chain(files.map(|path| (path, false))) {
            resolved.named.push(NamedFile {
                shown: shown.clone(),
                way: ResolvedPath::of(&path),
                read: ReadTime::Later,
                is_program,
            });
        }
    }
}

/// The part of an address before its path as it is written, without the defaults of references; `None` if it has no
/// reference.
pub(crate) fn written_origin(url: &str) -> Option<String> {
    let (mut origin, mut rest, mut refers) = (String::new(), url, false);
    while let Some(first) = rest.chars().next() {
        if let Some((reference, after)) = rest.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
            let shown = match reference.strip_prefix("cmd:").and_then(|command| command.split_once(' ')) {
                Some((program, _)) => format!("cmd:{program} …"),
                None => reference.split_once(":-").map_or(reference, |(name, _)| name).to_owned(),
            };
            origin.push_str(&format!("${{{shown}}}"));
            (rest, refers) = (after, true);
            continue;
        }
        if let Some(after) = rest.strip_prefix("://") {
            origin.push_str("://");
            rest = after;
            continue;
        }
        if matches!(first, '/' | '?' | '#') {
            break;
        }
        origin.push(first);
        rest = &rest[first.len_utf8()..];
    }
    refers.then_some(origin)
}

/// Splits a command into words at blanks. Single or double quotes keep blanks together and are removed.
fn words(written: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in written.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => word.get_or_insert_default().push(character),
            None if character == '\'' || character == '"' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    let is_whole = quote.is_none() && words.first().is_some_and(|program: &String| !program.is_empty());
    (is_whole && !written.contains('\0')).then_some(words)
}

/// The text without one line end at its end, which editors and programs add.
fn without_line_end(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

fn unresolved(message: impl Into<String>) -> Unresolved {
    Unresolved { message: message.into(), hint: LITERAL_HINT }
}

/// Whether the text has the usual form of a variable's name. Passwords rarely have it.
fn is_usual_name(name: &str) -> bool {
    is_variable_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())
}

/// The environment variables that the texts of a value refer to, whether they are set or not.
pub(crate) fn variables_of(value: &Value) -> BTreeSet<String> {
    let mut variables = BTreeSet::new();
    let mut left = vec![value];
    while let Some(Value { node, .. }) = left.pop() {
        match node {
            Node::Text(text) => variables_in(text, &mut variables),
            Node::List(items) => left.extend(items),
            Node::Table(members) => left.extend(members.iter().map(|member| &member.value)),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Unread(_) => {}
        }
    }
    variables
}

/// The environment variables that a text refers to, whether they are set or not.
pub(crate) fn variables_in(value: &str, variables: &mut BTreeSet<String>) {
    let mut rest = value;
    while let Some(dollar) = rest.find("${") {
        let is_literal = rest[..dollar].ends_with('$');
        rest = &rest[dollar + 2..];
        let Some((reference, _)) = rest.split_once('}').filter(|_| !is_literal) else { continue };
        let name = reference.split_once(":-").map_or(reference, |(name, _)| name);
        let name = name.strip_prefix("env:").unwrap_or(name);
        if is_variable_name(name) {
            variables.insert(name.to_owned());
        }
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
#[path = "references_tests.rs"]
mod tests;
