//! Reads how an entry's local server is started; it neither starts nor looks for the command.

use std::path::{Path, PathBuf};

use belljar_base::problem::Severity;
use belljar_base::programs::find_program;
use belljar_base::resolved_path::ResolvedPath;
use belljar_base::text::suggest;
use belljar_confine::{Access, Network, PlaceKind, ServerSandbox};

use super::env_pattern::EnvPattern;
use super::reading::{Parts, Reading, STAND_IN};
use super::transport::{Launch, NamedSecrets, SandboxChoice};
use crate::clients::{Node, Value};
use crate::config::read::changeable::shown_path;
use crate::config::read::references::Files;
use crate::config::read::trust::project_file;

/// The keys of a `sandbox` object.
const SANDBOX_KEYS: [&str; 4] = ["read", "write", "network", "env"];

impl Reading<'_> {
    /// The command of an entry with its arguments and environment; `None` where a problem with it was reported.
    pub(super) fn launch(&mut self, key: &str, entry_at: usize, parts: &Parts<'_>) -> Option<Launch> {
        for (part, value) in [("headers", parts.headers), ("login", parts.login)] {
            if let Some(value) = value {
                let message = "is for remote servers; it has no effect beside a command";
                self.warn(value.at(), &format!("{key}.{part}"), message);
            }
        }
        let program = self.value(&format!("{key}.command"), parts.command?);
        for (part, value) in [("command", parts.command), ("cwd", parts.cwd)] {
            if let Some(value) = value {
                self.pasted(&format!("{key}.{part}"), value);
            }
        }
        let args = self.args(&format!("{key}.args"), parts.args);
        let env = self.env(&format!("{key}.env"), parts.env);
        let env_inherit = self.items(
            &format!("{key}.env_inherit"),
            parts.env_inherit,
            "names of variables",
            EnvPattern::new,
        );
        let cwd = match parts.cwd {
            Some(cwd) => Some(self.value(&format!("{key}.cwd"), cwd)?),
            None => None,
        };
        let program = program?;
        for (part, value) in [("command", Some(&program)), ("cwd", cwd.as_ref())] {
            if value.is_some_and(|value| value.trim().is_empty()) {
                self.report(entry_at, &format!("{key}.{part}"), "is empty");
                return None;
            }
        }
        let environment = self.sources.environment;
        let cwd = match cwd {
            Some(cwd) => Some(environment.resolve(&cwd, self.path.parent())),
            None => None,
        };
        let written = program;
        let program = self.program(&written, cwd.as_deref());
        if written.trim().contains(char::is_whitespace) && self.is_nowhere(&program, cwd.as_deref()) {
            let message = "holds blanks, and there is no such program";
            let hint = "write the program alone as command, and each argument in args";
            self.push(Severity::Warning, (parts.command?.at(), &format!("{key}.command")), message, hint);
        }
        let (sandbox, further) = self.sandbox(&format!("{key}.sandbox"), parts.sandbox)?;
        let env_inherit = env_inherit?.into_iter().flatten().chain(further).collect();
        let is_of_project = || project_file(environment).is_some_and(|file| file == self.path);
        let cwd = cwd.or_else(|| environment.cwd.clone().filter(|_| is_of_project()));
        let projects = environment.projects();
        Some(Launch { program, args: args?, env: env?, env_inherit, cwd, sandbox, projects })
    }

    /// Reports quotation marks and blanks around a value: where it was copied from, a shell has removed them.
    fn pasted(&mut self, key: &str, value: &Value) {
        let Node::Text(text) = &value.node else { return };
        // An option may have its value behind "=".
        let text =
            text.split_once('=').filter(|(name, _)| name.starts_with('-')).map_or(&**text, |(_, text)| text);
        let trimmed = text.trim_matches([' ', '\t']);
        let is_quoted = |mark| trimmed.len() > 1 && trimmed.starts_with(mark) && trimmed.ends_with(mark);
        if is_quoted('"') || is_quoted('\'') {
            let message = "is in quotation marks, which become part of it, since no shell removes them";
            self.push(Severity::Warning, (value.at(), key), message, "leave them out");
        } else if trimmed.len() < text.len() && !trimmed.is_empty() && !text.contains('\n') {
            let message = "begins or ends with a blank, which becomes part of it";
            self.push(Severity::Warning, (value.at(), key), message, "leave the blank out");
        }
    }

    /// Reports a `~`, which stays as it is: whether an argument is a path is known to the server only.
    fn tilde(&mut self, key: &str, value: &Value) {
        let Node::Text(text) = &value.node else { return };
        if text.split('=').any(|part| part == "~" || part.starts_with("~/")) {
            let message = "has a ~, which is not expanded in args, since no shell reads them";
            self.push(Severity::Warning, (value.at(), key), message, "write ${HOME} or the full path");
        }
    }

    /// The confinement that the entry sets, and the patterns of further variables that the server inherits.
    fn sandbox(&mut self, key: &str, value: Option<&Value>) -> Option<(SandboxChoice, Vec<EnvPattern>)> {
        let members = match value.map(|value| (value.at(), &value.node)) {
            None | Some((_, Node::Null)) => return Some((SandboxChoice::Default, vec![])),
            Some((_, Node::Bool(false))) => return Some((SandboxChoice::No, vec![])),
            Some((_, Node::Bool(true))) => {
                return Some((SandboxChoice::Yes(ServerSandbox::default()), vec![]));
            }
            Some((_, Node::Table(members))) => members,
            Some((at, other)) => {
                let message = format!("must be true, false or an object, not {}", other.kind());
                self.report(at, key, message);
                return None;
            }
        };
        let (mut sandbox, mut env, errors_before) = (ServerSandbox::default(), vec![], self.errors);
        for (index, member) in members.iter().enumerate() {
            let at = format!("{key}.{}", member.key);
            if members[..index].iter().any(|other| other.key == member.key) {
                self.report(member.at, &at, "is repeated");
                continue;
            }
            match member.key.as_str() {
                "read" => sandbox.read = self.places(&at, &member.value, Access::Execute).unwrap_or_default(),
                "write" => {
                    sandbox.write = self.places(&at, &member.value, Access::Change).unwrap_or_default()
                }
                "network" => match &member.value.node {
                    Node::Text(word) if word == "none" => sandbox.network = Network::None,
                    Node::Text(word) if word == "host" => sandbox.network = Network::Host,
                    _ => self.report(member.value.at(), &at, "must be \"none\" or \"host\""),
                },
                "env" => {
                    let named = self.items(&at, Some(&member.value), "names of variables", EnvPattern::new);
                    env = named.flatten().unwrap_or_default();
                }
                unknown => {
                    let hint = suggest::did_you_mean(unknown, SANDBOX_KEYS)
                        .unwrap_or_else(|| format!("known are {}", SANDBOX_KEYS.join(", ")));
                    let message = "is no key that belljar knows";
                    self.push(Severity::Error, (member.at, &at), message, &hint);
                }
            }
        }
        (self.errors == errors_before).then_some((SandboxChoice::Yes(sandbox), env))
    }

    /// The user's files and folders that a key names. Relative paths are taken from the configuration file's folder.
    fn places(&mut self, key: &str, value: &Value, access: Access) -> Option<Vec<PathBuf>> {
        let Node::List(items) = &value.node else {
            self.report(value.at(), key, format!("must be an array of paths, not {}", value.kind()));
            return None;
        };
        let mut places = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let at = format!("{key}[{index}]");
            let written = self.value(&at, item)?;
            let place = self.sources.environment.resolve(&written, self.path.parent());
            // The place may be a link: its target is checked too.
            let is_read = self.sources.files == Files::Read;
            let way = if is_read { ResolvedPath::of(&place) } else { ResolvedPath::default() };
            let end = if is_read { &way.end } else { &place };
            let is_kernel =
                |path: &Path| ["/proc", "/sys", "/dev"].iter().any(|kernel| path.starts_with(kernel));
            let is_kernel = is_kernel(&place) || is_kernel(end);
            if written == STAND_IN {
                let message =
                    "has a ${cmd:…}; which files the server gets must be known before it is started";
                self.push(Severity::Error, (item.at(), &at), message, "write the path itself");
            } else if written.trim().is_empty() || !place.is_absolute() {
                self.report(item.at(), &at, "is no path");
            } else if end.parent().is_none() || is_kernel {
                let message = format!("is {}, which cannot be passed on", place.display());
                self.push(
                    Severity::Error,
                    (item.at(), &at),
                    message,
                    "name the folders that the server needs",
                );
            } else if let Some((shared, why)) = way.chosen_by_others(self.sources.environment.uid) {
                let message = format!("leads through {}, {why}", shown_path(shared));
                let hint = "name a folder that only you can replace";
                self.push(Severity::Error, (item.at(), &at), message, hint);
            } else {
                self.private(item.at(), &at, &place, access);
                places.push(place);
            }
        }
        Some(places)
    }

    /// Reports access that hardly any server should have. Access that would let the server change its own rights is an
    /// error.
    fn private(&mut self, at: usize, key: &str, place: &Path, access: Access) {
        let (private, changes) = (self.sources.private, access == Access::Change);
        let met = if changes { private.at_to_change(place) } else { private.at(place) };
        let Some((private, met)) = met else { return };
        let gives = match (private, changes) {
            (PlaceKind::Own, true) => "would let the server change its own rights",
            (PlaceKind::Own, false) => {
                "gives the server what belljar keeps, such as logins and the key of the shared bridge"
            }
            (PlaceKind::Logins, true) => "lets the server change keys and logins",
            (PlaceKind::Logins, false) => "gives the server keys and logins",
            (PlaceKind::Start, true) => "lets the server run programs with all your rights",
            (PlaceKind::Start, false) => {
                "gives the server the start files of your shell, with what secrets they hold"
            }
        };
        let severity = if private == PlaceKind::Own && changes { Severity::Error } else { Severity::Warning };
        let relation = if met.starts_with(place) { "is or holds" } else { "lies in" };
        let message = format!("{gives}: {} {relation} {}", shown_path(place), shown_path(&met));
        self.push(severity, (at, key), message, "name only the folders that the server needs");
    }

    /// A command with a slash is relative to the server's working folder, or else to the file's. Others stay names.
    fn program(&self, program: &str, cwd: Option<&Path>) -> PathBuf {
        if program.contains('/') {
            self.sources.environment.resolve(program, cwd.or(self.path.parent()))
        } else {
            self.sources.environment.expand_home(program)
        }
    }

    fn is_nowhere(&self, program: &Path, cwd: Option<&Path>) -> bool {
        let path = self.sources.environment.variable("PATH");
        let home = self.sources.environment.home.as_deref();
        let located = || find_program(program, path, cwd.unwrap_or(Path::new("/")), home);
        self.sources.files == Files::Read && located().is_none()
    }

    fn args(&mut self, key: &str, args: Option<&Value>) -> Option<Vec<String>> {
        match args.map(|args| (args.at(), &args.node)) {
            None | Some((_, Node::Null)) => Some(Vec::new()),
            Some((_, Node::List(items))) => {
                let values: Vec<Option<String>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let key = format!("{key}[{index}]");
                        self.pasted(&key, item);
                        self.tilde(&key, item);
                        self.value(&key, item)
                    })
                    .collect();
                values.into_iter().collect()
            }
            Some((at, other)) => {
                let message = format!("must be an array of strings, not {}", other.kind());
                self.report(at, key, message);
                None
            }
        }
    }

    fn env(&mut self, key: &str, env: Option<&Value>) -> Option<NamedSecrets> {
        self.named(key, env, |name| {
            (name.is_empty() || name.contains(['=', '\0', '\r', '\n']))
                .then(|| "has a variable whose name is empty or holds '=', NUL or a line break".to_owned())
        })
    }
}
