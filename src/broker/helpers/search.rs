//! `search_tool_docs`: the tools and skills that match, and the servers whose tools are unknown.
//!
//! It ranks nothing itself.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ServerScope, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{
    Catalog, Detail, Origin, Queries, SearchHit, Shapes, Tool, Tools, grouped, search,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::broker::arguments;
use crate::broker::call::Call;
use crate::broker::parts::Broker;

/// The number of hits if a search asks for no number.
const HITS: usize = 8;
/// The largest number of queries in one search.
const QUERIES_MAX: usize = 8;
/// The largest number of servers listed with the reason why they have no tools, and the longest reason in characters.
const UNAVAILABLE_MAX: usize = 50;
const REASON_CHARS_MAX: usize = 200;
/// The largest number of servers listed as still being asked.
const INDEXING_MAX: usize = 50;
/// The largest number of servers whose folders an answer names, the largest number of folders for each server, and the
/// longest folder in bytes.
const FOLDERS_SERVERS_MAX: usize = 8;
const FOLDERS_MAX: usize = 4;
const FOLDER_BYTES_MAX: usize = 300;
/// Words by which the name of a parameter shows that its value is a path.
const PATH_WORDS: [&str; 10] =
    ["cwd", "dir", "directory", "filepath", "folder", "path", "paths", "root", "roots", "workspace"];
/// The values by which hits can be grouped.
const GROUPS: [(&str, bool); 1] = [("server", true)];
/// The amounts of detail that a search offers. `stub` is not among them, since the stub of each hit would have many
/// lines.
const DETAILS: [(&str, Detail); 3] =
    [("signature", Detail::Signature), ("summary", Detail::Summary), ("full", Detail::Full)];
/// The largest number of servers that a search may name.
const SERVERS_MAX: usize = 1_000;

/// The parameters of the Python function.
#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    query: OneOrSeveral,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    detail: Option<String>,
    group_by: Option<String>,
    servers: Option<Vec<String>>,
}

/// One query, or a list of queries.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrSeveral {
    One(String),
    Several(Vec<String>),
}

impl Default for OneOrSeveral {
    fn default() -> Self {
        Self::Several(vec![])
    }
}

impl OneOrSeveral {
    fn texts(self, tool: &str) -> Result<Vec<String>, ToolFault> {
        match self {
            Self::One(text) => Ok(vec![text]),
            Self::Several(texts) if texts.len() <= QUERIES_MAX => Ok(texts),
            Self::Several(_) => {
                let message = format!("{tool} takes at most {QUERIES_MAX} queries at once");
                Err(ToolFault::new(FaultCode::InvalidArguments, message)
                    .hint("leave some out, or search twice"))
            }
        }
    }
}

/// The hits of one search, with the facts for its answer.
struct Page {
    hits: Vec<SearchHit>,
    total: usize,
    /// Whether no tool matches any of the queries well.
    is_weak: bool,
    /// The number of tools that were searched, including skills.
    tools: usize,
    /// The folders on the command lines of the servers of the hits.
    folders: Value,
}

impl Broker {
    pub(crate) async fn search_tool_docs(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Value, ToolFault> {
        let Arguments { query, limit, offset, detail, group_by, servers } = self.read(call)?;
        let queries = query.texts(&call.tool)?;
        let is_grouped = match group_by {
            Some(word) => arguments::word(&call.tool, "group_by", &word, &GROUPS)?,
            None => false,
        };
        let detail = match detail {
            Some(word) => arguments::word(&call.tool, "detail", &word, &DETAILS)?,
            None => Detail::Signature,
        };
        // A skill belongs to no server, so a search of named servers has no skills.
        let has_skills = servers.is_none();
        let scope = match servers {
            None => call.run().servers.clone(),
            Some(servers) => self.narrowed(&servers, &call.run().servers)?,
        };
        let names = self.server_names(&scope);
        self.ask_for_tools(&names, &queries.join(" "), call, cancel).await;
        // This list is read before the catalog, so that the tools of a server that answers in between are found.
        let in_progress = self.shared.indexing.in_progress(&names);
        let catalog = self.catalog().scoped(&scope);
        let skills = if has_skills { self.shared.skills.all()? } else { vec![] };
        let searched = self.shared.searched_skills.beside(&catalog, skills, &self.limits);
        let skills = searched.servers().iter().filter(|server| server.origin == Origin::Skills);
        let skills: usize = skills.map(|skills| skills.listed().len()).sum();
        let mut paths = self.shared.active_config.paths_of_arguments();
        // Paths that contain a secret of the server's entry are not shown.
        for (server, paths) in &mut paths {
            paths.retain(|path| self.shared.upstream.redacted(server, path.clone()) == *path);
        }
        // The search runs on a thread of its own, since the first search of many tools counts their words.
        let searching = tokio::task::spawn_blocking(move || {
            let asked: Queries<'_> = queries.iter().map(String::as_str).collect();
            let (hits, total) = search(&searched, asked, limit.unwrap_or(HITS), offset);
            let is_nothing = || total == 0 && queries.iter().any(|query| !query.trim().is_empty());
            let is_weak = hits.first().map_or_else(is_nothing, SearchHit::is_weak);
            let hits = if is_grouped { grouped(hits) } else { hits };
            let tools = searched.servers().iter().map(|server| server.listed().len()).sum();
            let folders = folders(&hits, &paths);
            Page { hits, total, is_weak, tools, folders }
        });
        let page = searching.await.map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))?;
        let is_unasked = |name: &&ServerName| {
            catalog.server(name.as_str()).is_some_and(|known| known.tools == Tools::Unasked)
        };
        let indexing: Vec<&ServerName> = in_progress.iter().filter(is_unasked).collect();
        let hits: Value = self.with_shapes(|shapes| {
            page.hits.iter().map(|hit| shown(hit, detail, is_grouped, shapes)).collect()
        });
        Ok(json!({
            "hits": hits,
            "total": page.total,
            "weak": page.is_weak,
            "offset": offset,
            "tools": page.tools,
            "servers": names.len(),
            "skills": skills,
            "unavailable": unavailable(&catalog),
            "folders": page.folders,
            "indexing": indexing.iter().take(INDEXING_MAX).collect::<Vec<_>>(),
            "indexing_total": indexing.len(),
            "indexing_seconds": indexing.iter().filter_map(|server| self.shared.upstream.starting(server)).max().map(|(time, _)| time.as_secs()),
        }))
    }

    /// The servers of the run with these names or aliases.
    fn narrowed(&self, servers: &[String], scope: &ServerScope) -> Result<ServerScope, ToolFault> {
        if servers.len() > SERVERS_MAX {
            let message = format!("search_tool_docs takes at most {SERVERS_MAX} servers");
            return Err(ToolFault::new(FaultCode::InvalidArguments, message));
        }
        let servers = servers.iter().map(|server| self.admitted(server, scope));
        Ok(ServerScope::Only(servers.collect::<Result<_, _>>()?))
    }
}

