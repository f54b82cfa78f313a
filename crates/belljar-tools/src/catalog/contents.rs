//! The catalog: every configured server with its tools, or the reason why it has none, as a value that is cheap to
//! copy.
//!
//! It asks no server and has no clock: new knowledge makes a new catalog, which shares unchanged parts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::ServerScope;
use belljar_base::text;

use super::alias::server_aliases;
use super::index::Index;
use super::matching::near_names::near;
use super::matching::postings::Postings;
use super::server_tools::{NearMisses, Origin, ServerTools, Tools, named};
use super::tool::{Tool, shown};

/// The module from which code imports skills.
const SKILLS: &str = "skills";

/// All servers, sorted by name. In the catalog of a search, skills come after them.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    servers: Arc<[Arc<ServerTools>]>,
    /// The search index, made by the first search and shared by copies.
    index: Arc<OnceLock<Index>>,
}

impl Catalog {
    /// A catalog of servers with only their configuration: name, description and working folder.
    pub fn new(
        servers: impl IntoIterator<Item = (ServerName, Option<String>, Option<PathBuf>)>,
        limits: &Limits,
    ) -> Self {
        Self::beside(servers, &[], limits)
    }

    /// The same with servers that are configured and not used here. They keep their Python names, so that nobody who chooses
    /// servers gives another one the name that a rule has.
    pub fn beside(
        servers: impl IntoIterator<Item = (ServerName, Option<String>, Option<PathBuf>)>,
        others: &[ServerName],
        limits: &Limits,
    ) -> Self {
        let by_name: BTreeMap<ServerName, (Option<String>, Option<PathBuf>)> =
            servers.into_iter().map(|(name, description, cwd)| (name, (description, cwd))).collect();
        let names = by_name.keys().chain(others).map(ServerName::as_str);
        let aliases = server_aliases(names, limits.alias_bytes_max);
        let servers = by_name
            .iter()
            .map(|(name, (description, cwd))| {
                Arc::new(ServerTools {
                    name: name.clone(),
                    alias: aliases[name.as_str()].clone(),
                    description: description
                        .as_deref()
                        .map(|text| shown(text, limits))
                        .filter(|text| !text.is_empty()),
                    cwd: cwd.clone(),
                    tools: Tools::Unasked,
                    origin: Origin::Server,
                    words: OnceLock::new(),
                })
            })
            .collect();
        Self::of(servers)
    }

    /// The catalog with new knowledge about one server: its tools, or the reason why they are unknown. An unknown
    /// server changes nothing. A failure replaces known tools.
    #[must_use]
    pub fn with_tools(&self, server: &ServerName, tools: Result<Vec<Tool>, String>, limits: &Limits) -> Self {
        let tools = match tools {
            Ok(tools) => Tools::listed(tools, limits),
            Err(reason) => Tools::failed(&reason, limits),
        };
        self.with(BTreeMap::from([(server.clone(), tools)]))
    }

    /// The catalog with new knowledge about several servers, as [`Self::with_tools`] does for one.
    #[must_use]
    pub fn with(&self, mut news: BTreeMap<ServerName, Tools>) -> Self {
        let servers = self.servers.iter().map(|known| {
            let Some(tools) = news.remove(&known.name) else { return Arc::clone(known) };
            Arc::new(ServerTools {
                name: known.name.clone(),
                alias: known.alias.clone(),
                description: known.description.clone(),
                cwd: known.cwd.clone(),
                tools,
                origin: known.origin,
                words: OnceLock::new(),
            })
        });
        Self::of(servers.collect())
    }

    /// The catalog with skills after all servers, each with its signature, for a search.
    #[must_use]
    pub fn with_skills(&self, skills: Vec<(Tool, String)>, limits: &Limits) -> Self {
        let Ok(name) = ServerName::new(SKILLS) else { return self.clone() };
        let signatures: BTreeMap<String, String> = skills
            .iter()
            .map(|(tool, signature)| (tool.name.as_str().to_owned(), signature.clone()))
            .collect();
        let mut tools = named(skills.into_iter().map(|(tool, _)| tool).collect(), limits);
        for tool in &mut tools {
            if let Some(signature) = signatures.get(tool.name.as_str()) {
                tool.signature.clone_from(signature);
            }
        }
        let skills = Arc::new(ServerTools {
            name,
            alias: SKILLS.to_owned(),
            description: None,
            cwd: None,
            tools: Tools::Listed(tools),
            origin: Origin::Skills,
            words: OnceLock::new(),
        });
        Self::of(self.servers.iter().cloned().chain([skills]).collect())
    }

