//! Decides for each setting which of its values is in effect: the environment's, a project's, the user's, or the
//! default.
//!
//! A project's file that the user does not trust can only tighten settings. `load` decides what values mean.

use std::path::PathBuf;

use belljar_base::limits::Limits;
use belljar_base::problem::{Origin, Position, Problem, Severity};
use belljar_base::text::{self, suggest};

use super::definitions::{Definition, ProjectPermission, REMOVED, ValueForm, definitions};
use super::toml_file::{self, FileOwner, ReadFailures, TomlFile, WrittenValue, project_folder};
use super::values;
use crate::config::read::environment::Environment;
use crate::config::read::trust::Trust;

/// The prefix of most variables' names.
const VARIABLE_PREFIX: &str = "MCP_BRIDGE_";
/// The variable that confines servers.
const SANDBOX_SERVERS: &str = "MCP_BRIDGE_SANDBOX_SERVERS";

/// A setting with the value that is in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Its key in a config.toml, such as `run.timeout`; its variable, where it has none.
    pub name: String,
    /// Its value as JSON, without password and query in an address; `None`: it is not set and has no default.
    pub value: Option<serde_json::Value>,
    /// The source of the value.
    pub source: Source,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The default: nobody has set the value.
    Default,
    /// A file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The position of the value in the file.
        position: Position,
    },
    /// An environment variable, by its name.
    Variable(String),
}

impl Source {
    /// An error about the value from this source.
    pub(crate) fn problem(&self, key: &str, variable: &str, message: impl Into<String>) -> Problem {
        match self {
            Self::File { path, position } => Problem::of_file(path, message).at(*position).key(key),
            Self::Variable(_) | Self::Default => Problem::new(Origin::Variable(variable.to_owned()), message),
        }
    }
}

/// All values of settings that the operator has written.
pub(crate) struct Settings<'s> {
    environment: &'s Environment,
    definitions: Vec<Definition>,
    files: Vec<TomlFile>,
    problems: &'s mut Vec<Problem>,
    counting: Vec<Setting>,
    read_failures: ReadFailures,
}

/// The value that is in effect after the sources that have been read so far.
struct EffectiveValue<T> {
    value: Option<T>,
    text: Option<String>,
    source: Source,
}

impl<'s> Settings<'s> {
    /// Reads the files.
    pub(crate) fn new(environment: &'s Environment, limits: &Limits, problems: &'s mut Vec<Problem>) -> Self {
        let definitions = definitions();
        let files = toml_file::read_all(environment, limits, &definitions, problems);
        let unknown = unknown_variables(environment, &definitions);
        let misspelt = |part: fn(&Definition) -> bool| {
            let is_it = |near: &str| definitions.iter().any(|row| row.variable == near && part(row));
            let found = unknown.iter().find(|(_, near)| near.as_deref().is_some_and(is_it));
            found.map(|(problem, _)| problem.clone())
        };
        let of_policy = misspelt(|row| row.name() == "policy.profile");
        let of_servers = misspelt(|row| row.variable == SANDBOX_SERVERS);
        problems.extend(unknown.into_iter().map(|(problem, _)| problem));
        let trusted = || files.iter().filter(|file| is_trusted(file.owner));
        // Only the user's own file may set `servers.sandbox`.
        let own = || files.iter().filter(|file| file.owner == FileOwner::User);
        let read_failures = ReadFailures {
            sandbox: trusted().find_map(|file| file.read_failures.sandbox.clone()),
            policy: trusted().find_map(|file| file.read_failures.policy.clone()).or(of_policy),
            model: trusted().find_map(|file| file.read_failures.model.clone()),
            servers: own().find_map(|file| file.read_failures.servers.clone()).or(of_servers),
        };
        Self { environment, definitions, files, problems, counting: Vec::new(), read_failures }
    }

