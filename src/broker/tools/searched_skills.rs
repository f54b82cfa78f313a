//! Merges skills into the catalog of tools, so that one search ranks both.
//!
//! It keeps the last merged catalog, so that the search index is built again only after a tool or a skill has changed.

use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_tools::catalog::{Catalog, Tool};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::skills::{Skill, SkillFile, SkillName};

/// The last merged catalog.
#[derive(Default)]
pub(crate) struct SearchedSkills(Mutex<Option<MergedCatalog>>);

/// The catalog of the tools together with the skills, and what it was merged from.
struct MergedCatalog {
    of: Catalog,
    skills: Vec<(SkillName, Arc<SkillFile>)>,
    merged: Catalog,
}

impl SearchedSkills {
    /// The catalog with all usable skills added.
    pub(crate) fn beside(
        &self,
        catalog: &Catalog,
        skills: Vec<(SkillName, Arc<SkillFile>)>,
        limits: &Limits,
    ) -> Catalog {
        if skills.is_empty() {
            return catalog.clone();
        }
        let mut last = self.0.lock();
        if let Some(last) = &*last
            && last.of.is_same(catalog)
            && is_same(&last.skills, &skills)
        {
            return last.merged.clone();
        }
        let tools = skills.iter().filter_map(|(_, found)| match &**found {
            SkillFile::Ready(skill) => as_tool(skill, limits),
            SkillFile::Changed { .. } | SkillFile::Unusable { .. } => None,
        });
        let merged = catalog.with_skills(tools.collect(), limits);
        *last = Some(MergedCatalog { of: catalog.clone(), skills, merged: merged.clone() });
        merged
    }
}

/// Whether both lists have the same skill files, none of which was read again in between.
fn is_same(before: &[(SkillName, Arc<SkillFile>)], now: &[(SkillName, Arc<SkillFile>)]) -> bool {
    let pairs = before.iter().zip(now);
    before.len() == now.len()
        && pairs.into_iter().all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1))
}

/// A skill in the form of a tool, with the signature from its source.
fn as_tool(skill: &Skill, limits: &Limits) -> Option<(Tool, String)> {
    let Skill { header, definition, .. } = skill;
    let parameters: Map<String, Value> =
        definition.parameters.iter().map(|parameter| (parameter.name.clone(), json!({}))).collect();
    let about = json!({
        "name": header.name, "title": header.tags.join(" "), "description": header.description,
        "inputSchema": {"type": "object", "properties": parameters},
    });
    Tool::from_json(&about, limits).ok().map(|tool| (tool, definition.signature.clone()))
}

#[cfg(test)]
mod tests {
    use belljar_tools::catalog::search;

    use super::*;
    use crate::skills::{NewSkill, Skills};

    #[test]
    fn what_has_not_changed_is_put_together_once_and_what_has_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        let skills = Skills::new(dir.path().join("tools"), &limits);
        let (searched, catalog) = (SearchedSkills::default(), Catalog::default());
        let merged = || searched.beside(&catalog, skills.all().unwrap(), &limits);
        assert!(merged().is_same(&catalog), "there is none");
        let save = |of: &str, doc: &str| {
            let (name, body) = (SkillName::new(of).unwrap(), format!("def {of}(x): '{doc}'\n"));
            let new = NewSkill { name, body, description: None, tags: vec![], servers: vec![], test: None };
            skills.save(new).unwrap();
        };
        save("one", "Turns a giraffe.");
        let first = merged();
        assert!(first.is_same(&merged()));
        let found = |query: &str| search(&merged(), query, 9, 0).1;
        assert_eq!((found("giraffe"), found("zebra")), (1, 0));
        save("one", "Turns a zebra.");
        assert_eq!((found("giraffe"), found("zebra")), (0, 1));
        std::fs::write(dir.path().join("tools/one.py"), "def one(x): 'Turns a zebra.'\n").unwrap();
        assert_eq!(found("zebra"), 0, "it was changed outside");
    }
}