fn shown(hit: &SearchHit, detail: Detail, is_grouped: bool, shapes: &Shapes) -> Value {
    let mut shown = hit.to_json(detail, shapes);
    if is_grouped {
        shown["serverHits"] = json!(hit.of_server());
    }
    shown
}

/// The folders on the command lines of these servers, by alias: paths in arguments of calls are usually below them.
fn folders(hits: &[SearchHit], paths: &BTreeMap<ServerName, Vec<String>>) -> Value {
    let mut folders = Map::new();
    for server in hits.iter().filter(|hit| takes_path(hit.tool())).map(SearchHit::server) {
        let Some(paths) = paths.get(&server.name).filter(|_| folders.len() < FOLDERS_SERVERS_MAX) else {
            continue;
        };
        let shown: Vec<Value> = paths
            .iter()
            .filter(|path| path.len() <= FOLDER_BYTES_MAX && Path::new(path).is_dir())
            .take(FOLDERS_MAX)
            .map(|path| json!(text::inert_line(path)))
            .collect();
        if !shown.is_empty() {
            folders.insert(server.alias.clone(), Value::Array(shown));
        }
    }
    Value::Object(folders)
}

/// Whether any parameter has a name for a path: `path`, `repo_path`, `dirName`.
fn takes_path(tool: &Tool) -> bool {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().any(|(name, _)| {
        // `dirName` is two words, `direction` is one.
        let ends = |(at, c): (usize, char)| (!c.is_alphanumeric() || c.is_uppercase()).then_some(at);
        let mut words = name.char_indices().filter_map(ends).chain([name.len()]).scan(0, |start, end| {
            let word = name.get(*start..end)?.trim_matches(|c: char| !c.is_alphanumeric());
            *start = end;
            Some(word.to_lowercase())
        });
        words.any(|word| PATH_WORDS.contains(&word.as_str()))
    })
}

/// The first servers that could not list their tools, with the reasons, and the number of all such servers.
fn unavailable(catalog: &Catalog) -> Value {
    let reasons: Vec<(&ServerName, &str)> = catalog
        .servers()
        .iter()
        .filter_map(|server| match &server.tools {
            Tools::Failed { reason } => Some((&server.name, reason.as_str())),
            Tools::Unasked | Tools::Listed(_) => None,
        })
        .collect();
    let rows = reasons.iter().take(UNAVAILABLE_MAX).map(
        |(server, reason)| json!({"server": server, "reason": text::inert_excerpt(reason, REASON_CHARS_MAX)}),
    );
    json!({"servers": rows.collect::<Value>(), "total": reasons.len()})
}

#[cfg(test)]
mod tests {
    use belljar_base::limits::Limits;

    use super::*;

    #[test]
    fn parameters_for_paths_are_known_by_the_words_of_their_names() {
        let takes = |name: &str| {
            let tool = json!({"name": "t", "inputSchema": {"properties": {name: {"type": "string"}}}});
            takes_path(&Tool::from_json(&tool, &Limits::default()).unwrap())
        };
        for name in ["path", "repo_path", "dirName", "rootDir", "working-directory", "cwd"] {
            assert!(takes(name), "{name}");
        }
        for name in ["direction", "redirect", "repo", "xpathological", ""] {
            assert!(!takes(name), "{name}");
        }
    }

    #[test]
    fn servers_that_cannot_tell_are_named_in_bounded_harmless_lines() {
        let limits = Limits::default();
        let names: Vec<ServerName> =
            (0..60).map(|number| ServerName::new(&format!("s{number:02}")).unwrap()).collect();
        let catalog = Catalog::new(names.iter().map(|name| (name.clone(), None, None)), &limits);
        assert_eq!(unavailable(&catalog), json!({"servers": [], "total": 0}), "nobody was asked");
        let failed = Tools::failed(&format!("exited 1:\n\u{1b}{}", "x".repeat(5_000)), &limits);
        let news: BTreeMap<_, _> = names.iter().skip(1).map(|name| (name.clone(), failed.clone())).collect();
        let told = unavailable(&catalog.with(news));
        let rows = told["servers"].as_array().unwrap();
        assert_eq!(
            (rows.len(), &told["total"], &rows[0]["server"]),
            (UNAVAILABLE_MAX, &json!(59), &json!("s01"))
        );
        let reason = rows[0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("exited 1: \\x1bxxx") && reason.ends_with('…'), "{reason}");
        assert_eq!(reason.chars().count(), REASON_CHARS_MAX);
    }
}