    /// The value that is in effect; `None` if nothing is set and there is no default.
    pub(crate) fn optional<T>(
        &mut self,
        variable: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let row = self.definitions.iter().find(|row| row.variable == variable)?.clone();
        let value = row.default.as_deref().and_then(|default| parse(default).ok());
        let mut counting = EffectiveValue { value, text: row.default.clone(), source: Source::Default };
        let mut unreadable = None;
        let files = std::mem::take(&mut self.files);
        for file in &files {
            let Some(written) = row.key.as_ref().and_then(|key| file.written.get(key)) else { continue };
            let origin = Origin::File(file.path.clone());
            match parse(&written.text) {
                Err(defect) => {
                    let problem =
                        self.refused(&row, Problem::new(origin, defect).at(written.position), &counting);
                    if is_trusted(file.owner) {
                        unreadable = Some(problem);
                    }
                }
                Ok(value) => match self.allowed(&row, file, written, &counting) {
                    Err(problem) => self.problems.push(*problem),
                    Ok(text) => {
                        let source = Source::File { path: file.path.clone(), position: written.position };
                        // A narrowed value differs from the written one, so it is parsed again.
                        let value = if text == written.text { Some(value) } else { parse(&text).ok() };
                        counting = EffectiveValue { value, text: Some(text), source };
                        // What a project asks for does not stand in for a limit of the user.
                        if is_trusted(file.owner) {
                            unreadable = None;
                        }
                    }
                },
            }
        }
        self.files = files;
        if let Some(given) = self.environment.variable(variable) {
            let given = given.to_str().ok_or_else(|| "is not UTF-8".to_owned()).map(str::trim);
            match given.and_then(|text| Ok((text, parse(text)?))) {
                Ok((text, value)) => {
                    let source = Source::Variable(variable.to_owned());
                    counting = EffectiveValue { value: Some(value), text: Some(text.to_owned()), source };
                    unreadable = None;
                }
                Err(defect) => {
                    let problem = Problem::new(Origin::Variable(variable.to_owned()), defect);
                    unreadable = Some(self.refused(&row, problem, &counting));
                }
            }
        }
        let read_failures = match (row.section(), row.name()) {
            (Some("sandbox"), _) => Some(&mut self.read_failures.sandbox),
            (Some("model"), _) => Some(&mut self.read_failures.model),
            (_, "policy.profile") => Some(&mut self.read_failures.policy),
            (_, "servers.sandbox") => Some(&mut self.read_failures.servers),
            _ => None,
        };
        if let Some(read_failures) = read_failures.filter(|read_failures| read_failures.is_none()) {
            *read_failures = unreadable;
        }
        // The variable takes precedence over every file, also over a misspelt key.
        if variable == SANDBOX_SERVERS && matches!(counting.source, Source::Variable(_)) {
            self.read_failures.servers = None;
        }
        let shown = counting.text.as_deref().map(|text| row.typed(&values::without_secrets(text)));
        self.counting.push(Setting { name: row.name().to_owned(), value: shown, source: counting.source });
        counting.value
    }

    /// The value that is in effect: the operator's, or the default.
    #[expect(clippy::expect_used, reason = "tests read every default")]
    pub(crate) fn required<T>(&mut self, variable: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        self.optional(variable, parse).expect("the table has a sound default: tested in `load`")
    }

    /// The source of a setting that was read before.
    pub(crate) fn source(&self, variable: &str) -> Source {
        let row = self.definitions.iter().find(|row| row.variable == variable);
        let counting = self.counting.iter().find(|setting| row.is_some_and(|row| row.name() == setting.name));
        counting.map_or(Source::Default, |setting| setting.source.clone())
    }

    /// Whether the value of a setting that was read before comes from a project that the user does not trust.
    pub(crate) fn is_of_untrusted_project(&self, variable: &str) -> bool {
        let Source::File { path, .. } = self.source(variable) else { return false };
        self.files.iter().any(|file| file.path == path && !is_trusted(file.owner))
    }

    /// Shows a setting with the value and source of another one, which bounds it.
    pub(crate) fn bounded_by(&mut self, variable: &str, other: &str) {
        let row_of = |variable: &str| self.definitions.iter().find(|row| row.variable == variable);
        let name_of = |variable: &str| row_of(variable).map(|row| row.name().to_owned());
        let of = |name: Option<String>| {
            self.counting.iter().position(|setting| Some(&setting.name) == name.as_ref())
        };
        if let (Some(bounded), Some(other)) = (of(name_of(variable)), of(name_of(other))) {
            let Setting { value, source, .. } = self.counting[other].clone();
            let setting = &mut self.counting[bounded];
            (setting.value, setting.source) = (value, source);
        }
    }

    /// Reports another problem.
    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The settings that were read, in the documented order; the parts that could not be read; and the files.
    pub(crate) fn finish(self) -> (Vec<Setting>, ReadFailures, Vec<TomlFile>) {
        let place = |setting: &Setting| self.definitions.iter().position(|row| row.name() == setting.name);
        let mut counting = self.counting;
        counting.sort_by_key(place);
        (counting, self.read_failures, self.files)
    }

    /// Reports that a value is not used, and which one is in effect instead.
    fn refused<T>(&mut self, row: &Definition, problem: Problem, counting: &EffectiveValue<T>) -> Problem {
        let default = row.default.as_deref().unwrap_or("none");
        let instead = match &counting.source {
            Source::File { path, .. } => format!("what {} says counts", path.display()),
            Source::Variable(_) | Source::Default => format!("the default is {default}"),
        };
        let instead = match row.name() {
            "policy.profile" => "no call of a tool passes until that is right".to_owned(),
            "servers.sandbox" => {
                "no server without a `sandbox` of its own is started until that is right".to_owned()
            }
            _ => instead,
        };
        let mut problem = problem.hint(format!("allowed: {}; {instead}", row.allowed));
        if matches!(problem.origin, Origin::File(_)) {
            problem = problem.key(row.name());
        }
        self.problems.push(problem.clone());
        problem
    }

