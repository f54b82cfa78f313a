//! The tools of the servers, learned from the servers and from the cache.
//!
//! It asks no server; `indexing` does.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{Catalog, Tool, Tools, resolved};
use belljar_tools::policy::ToolChoice;
use parking_lot::RwLock;
use serde_json::Value;

use super::catalog_cache::{CacheKey, CatalogCache};
use super::listing_diff;
use crate::config::ServerConfig;

/// Longest name of a tool in a fault, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The catalog of all tools, with its cache on disk if there is one.
pub(crate) struct ToolIndex {
    state: RwLock<IndexState>,
    cache: Option<CatalogCache>,
    limits: Arc<Limits>,
}

/// The catalog, and the listings and configurations that it was made from.
struct IndexState {
    catalog: Catalog,
    /// The listing of each server that the catalog was made from, unless it was read from the disk.
    listings: BTreeMap<ServerName, Arc<[Value]>>,
    /// The tools that servers have listed and that their entries exclude.
    kept_back: BTreeMap<ServerName, Vec<Tool>>,
    /// The configurations of the catalog's servers.
    servers: BTreeMap<ServerName, Arc<Configured>>,
    news: News,
}

/// The last changes of lists, each with its number, for sessions to report.
#[derive(Default)]
struct News {
    last: VecDeque<String>,
    /// The number of all changes.
    count: u64,
}

/// The parts of the configuration of a server that its tools depend on.
#[derive(Debug, Clone)]
pub(crate) struct Configured {
    pub(crate) key: CacheKey,
    /// The tools that are offered.
    tools: ToolChoice,
    /// The key of its entry, and the file that has the entry.
    place: (String, PathBuf),
}

/// The tools of a listing that are offered, and those that the configuration excludes.
type OfferedTools = (Tools, Vec<Tool>);

impl Configured {
    pub(crate) fn of(server: &ServerConfig) -> Self {
        Self {
            key: CacheKey::of(server),
            tools: server.rules.tools.clone(),
            place: (server.key.clone(), server.source.clone()),
        }
    }
}

impl IndexState {
    fn new(catalog: Catalog, servers: BTreeMap<ServerName, Configured>) -> Self {
        let servers = servers.into_iter().map(|(name, server)| (name, Arc::new(server))).collect();
        Self {
            catalog,
            listings: BTreeMap::new(),
            kept_back: BTreeMap::new(),
            servers,
            news: News::default(),
        }
    }

    /// Whether `configured` is still the configuration of the server.
    fn is_still(&self, server: &ServerName, configured: &Arc<Configured>) -> bool {
        self.servers.get(server).is_some_and(|now| Arc::ptr_eq(now, configured))
    }

    fn take(&mut self, news: BTreeMap<ServerName, OfferedTools>) {
        let mut offered = BTreeMap::new();
        for (server, (tools, kept_back)) in news {
            offered.insert(server.clone(), tools);
            self.kept_back.insert(server, kept_back);
        }
        self.catalog = self.catalog.with(offered);
    }
}

/// The largest number of changes that one reply reports.
const NEWS_MAX: usize = 10;

/// The effect of a listing on the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListingChange {
    /// The listing was new, so it should be stored.
    New,
    /// The listing was known, or the server has been configured differently meanwhile.
    Nothing,
}

impl ToolIndex {
    pub(crate) fn new(
        catalog: Catalog,
        servers: BTreeMap<ServerName, Configured>,
        cache: Option<CatalogCache>,
        limits: Arc<Limits>,
    ) -> Self {
        Self { state: RwLock::new(IndexState::new(catalog, servers)), cache, limits }
    }

    /// Replaces the servers. The lists of remaining servers are learned again from their connections or from the disk.
    pub(crate) fn replace(&self, catalog: Catalog, servers: BTreeMap<ServerName, Configured>) {
        let mut state = self.state.write();
        let news = std::mem::take(&mut state.news);
        *state = IndexState { news, ..IndexState::new(catalog, servers) };
    }

