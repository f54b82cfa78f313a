//! The definitions of all settings: names, form, default and bounds, from the embedded `config/defaults.json`, their
//! only source. Each line there defines a setting for the environment, config.toml and the schema for editors.
//!
//! It does not read what the operator wrote; `resolve` does.

use serde_json::{Map, Value, json};

use super::values;

const DEFAULTS: &str = include_str!("../../../config/defaults.json");

/// The settings of earlier versions: the variable, the key, and what applies instead. Each is a warning where it is set.
pub(super) const REMOVED: [(&str, &str, &str); 1] =
    [("MCP_BRIDGE_SEMANTIC", "search.semantic", "is no longer a setting: tools are searched by words only")];

/// One documented setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    /// Its environment variable.
    pub(crate) variable: String,
    /// Its place in a config.toml, such as `run.timeout`; `None`: it has none.
    pub(crate) key: Option<String>,
    pub(crate) form: ValueForm,
    /// The value if nobody sets one; `None`: no value.
    pub(crate) default: Option<String>,
    /// The allowed values, in words for people.
    pub(crate) allowed: String,
    /// The allowed values, if they are a few words.
    pub(crate) words: Vec<String>,
    /// The smallest and the largest allowed number.
    pub(crate) bounds: Option<(Value, Value)>,
    pub(super) of_project: ProjectPermission,
    pub(crate) counts: EffectTime,
}

/// The time from which an edited value is in effect while the bridge runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EffectTime {
    NextRun,
    NextSandbox,
    /// The value is in effect for servers that are started later.
    NextServer,
    Restart,
}

/// The form of a value in TOML and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueForm {
    Text,
    Integer,
    Number,
    Switch,
    /// A whole number, or a switch for 1 and 0.
    Count,
    /// A size in bytes: a number, or a text with a unit.
    Size,
    /// A list of texts; a variable separates them by commas.
    List,
    /// A text, or a list of texts.
    TextOrList,
    /// A table; a variable has it as JSON.
    Table,
}

/// The changes that a project's own file may make without the trust of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectPermission {
    Nothing,
    /// The file may not set it, even if the user trusts the file.
    Never,
    Anything,
    /// The file may set a smaller number than the one that is in effect without it.
    Lower,
    /// The file may switch it off.
    Off,
    /// The file may choose some of the items that are in effect without it.
    Fewer,
}

impl Definition {
    /// The section of its key in a config.toml.
    pub(crate) fn section(&self) -> Option<&str> {
        self.key.as_deref().and_then(|key| key.split_once('.')).map(|(section, _)| section)
    }

    /// Its name for people: the key, else the variable.
    pub(crate) fn name(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.variable)
    }

    /// A text as a typed JSON value: a number, a boolean, an array or a string.
    pub(crate) fn typed(&self, text: &str) -> Value {
        let number = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
        match self.form {
            ValueForm::Integer | ValueForm::Number => number(text).unwrap_or_else(|| json!(text)),
            ValueForm::Switch => values::switch(text).map_or_else(|_| json!(text), Value::Bool),
            ValueForm::Count => values::count(text, u64::MAX).map_or_else(|_| json!(text), Value::from),
            ValueForm::List => json!(values::list(text)),
            ValueForm::Table => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            ValueForm::TextOrList if text.contains(',') => json!(values::list(text)),
            ValueForm::Text | ValueForm::Size | ValueForm::TextOrList => json!(text),
        }
    }
}

/// Every documented setting, in the file's order.
pub(crate) fn definitions() -> Vec<Definition> {
    #[expect(clippy::expect_used, reason = "tests read the same text")]
    let rows: Map<String, Value> =
        serde_json::from_str(DEFAULTS).expect("the embedded defaults are JSON: tested below");
    rows.into_iter().map(|(variable, row)| definition(variable, &row)).collect()
}

fn definition(variable: String, row: &Value) -> Definition {
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    let words = row["values"].as_array().into_iter().flatten();
    Definition {
        variable,
        key: text("key"),
        form: match row["type"].as_str() {
            Some("integer") => ValueForm::Integer,
            Some("number") => ValueForm::Number,
            Some("boolean") => ValueForm::Switch,
            Some("count") => ValueForm::Count,
            Some("size") => ValueForm::Size,
            Some("list") => ValueForm::List,
            Some("text or list") => ValueForm::TextOrList,
            Some("table") => ValueForm::Table,
            _ => ValueForm::Text,
        },
        default: text("default"),
        allowed: text("allowed").unwrap_or_default(),
        words: words.filter_map(Value::as_str).map(str::to_owned).collect(),
        bounds: row.get("minimum").cloned().zip(row.get("maximum").cloned()),
        of_project: match row["project"].as_str() {
            Some("never trusted") => ProjectPermission::Never,
            Some("any") => ProjectPermission::Anything,
            Some("lower") => ProjectPermission::Lower,
            Some("off") => ProjectPermission::Off,
            Some("fewer") => ProjectPermission::Fewer,
            _ => ProjectPermission::Nothing,
        },
        counts: match row["counts"].as_str() {
            Some("run") => EffectTime::NextRun,
            Some("sandbox") => EffectTime::NextSandbox,
            Some("server") => EffectTime::NextServer,
            _ => EffectTime::Restart,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_setting_has_its_names_and_its_default() {
        let shown: Vec<String> = definitions()
            .iter()
            .map(|row| {
                let default = row.default.as_deref().unwrap_or("-");
                format!("{} {}={default}", row.variable, row.key.as_deref().unwrap_or("-"))
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
        assert!(definitions().iter().all(|row| !row.allowed.is_empty()));
    }

    #[test]
    fn every_row_says_its_form_what_projects_may_do_and_from_when_on_it_counts() {
        let rows: Map<String, Value> = serde_json::from_str(DEFAULTS).unwrap();
        for (variable, row) in rows {
            let form = row["type"].as_str().unwrap();
            let known =
                ["string", "integer", "number", "boolean", "count", "size", "list", "text or list", "table"]
                    .contains(&form);
            assert!(known, "{variable}: {form}");
            let project = row["project"].as_str().unwrap();
            assert!(
                ["never", "never trusted", "any", "lower", "off", "fewer"].contains(&project),
                "{variable}: {project}"
            );
            let counts = row["counts"].as_str().unwrap();
            assert!(["run", "sandbox", "server", "restart"].contains(&counts), "{variable}: {counts}");
        }
    }

    #[test]
    fn what_decides_where_code_runs_or_what_is_started_is_not_for_projects() {
        let is_theirs = |row: &Definition| {
            !matches!(row.of_project, ProjectPermission::Nothing | ProjectPermission::Never)
        };
        let of_projects = definitions().into_iter().filter(is_theirs);
        let keys: Vec<String> = of_projects.filter_map(|row| row.key).collect();
        assert_eq!(
            keys,
            [
                "run.timeout",
                "run.max_timeout",
                "jobs.max",
                "jobs.timeout",
                "run.servers",
                "sandbox.memory",
                "sandbox.pids",
                "sandbox.cpus",
                "sandbox.prewarm",
                "sandbox.checkpoints",
                "output.mode",
                "output.structured",
                "output.images_as_files",
                "output.learn_shapes",
                "servers.sampling",
                "model.via",
                "model.requests_per_run",
                "model.requests_per_session",
                "model.tokens_per_run",
                "model.tokens_per_session",
                "model.timeout",
                "model.concurrency",
            ]
        );
    }
}