    /// The text of a file's value as far as it is allowed, or the reason for which it is not.
    fn allowed<T>(
        &self,
        row: &Definition,
        file: &TomlFile,
        written: &WrittenValue,
        counting: &EffectiveValue<T>,
    ) -> Result<String, Box<Problem>> {
        let trust = match file.owner {
            FileOwner::Project(Trust::Trusted) if row.of_project == ProjectPermission::Never => {
                Trust::Trusted
            }
            FileOwner::Project(trust @ (Trust::Unknown | Trust::Changed)) => trust,
            FileOwner::User | FileOwner::Project(Trust::Trusted) => return Ok(written.text.clone()),
        };
        let before = counting.text.as_deref();
        let refusal = match row.of_project {
            ProjectPermission::Anything => return Ok(written.text.clone()),
            ProjectPermission::Off if values::switch(&written.text) == Ok(false) => {
                return Ok(written.text.clone());
            }
            ProjectPermission::Lower
                if magnitude(row.form, Some(&written.text)) <= magnitude(row.form, before) =>
            {
                return Ok(written.text.clone());
            }
            ProjectPermission::Fewer => {
                let known = before.map(values::list);
                let kept = values::list(&written.text);
                let is_kept = |name: &String| known.as_ref().is_none_or(|known| known.contains(name));
                return Ok(kept.into_iter().filter(is_kept).collect::<Vec<_>>().join(","));
            }
            ProjectPermission::Nothing | ProjectPermission::Never => "is not taken from a project".to_owned(),
            ProjectPermission::Off => "is not switched on by a project".to_owned(),
            ProjectPermission::Lower => {
                let before = text::inert_excerpt(before.unwrap_or("nothing"), 60);
                format!("is more than {before}, which counts without it, and is not taken from a project")
            }
        };
        let folder = project_folder(&file.path).display();
        let hint = match row.of_project {
            ProjectPermission::Never => {
                "only the user's own config.toml and the environment set it".to_owned()
            }
            _ => format!("read the file, then run `belljar config trust` in {folder}"),
        };
        let problem = Problem::of_file(&file.path, format!("{refusal} {}", trust.because()))
            .severity(Severity::Warning)
            .at(written.position)
            .key(row.name())
            .hint(hint);
        Err(Box::new(problem))
    }
}

/// Variables that look like settings but are not: misspelt names, or names of another version. With each comes the
/// variable that was most likely meant.
fn unknown_variables(
    environment: &Environment,
    definitions: &[Definition],
) -> Vec<(Problem, Option<String>)> {
    let known = || definitions.iter().map(|row| row.variable.as_str());
    let names = environment.variables.keys().filter_map(|name| name.to_str());
    let unknown = names.filter(|name| {
        let is_ours = name.to_ascii_uppercase().starts_with(VARIABLE_PREFIX);
        is_ours && environment.variable(name).is_some() && !known().any(|known| known == *name)
    });
    unknown
        .map(|name| {
            let shown = text::bounded(name, 100).into_owned();
            let warning =
                |message| Problem::new(Origin::Variable(shown), message).severity(Severity::Warning);
            if let Some((.., message)) = REMOVED.iter().find(|(variable, ..)| **variable == *name) {
                return (warning(*message).hint("remove it"), None);
            }
            // Their common prefix would make any two names similar, so only the rest is compared.
            let rest = &name[VARIABLE_PREFIX.len()..];
            // The key's name instead of the variable's, or its last part for what decides on calls.
            let is_key = |row: &&Definition| {
                row.name().replace('.', "_").eq_ignore_ascii_case(rest)
                    || row.name() == "policy.profile" && rest.eq_ignore_ascii_case("profile")
            };
            let by_key = definitions.iter().find(is_key).map(|row| row.variable.clone());
            let rests = known().filter_map(|known| known.strip_prefix(VARIABLE_PREFIX));
            let by_name = || suggest::nearest(rest, rests).map(|rest| format!("{VARIABLE_PREFIX}{rest}"));
            let near = by_key.or_else(by_name);
            let hint = near.as_ref().map(|near| format!("did you mean {near}?"));
            let problem = warning("is no variable that belljar reads")
                .hint(hint.unwrap_or_else(|| "`belljar config` shows what can be set".to_owned()));
            (problem, near)
        })
        .collect()
}

fn is_trusted(owner: FileOwner) -> bool {
    matches!(owner, FileOwner::User | FileOwner::Project(Trust::Trusted))
}

/// The size of a limit as a number; a limit that is not set is infinite.
fn magnitude(form: ValueForm, text: Option<&str>) -> f64 {
    let Some(text) = text else { return f64::INFINITY };
    let read = match form {
        ValueForm::Size => values::size_bytes(text).ok().map(|bytes| bytes as f64),
        ValueForm::Count => values::count(text, u64::MAX).ok().map(|count| count as f64),
        _ => text.parse().ok(),
    };
    read.unwrap_or(f64::INFINITY)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