    /// Whether both are the same catalog, so that nothing was learned in between.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.servers, &other.servers)
    }

    /// The catalog with only the servers of a run. They keep their aliases.
    #[must_use]
    pub fn scoped(&self, scope: &ServerScope) -> Self {
        match scope {
            ServerScope::All => self.clone(),
            ServerScope::Only(names) => {
                Self::of(self.servers.iter().filter(|server| names.contains(&server.name)).cloned().collect())
            }
        }
    }

    /// The servers, sorted by name, and in the catalog of a search the skills after them.
    #[must_use]
    pub fn servers(&self) -> &[Arc<ServerTools>] {
        &self.servers
    }

    /// A server by its raw name, or else by its alias.
    #[must_use]
    pub fn server(&self, name_or_alias: &str) -> Option<&Arc<ServerTools>> {
        let named = self.servers.iter().find(|server| server.name.as_str() == name_or_alias);
        named.or_else(|| {
            let composed = text::composed(name_or_alias);
            let is_it = |server: &&Arc<ServerTools>| {
                server.alias == name_or_alias || text::composed(server.name.as_str()) == composed
            };
            self.servers.iter().find(is_it)
        })
    }

    /// Names of servers that are similar to an unknown name or alias, the most similar first.
    #[must_use]
    pub fn near_servers(&self, name: &str) -> NearMisses {
        NearMisses(near(name, self.servers.iter().map(|server| server.name.as_str())))
    }

    /// Makes the search index, which the first search does otherwise: it takes half a second for ten thousand tools.
    pub fn prepare_search(&self) {
        self.index();
    }

    /// The memory of the search index, in bytes; 0 before the first search.
    #[must_use]
    pub fn search_bytes(&self) -> usize {
        let of_servers = self.servers.iter().filter_map(|server| server.words.get()).map(Postings::bytes);
        of_servers.sum::<usize>() + self.index.get().map_or(0, Index::bytes)
    }

    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(&self.servers))
    }

    fn of(servers: Arc<[Arc<ServerTools>]>) -> Self {
        Self { servers, index: Arc::default() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use belljar_base::run::ToolFault;
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn name(text: &str) -> ServerName {
        ServerName::new(text).unwrap()
    }

    pub(crate) fn catalog(servers: &[(&str, Value)]) -> Catalog {
        let limits = Limits::default();
        let start = Catalog::new(servers.iter().map(|(server, _)| (name(server), None, None)), &limits);
        servers.iter().fold(start, |catalog, (server, tools)| {
            let tools = tools
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| Tool::from_json(tool, &limits).unwrap())
                .collect();
            catalog.with_tools(&name(server), Ok(tools), &limits)
        })
    }

    #[test]
    fn a_tool_is_found_by_raw_name_before_alias_and_case() {
        let catalog = catalog(&[(
            "s",
            json!([
                {"name": "a-b"}, {"name": "getUser"}, {"name": "getuser"}, {"name": "ListAll"}, {"name": "class"}, {"name": "class"}
            ]),
        )]);
        let server = catalog.server("s").unwrap();
        let found = |asked: &str| server.resolve(asked).map(|tool| tool.name.as_str().to_owned());
        assert_eq!(found("a-b").as_deref(), Ok("a-b"));
        assert_eq!(found("a_b").as_deref(), Ok("a-b"));
        assert_eq!(found("getuser").as_deref(), Ok("getuser"));
        assert_eq!(found("listall").as_deref(), Ok("ListAll"));
        assert_eq!(found("class_").as_deref(), Ok("class"));
        let fault = ToolFault::from(found("GETUSER").unwrap_err());
        assert_eq!(
            (fault.message.as_str(), fault.hint.as_str()),
            ("Tool 'GETUSER' not found for server s", "did you mean 'getUser' or 'getuser'?")
        );
        assert_eq!(found("zzz").unwrap_err().near, NearMisses(vec![]));
        assert_eq!(server.listed().len(), 5);
    }

    #[test]
    fn a_name_as_long_as_a_frame_is_compared_with_none_and_shown_in_part() {
        let catalog = catalog(&[("s", json!([{"name": "getUser"}]))]);
        let asked = "getUser\n".repeat(2 << 20);
        let unknown = catalog.server("s").unwrap().resolve(&asked).unwrap_err();
        assert_eq!(unknown.near, NearMisses(vec![]));
        assert!(unknown.to_string().starts_with("Tool 'getUser getUser getUser "), "{unknown}");
        assert!(unknown.to_string().chars().count() < 150, "{unknown}");
        assert_eq!(catalog.near_servers(&asked), NearMisses(vec![]));
    }

    #[test]
    fn new_knowledge_of_one_server_shares_the_rest() {
        let limits = Limits::default();
        let before = catalog(&[("a-b", json!([{"name": "t"}])), ("c", json!([]))]);
        let after = before.with_tools(&name("c"), Err("exited 1: \u{1b}[31mno".into()), &limits);
        assert!(Arc::ptr_eq(&before.servers()[0], &after.servers()[0]));
        assert_eq!(after.servers()[1].tools, Tools::Failed { reason: "exited 1: \\x1b[31mno".into() });
        let scoped = after.scoped(&ServerScope::Only(vec![name("a-b")]));
        assert_eq!(scoped.servers().len(), 1);
        assert_eq!(scoped.server("a_b").unwrap().listed()[0].signature, "t()");
    }
}
