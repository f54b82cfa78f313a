//! `belljar skill`: lists, shows, accepts, reverts and runs the skills that code has saved.

use std::io::Read;
use std::process::ExitCode;

use belljar_base::text;
use serde_json::json;

use super::common::printing::{err, out, row, to_stdout};
use super::run;
use crate::cli::{self, RunSkill, SkillCommand};
use crate::clients::diff;
use crate::config::{Config, ConfigFiles};
use crate::skills::{PendingSkill, Skill, SkillArguments, SkillError, SkillFile, SkillName, Skills};

const USAGE: u8 = 2;
/// The number of unchanged lines around a difference that are shown.
const AROUND: usize = 3;
/// Longest arguments from stdin, in bytes.
const ARGUMENTS_BYTES_MAX: u64 = 8 << 20;

/// Executes the subcommand, or prints why it failed.
pub(super) async fn skill(config: Config, config_files: ConfigFiles, arguments: cli::Skill) -> ExitCode {
    let skills = Skills::new(config.owner.skills(), &config.limits);
    let done = match arguments.command {
        SkillCommand::Ls { json } => list(&skills, json),
        SkillCommand::Show { name, version } => show(&skills, &name, version),
        SkillCommand::History { name, json } => history(&skills, &name, json),
        SkillCommand::Rm { name, purge } => remove(&skills, &name, purge),
        SkillCommand::Restore { name, version } => restore(&skills, &name, version),
        SkillCommand::Trust { name, all } if all || name.is_none() => trust_all(&skills),
        SkillCommand::Trust { name, .. } => trust(&skills, &name.unwrap_or_default()),
        SkillCommand::Run(arguments) => match code(&skills, arguments) {
            Ok(asked) => return run::run(config, config_files, asked).await,
            Err(message) => {
                err!("belljar: {}", text::inert(&message));
                return ExitCode::from(USAGE);
            }
        },
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            err!("belljar: {}", text::inert_line(&error.to_string()));
            match error {
                SkillError::Name { .. } | SkillError::Unknown { .. } | SkillError::NoVersion { .. } => {
                    ExitCode::from(USAGE)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Lists the skills. The exit code is 1 if a skill has to be accepted or cannot be used.
fn list(skills: &Skills, as_json: bool) -> Result<ExitCode, SkillError> {
    let all = skills.all()?;
    let is_sound = all.iter().all(|(_, found)| matches!(**found, SkillFile::Ready(_)));
    if as_json {
        let rows = all.iter().map(|(name, found)| match &**found {
            SkillFile::Ready(skill) => {
                let Skill { header, definition, .. } = &**skill;
                json!({
                    "name": name, "state": "ready", "signature": definition.signature,
                    "description": header.description, "tags": header.tags, "version": header.version,
                    "saved": header.saved, "servers": header.servers, "test": header.test,
                })
            }
            SkillFile::Changed { why } => json!({"name": name, "state": "changed", "why": why}),
            SkillFile::Unusable { why } => json!({"name": name, "state": "unusable", "why": why}),
        });
        out!("{:#}", rows.collect::<serde_json::Value>());
    } else if all.is_empty() {
        err!("belljar: no skill is kept yet; code keeps one with save_tool(function)");
    } else {
        for (name, found) in &all {
            match &**found {
                SkillFile::Ready(skill) => {
                    let Skill { header, definition, .. } = &**skill;
                    let about = if header.description.is_empty() { "" } else { "  # " };
                    row!("{}{about}{}; version {}", definition.signature, header.description, header.version);
                }
                SkillFile::Changed { why } => {
                    row!("{name}  NOT LOADED: {}; belljar skill trust {name}", text::inert_line(why));
                }
                SkillFile::Unusable { why } => row!("{name}  CANNOT BE USED: it {}", text::inert_line(why)),
            }
        }
    }
    Ok(ExitCode::from(u8::from(!is_sound)))
}

fn show(skills: &Skills, name: &str, version: Option<u64>) -> Result<ExitCode, SkillError> {
    let name = SkillName::new(name)?;
    let text = match (version, skills.find(&name).as_deref()) {
        (Some(version), _) => skills.version(&name, version)?.text(),
        (None, Some(SkillFile::Changed { .. })) => skills.waiting(&name)?.text,
        (None, _) => skills.ready(&name)?.text(),
    };
    to_stdout(&text::inert(&text));
    Ok(ExitCode::SUCCESS)
}

fn history(skills: &Skills, name: &str, as_json: bool) -> Result<ExitCode, SkillError> {
    let name = SkillName::new(name)?;
    let current = skills.ready(&name).ok().map(|skill| skill.header.version);
    for Skill { header, .. } in skills.history(&name)? {
        let is_current = Some(header.version) == current;
        if as_json {
            let (version, saved, description) = (header.version, &header.saved, &header.description);
            let row = json!({"version": version, "current": is_current, "saved": saved, "description": description});
            out!("{row}");
            continue;
        }
        let mark = if is_current { " (current)" } else { "" };
        let said =
            if header.description.is_empty() { String::new() } else { format!(": {}", header.description) };
        row!("version {}{mark}, {}{said}", header.version, header.saved);
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(skills: &Skills, name: &str, purge: bool) -> Result<ExitCode, SkillError> {
    let name = SkillName::new(name)?;
    if purge {
        skills.purge(&name)?;
        out!("removed, with all its versions: {name}");
    } else {
        skills.remove_any(&name)?;
        out!("removed: {name}; to have it again: belljar skill restore {name}");
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(skills: &Skills, name: &str, version: Option<u64>) -> Result<ExitCode, SkillError> {
    let name = SkillName::new(name)?;
    let restored = skills.restore(&name, version)?;
    out!("{name} counts again as version {}", restored.version);
    Ok(ExitCode::SUCCESS)
}

fn trust(skills: &Skills, name: &str) -> Result<ExitCode, SkillError> {
    accept(skills, &SkillName::new(name)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Accepts all skills. A skill that cannot be accepted does not stop the others.
fn trust_all(skills: &Skills) -> Result<ExitCode, SkillError> {
    let mut code = ExitCode::SUCCESS;
    for (name, found) in skills.all()? {
        if !matches!(*found, SkillFile::Ready(_))
            && let Err(error) = accept(skills, &name)
        {
            err!("belljar: {}", text::inert_line(&error.to_string()));
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Shows a skill, and accepts exactly what was shown.
fn accept(skills: &Skills, name: &SkillName) -> Result<(), SkillError> {
    let waiting = skills.waiting(name)?;
    let PendingSkill { why, text, before } = &waiting;
    out!("{name}: {}", text::inert_line(why));
    match before {
        Some(before) => to_stdout(&diff(before, waiting.body(), AROUND)),
        None => to_stdout(&format!("{}\n", text::inert(text).trim_end())),
    };
    let version = skills.accept(name, &waiting)?;
    out!("accepted as version {version}: {name}");
    Ok(())
}

/// The code that calls the skill. The error is a sentence for the user.
fn code(skills: &Skills, arguments: RunSkill) -> Result<cli::Run, String> {
    let RunSkill { name, args, servers, timeout, dry_run } = arguments;
    let name = SkillName::new(&name).map_err(|error| error.to_string())?;
    let skill = skills.ready(&name).map_err(|error| error.to_string())?;
    let args = if args == "-" { from_stdin()? } else { args };
    let given = SkillArguments::read(&args).map_err(|wrong| format!("--args: {wrong}"))?;
    skill.definition.takes(&given).map_err(|wrong| format!("--args: {wrong}"))?;
    // A JSON string is also a valid Python string: JSON escapes the line ends that Python forbids in a string.
    let quoted = serde_json::Value::from(args).to_string();
    let code = format!("from belljar_sandbox.skills.call import call\nawait call(\"{name}\", {quoted})");
    Ok(cli::Run {
        code: Some(code),
        file: None,
        files: vec![],
        session: None,
        servers,
        timeout,
        dry_run,
        trace_denied: false,
    })
}

fn from_stdin() -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin().take(ARGUMENTS_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| format!("--args: cannot read stdin: {error}"))?;
    if text.len() as u64 > ARGUMENTS_BYTES_MAX {
        return Err(format!("--args: stdin has more than {ARGUMENTS_BYTES_MAX} bytes"));
    }
    Ok(text)
}
