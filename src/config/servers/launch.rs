//! Reads how an entry's local server is started; it neither starts nor looks for the command.

use std::path::{Path, PathBuf};

use super::env_pattern::EnvPattern;
use super::reading::{Parts, Reading};
use super::transport::{Launch, NamedSecrets};
use crate::config::read::json::{Node, Spanned};
use crate::config::read::locate::locate_program;
use crate::config::read::problem::Severity;
use crate::config::read::references::Files;

impl Reading<'_> {
    /// The command of an entry and what belongs to it, unless something about it was reported.
    pub(super) fn launch(&mut self, key: &str, entry_at: usize, parts: &Parts<'_>) -> Option<Launch> {
        for (part, value) in [("headers", parts.headers), ("login", parts.login)] {
            if let Some(value) = value {
                let message = "is for remote servers; it has no effect beside a command";
                self.warn(value.at, &format!("{key}.{part}"), message);
            }
        }
        let program = self.value(&format!("{key}.command"), parts.command?);
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
        let cwd = cwd.map(|cwd| self.sources.environment.resolve(&cwd, self.path.parent()));
        let written = program;
        let program = self.program(&written, cwd.as_deref());
        if written.trim().contains(char::is_whitespace) && self.is_nowhere(&program, cwd.as_deref()) {
            let message = "holds blanks, and there is no such program";
            let hint = "write the program alone as command, and each argument in args";
            self.push(Severity::Warning, (parts.command?.at, &format!("{key}.command")), message, hint);
        }
        Some(Launch { program, args: args?, env: env?, env_inherit: env_inherit?.unwrap_or_default(), cwd })
    }

    /// A command with a slash is taken from the server's working folder, or else from the file's; others stay names.
    fn program(&self, program: &str, cwd: Option<&Path>) -> PathBuf {
        if program.contains('/') {
            self.sources.environment.resolve(program, cwd.or(self.path.parent()))
        } else {
            self.sources.environment.expand_home(program)
        }
    }

    fn is_nowhere(&self, program: &Path, cwd: Option<&Path>) -> bool {
        let path = self.sources.environment.variable("PATH");
        let located = || locate_program(program, path, cwd.unwrap_or(Path::new("/")));
        self.sources.files == Files::Read && located().is_none()
    }

    fn args(&mut self, key: &str, args: Option<&Spanned>) -> Option<Vec<String>> {
        match args.map(|args| (args.at, &args.node)) {
            None | Some((_, Node::Null)) => Some(Vec::new()),
            Some((_, Node::Array(items))) => {
                let values: Vec<Option<String>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.value(&format!("{key}[{index}]"), item))
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

    fn env(&mut self, key: &str, env: Option<&Spanned>) -> Option<NamedSecrets> {
        self.named(key, env, |name| {
            (name.is_empty() || name.contains(['=', '\0', '\r', '\n']))
                .then(|| "has a variable whose name is empty or holds '=', NUL or a line break".to_owned())
        })
    }
}