    /// The fault for a call of a tool that the server's entry excludes; `None`: no excluded tool has that name.
    pub(crate) fn kept_back(&self, server: &ServerName, asked: &str) -> Option<ToolFault> {
        let state = self.state.read();
        let tool = resolved(state.kept_back.get(server)?, asked)?;
        let Configured { tools, place: (key, path), .. } = &**state.servers.get(server)?;
        let name = text::inert_excerpt(&format!("{server}.{}", tool.name), NAME_CHARS_MAX);
        let by = tools.kept_back(tool.names())?;
        let message = format!("{name} is not offered: {key}.{by} of {} keeps it back", path.display());
        Some(
            ToolFault::new(FaultCode::Denied, text::inert_line(&message)).hint("the user decides that there"),
        )
    }

    /// A snapshot of the catalog.
    pub(crate) fn catalog(&self) -> Catalog {
        self.state.read().catalog.clone()
    }

    /// The number of the changes of tools so far.
    pub(crate) fn news_count(&self) -> u64 {
        self.state.read().news.count
    }

    /// The sentences about the last changes of tools since a session has seen this number of them, and their number now.
    pub(crate) fn news_since(&self, seen: u64) -> (Vec<String>, u64) {
        let state = self.state.read();
        let News { last, count } = &state.news;
        let new = usize::try_from(count.saturating_sub(seen)).unwrap_or(usize::MAX);
        (last.iter().skip(last.len().saturating_sub(new)).cloned().collect(), *count)
    }

    /// The cache key of a server's current configuration.
    pub(crate) fn key(&self, server: &ServerName) -> Option<CacheKey> {
        self.state.read().servers.get(server).map(|server| server.key.clone())
    }

    /// The cache keys of all servers' current configurations.
    pub(crate) fn keys(&self) -> Vec<CacheKey> {
        self.state.read().servers.values().map(|server| server.key.clone()).collect()
    }

    /// Those of these servers that were not asked yet, with their cache keys.
    pub(super) fn unasked(&self, servers: &[ServerName]) -> Vec<(ServerName, CacheKey)> {
        self.those(servers, |tools| matches!(tools, Tools::Unasked))
    }

    /// Those of these servers whose tools are unknown, with their cache keys.
    pub(super) fn unlisted(&self, servers: &[ServerName]) -> Vec<(ServerName, CacheKey)> {
        self.those(servers, |tools| matches!(tools, Tools::Unasked | Tools::Failed { .. }))
    }

    /// Marks those of these servers that could not list their tools as not asked yet.
    pub(crate) fn forget_failures(&self, servers: &[ServerName]) {
        let failed = self.those(servers, |tools| matches!(tools, Tools::Failed { .. }));
        if !failed.is_empty() {
            let unasked = failed.into_iter().map(|(server, _)| (server, Tools::Unasked)).collect();
            let mut state = self.state.write();
            state.catalog = state.catalog.with(unasked);
        }
    }

    /// Loads the cached lists of these servers, and prepares the search. It reads files, and the time depends on the
    /// number of tools.
    pub(crate) fn load(&self, servers: Vec<(ServerName, CacheKey)>) {
        let Some(cache) = &self.cache else { return };
        let loaded: Vec<(ServerName, Arc<Configured>, OfferedTools)> = servers
            .into_iter()
            .filter_map(|(server, key)| {
                let configured = self.configured(&server, &key)?;
                let listing = cache.read(&key)?;
                let tools = self.tools(&server, &configured, &listing);
                Some((server, configured, tools))
            })
            .collect();
        let mut state = self.state.write();
        let still_unasked = |(server, configured, tools): (ServerName, Arc<Configured>, OfferedTools)| {
            let is_unasked = state
                .catalog
                .server(server.as_str())
                .is_some_and(|server| matches!(server.tools, Tools::Unasked));
            (is_unasked && state.is_still(&server, &configured)).then_some((server, tools))
        };
        let news: BTreeMap<ServerName, OfferedTools> = loaded.into_iter().filter_map(still_unasked).collect();
        if news.is_empty() {
            return;
        }
        state.take(news);
        let catalog = state.catalog.clone();
        drop(state);
        catalog.prepare_search();
    }

