//! Skills beside the tools in one catalog, so that one search ranks both.
//!
//! It keeps the last such catalog: what is counted for a search is counted again only when a tool or a skill has changed.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, Tool};
use crate::limits::Limits;
use crate::skills::{Found, Skill, SkillName};

/// The last catalog that was put together.
#[derive(Default)]
pub(in crate::broker) struct SearchedSkills(Mutex<Option<Last>>);

struct Last {
    of: Catalog,
    skills: Vec<(SkillName, Arc<Found>)>,
    together: Catalog,
}

impl SearchedSkills {
    /// The catalog with the skills that can be used.
    pub(in crate::broker) fn beside(
        &self,
        catalog: &Catalog,
        skills: Vec<(SkillName, Arc<Found>)>,
        limits: &Limits,
    ) -> Catalog {
        if skills.is_empty() {
            return catalog.clone();
        }
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last
            && last.of.is_same(catalog)
            && is_same(&last.skills, &skills)
        {
            return last.together.clone();
        }
        let tools = skills.iter().filter_map(|(_, found)| match &**found {
            Found::Ready(skill) => as_tool(skill, limits),
            Found::Changed { .. } | Found::Unusable { .. } => None,
        });
        let together = catalog.with_skills(tools.collect(), limits);
        *last = Some(Last { of: catalog.clone(), skills, together: together.clone() });
        together
    }
}

/// What has not been read again is the same.
fn is_same(before: &[(SkillName, Arc<Found>)], now: &[(SkillName, Arc<Found>)]) -> bool {
    let pairs = before.iter().zip(now);
    before.len() == now.len()
        && pairs.into_iter().all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1))
}

/// A skill as search knows tools, with the signature that its source has.
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
    use super::*;
    use crate::catalog::search;
    use crate::skills::{NewSkill, Skills};

    #[test]
    fn what_has_not_changed_is_put_together_once_and_what_has_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits::default();
        let skills = Skills::new(dir.path().join("tools"), &limits);
        let (searched, catalog) = (SearchedSkills::default(), Catalog::default());
        let together = || searched.beside(&catalog, skills.all().unwrap(), &limits);
        assert!(together().is_same(&catalog), "there is none");
        let save = |of: &str, doc: &str| {
            let (name, body) = (SkillName::new(of).unwrap(), format!("def {of}(x): '{doc}'\n"));
            let new = NewSkill { name, body, description: None, tags: vec![], servers: vec![], test: None };
            skills.save(new).unwrap();
        };
        save("one", "Turns a giraffe.");
        let first = together();
        assert!(first.is_same(&together()));
        let found = |query: &str| search(&together(), query, 9, 0).1;
        assert_eq!((found("giraffe"), found("zebra")), (1, 0));
        save("one", "Turns a zebra.");
        assert_eq!((found("giraffe"), found("zebra")), (0, 1));
        std::fs::write(dir.path().join("tools/one.py"), "def one(x): 'Turns a zebra.'\n").unwrap();
        assert_eq!(found("zebra"), 0, "it was changed outside");
    }
}
