//! The helpers for skills: save one, load some, list, show, remove.
//!
//! Code can replace a skill, unless the user has changed its file and has not accepted the change. A removed or
//! replaced version stays in the history.

use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::broker::call::Call;
use crate::broker::parts::Broker;
use crate::skills::{NewSkill, SaveResult, Skill, SkillError, SkillFile, SkillName};

/// The largest number of skills that one call loads.
const LOADED_MAX: usize = 100;
/// Longest reason why a file cannot be used, in characters.
const WHY_CHARS_MAX: usize = 300;

/// The argument of helpers that concern one skill.
#[derive(Deserialize)]
struct SkillReference {
    name: String,
}

impl Broker {
    pub(super) fn save_tool(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            name: String,
            source: String,
            description: Option<String>,
            #[serde(default)]
            tags: Vec<String>,
            #[serde(default)]
            servers: Vec<String>,
            test: Option<String>,
        }
        let Arguments { name, source: body, description, tags, servers, test } = self.read(call)?;
        let name = SkillName::new(&name)?;
        let test = test.map(|test| SkillName::new(&test)).transpose()?.map(|test| test.to_string());
        let new = NewSkill { name: name.clone(), body, description, tags, servers, test };
        let SaveResult { version, is_new } = self.shared.skills.save(new)?;
        Ok(json!(match is_new {
            true => format!(
                "Tool '{name}' saved as version {version}; later sessions can call it by this name, \
                 or import it: from skills import {name}"
            ),
            false => format!("Tool '{name}' is kept like this already, as version {version}"),
        }))
    }

    /// The sources of the requested skills, and the reasons why some cannot be loaded. Names without a skill are left
    /// out.
    pub(crate) fn load_skills(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            names: Vec<String>,
        }
        let Arguments { names } = self.read(call)?;
        let names = names.iter().take(LOADED_MAX).filter_map(|name| SkillName::new(name).ok());
        // An error about an unknown name would compare it with all others.
        let loaded = names.filter(|name| self.shared.skills.has(name)).map(|name| {
            match self.shared.skills.ready(&name) {
                Ok(skill) => json!({"name": name, "version": skill.header.version, "source": skill.body}),
                Err(refused) => json!({"name": name, "problem": said(&refused)}),
            }
        });
        Ok(loaded.collect())
    }

    pub(super) fn list_skills(&self) -> Result<Value, ToolFault> {
        let row = |(name, found): &(SkillName, std::sync::Arc<SkillFile>)| match &**found {
            SkillFile::Ready(skill) => {
                let Skill { header, definition, .. } = &**skill;
                json!({
                    "name": name, "signature": definition.signature, "description": header.description,
                    "tags": header.tags, "version": header.version, "saved": header.saved,
                    "servers": header.servers, "test": header.test,
                })
            }
            SkillFile::Changed { .. } | SkillFile::Unusable { .. } => {
                let problem = self.shared.skills.ready(name).err().map(|refused| said(&refused));
                json!({"name": name, "problem": problem})
            }
        };
        Ok(self.shared.skills.all()?.iter().map(row).collect())
    }

    pub(super) fn show_skill(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        let SkillReference { name } = self.read(call)?;
        Ok(json!(self.shared.skills.ready(&SkillName::new(&name)?)?.text()))
    }

    pub(super) fn skill_history(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        let SkillReference { name } = self.read(call)?;
        let name = SkillName::new(&name)?;
        let current = self.shared.skills.ready(&name).ok().map(|skill| skill.header.version);
        let row = |Skill { header, .. }: &Skill| {
            json!({
                "version": header.version, "saved": header.saved, "description": header.description,
                "is_current": Some(header.version) == current,
            })
        };
        Ok(self.shared.skills.history(&name)?.iter().map(row).collect())
    }

    pub(super) fn remove_skill(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        let SkillReference { name } = self.read(call)?;
        let name = SkillName::new(&name)?;
        let version = self.shared.skills.remove(&name)?;
        Ok(json!(format!(
            "'{name}' removed; the user can have it again: belljar skill restore {name} --version {version}"
        )))
    }
}

fn said(refused: &SkillError) -> String {
    text::inert_excerpt(&refused.to_string(), WHY_CHARS_MAX)
}

impl From<SkillError> for ToolFault {
    fn from(error: SkillError) -> Self {
        let code = match error {
            SkillError::Folder(_) => FaultCode::Internal,
            SkillError::TooLarge { .. } => FaultCode::TooLarge,
            SkillError::Unknown { .. } | SkillError::NoVersion { .. } => FaultCode::UnknownTool,
            SkillError::Changed { .. }
            | SkillError::ChangedAgain { .. }
            | SkillError::Unchanged { .. }
            | SkillError::Unusable { .. } => FaultCode::Denied,
            SkillError::Name { .. } | SkillError::TooMany { .. } | SkillError::NoFunction { .. } => {
                FaultCode::InvalidArguments
            }
        };
        // Code may read the text of an I/O error, since it contains no path of the host.
        Self::new(code, text::inert_line(&error.to_string()))
    }
}