    /// Takes in the list of tools of a server with this configuration.
    pub(crate) fn learn(&self, server: &ServerName, key: &CacheKey, listing: &Arc<[Value]>) -> ListingChange {
        let Some(configured) = self.configured(server, key) else { return ListingChange::Nothing };
        let is_news = |state: &IndexState| {
            let same = state.listings.get(server).is_some_and(|old| Arc::ptr_eq(old, listing));
            state.is_still(server, &configured) && !same
        };
        if !is_news(&self.state.read()) {
            return ListingChange::Nothing;
        }
        // The lock is not held while the list is read, since a long list takes time.
        let tools = self.tools(server, &configured, listing);
        let mut state = self.state.write();
        if !is_news(&state) {
            return ListingChange::Nothing;
        }
        let is_old = !state.listings.contains_key(server);
        if let Some(before) = state.catalog.server(server.as_str())
            && let (Tools::Listed(before), Tools::Listed(after)) = (&before.tools, &tools.0)
            && let Some(said) = listing_diff::said(server, before, after, is_old)
        {
            state.news.count += 1;
            state.news.last.push_back(said);
            if state.news.last.len() > NEWS_MAX {
                state.news.last.pop_front();
            }
        }
        state.take(BTreeMap::from([(server.clone(), tools)]));
        state.listings.insert(server.clone(), Arc::clone(listing));
        ListingChange::New
    }

    /// Takes in the reason why a server with this configuration has listed no tools.
    pub(crate) fn learn_failure(&self, server: &ServerName, key: &CacheKey, reason: &str) {
        // The reason is shown beside the server's name, so the name is removed from it.
        let reason = reason.strip_prefix(&format!("server '{server}' ")).unwrap_or(reason);
        let failed = Tools::failed(reason, &self.limits);
        let mut state = self.state.write();
        // Tools that were listed before stay known: a server that died comes back.
        let is_of_now = state.servers.get(server).is_some_and(|server| server.key == *key);
        let counts = is_of_now && !state.listings.contains_key(server);
        if counts && state.catalog.server(server.as_str()).is_some_and(|server| server.tools != failed) {
            state.catalog = state.catalog.with(BTreeMap::from([(server.clone(), failed)]));
        }
    }

    /// Caches the list of a server with this configuration for later bridges. Writes a file.
    pub(crate) fn keep(
        &self,
        server: &ServerName,
        key: &CacheKey,
        listing: &[Value],
        redacted: &dyn Fn(String) -> String,
    ) {
        let Some(cache) = &self.cache else { return };
        if let Err(error) = cache.write(key, listing, redacted, &self.keys()) {
            tracing::warn!(%server, %error, "a list of tools is not kept for later");
        }
    }

    /// Splits a list into the offered tools and the excluded ones. Every list passes through here, from a server or
    /// from the cache: excluded tools are in no catalog, and the Python names of the others do not depend on the
    /// exclusion.
    fn tools(&self, server: &ServerName, configured: &Configured, listing: &[Value]) -> OfferedTools {
        let tools = listing.iter().filter_map(|item| match Tool::from_json(item, &self.limits) {
            Ok(tool) => Some(tool),
            Err(refusal) => {
                tracing::warn!(%server, %refusal, "a tool is left out");
                None
            }
        });
        let is_offered = |tool: &Tool| configured.tools.kept_back(tool.names()).is_none();
        let all = Tools::listed(tools.collect(), &self.limits).into_listed();
        let (offered, kept_back) = all.into_iter().partition(is_offered);
        (Tools::Listed(offered), kept_back)
    }

    /// The configuration of a server, if `key` is still its cache key.
    fn configured(&self, server: &ServerName, key: &CacheKey) -> Option<Arc<Configured>> {
        self.state.read().servers.get(server).filter(|server| server.key == *key).cloned()
    }

    fn those(&self, servers: &[ServerName], is_one: fn(&Tools) -> bool) -> Vec<(ServerName, CacheKey)> {
        let state = self.state.read();
        let of = |server: &ServerName| {
            let is_one = state.catalog.server(server.as_str()).is_some_and(|server| is_one(&server.tools));
            is_one.then(|| Some((server.clone(), state.servers.get(server)?.key.clone()))).flatten()
        };
        servers.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
#[path = "tool_index_tests.rs"]
pub(crate) mod tests;
