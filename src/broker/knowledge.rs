//! What is known of the servers' tools: learned from the servers, and from what was kept of earlier bridges.
//!
//! It asks no server; `indexing` does.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

use super::catalog_cache::{CacheKey, CatalogCache};
use crate::catalog::{Catalog, Tool, Tools};
use crate::limits::Limits;
use crate::names::ServerName;

/// The catalog, and the place where listings are kept, if there is one.
pub(super) struct Knowledge {
    known: RwLock<Known>,
    cache: Option<CatalogCache>,
    limits: Arc<Limits>,
}

struct Known {
    catalog: Catalog,
    /// From which listing of each server the catalog was made; none of those that were read from the disk.
    listings: BTreeMap<ServerName, Arc<[Value]>>,
    /// The configurations of the catalog's servers.
    keys: BTreeMap<ServerName, CacheKey>,
}

/// Whether a listing that was taken in was news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was, so that it should be kept.
    New,
    /// It was known, or the server has been configured differently meanwhile.
    Nothing,
}

impl Knowledge {
    pub(super) fn new(
        catalog: Catalog,
        keys: BTreeMap<ServerName, CacheKey>,
        cache: Option<CatalogCache>,
        limits: Arc<Limits>,
    ) -> Self {
        Self { known: RwLock::new(Known { catalog, listings: BTreeMap::new(), keys }), cache, limits }
    }

    /// From now on these are the servers. What those that stay have listed is learned again from their connections or
    /// from the disk.
    pub(super) fn replace(&self, catalog: Catalog, keys: BTreeMap<ServerName, CacheKey>) {
        *self.write() = Known { catalog, listings: BTreeMap::new(), keys };
    }

    /// What is known now; a snapshot.
    pub(super) fn catalog(&self) -> Catalog {
        self.read().catalog.clone()
    }

    /// How a server is configured now.
    pub(super) fn key(&self, server: &ServerName) -> Option<CacheKey> {
        self.read().keys.get(server).cloned()
    }

    /// How the servers are configured now.
    pub(super) fn keys(&self) -> Vec<CacheKey> {
        self.read().keys.values().cloned().collect()
    }

    /// Those of the servers of which nothing is known, with their configurations.
    pub(super) fn unasked(&self, servers: &[ServerName]) -> Vec<(ServerName, CacheKey)> {
        self.those(servers, |tools| matches!(tools, Tools::Unasked))
    }

    /// Those of the servers of which no tools are known, with their configurations.
    pub(super) fn unlisted(&self, servers: &[ServerName]) -> Vec<(ServerName, CacheKey)> {
        self.those(servers, |tools| matches!(tools, Tools::Unasked | Tools::Failed { .. }))
    }

    /// Of these servers it is not known any more why they could not tell their tools.
    pub(super) fn forget_failures(&self, servers: &[ServerName]) {
        let failed = self.those(servers, |tools| matches!(tools, Tools::Failed { .. }));
        if !failed.is_empty() {
            let unasked = failed.into_iter().map(|(server, _)| (server, Tools::Unasked)).collect();
            let mut known = self.write();
            known.catalog = known.catalog.with(unasked);
        }
    }

    /// Takes in what is kept of these servers, and makes ready for searches. Reads files, and takes as long as the
    /// tools are many.
    pub(super) fn load(&self, servers: Vec<(ServerName, CacheKey)>) {
        let Some(cache) = &self.cache else { return };
        let loaded: Vec<(ServerName, CacheKey, Tools)> = servers
            .into_iter()
            .filter_map(|(server, key)| {
                let listing = cache.read(&key)?;
                let tools = self.tools(&server, &listing);
                Some((server, key, tools))
            })
            .collect();
        let mut known = self.write();
        let still_unasked = |(server, key, tools): (ServerName, CacheKey, Tools)| {
            let is_unasked = known
                .catalog
                .server(server.as_str())
                .is_some_and(|known| matches!(known.tools, Tools::Unasked));
            (is_unasked && known.keys.get(&server) == Some(&key)).then_some((server, tools))
        };
        let news: BTreeMap<ServerName, Tools> = loaded.into_iter().filter_map(still_unasked).collect();
        if news.is_empty() {
            return;
        }
        known.catalog = known.catalog.with(news);
        let catalog = known.catalog.clone();
        drop(known);
        catalog.prepare_search();
    }

    /// Takes in what a server of this configuration has listed.
    pub(super) fn learn(&self, server: &ServerName, key: &CacheKey, listing: &Arc<[Value]>) -> Taken {
        let is_news = |known: &Known| {
            let same = known.listings.get(server).is_some_and(|old| Arc::ptr_eq(old, listing));
            known.keys.get(server) == Some(key) && !same
        };
        if !is_news(&self.read()) {
            return Taken::Nothing;
        }
        // Not under the lock: many tools take long.
        let tools = self.tools(server, listing);
        let mut known = self.write();
        if !is_news(&known) {
            return Taken::Nothing;
        }
        known.catalog = known.catalog.with(BTreeMap::from([(server.clone(), tools)]));
        known.listings.insert(server.clone(), Arc::clone(listing));
        Taken::New
    }

    /// Takes in why a server of this configuration has listed nothing.
    pub(super) fn learn_failure(&self, server: &ServerName, key: &CacheKey, reason: &str) {
        // Beside the server's name stands that of the server.
        let reason = reason.strip_prefix(&format!("server '{server}' ")).unwrap_or(reason);
        let failed = Tools::failed(reason, &self.limits);
        let mut known = self.write();
        // Tools that were listed before stay known: a server that died comes back.
        let counts = known.keys.get(server) == Some(key) && !known.listings.contains_key(server);
        if counts && known.catalog.server(server.as_str()).is_some_and(|known| known.tools != failed) {
            known.catalog = known.catalog.with(BTreeMap::from([(server.clone(), failed)]));
        }
    }

    /// Keeps what a server of this configuration has listed, for later bridges. Writes a file.
    pub(super) fn keep(
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

    fn tools(&self, server: &ServerName, listing: &[Value]) -> Tools {
        let tools = listing.iter().filter_map(|item| match Tool::from_json(item, &self.limits) {
            Ok(tool) => Some(tool),
            Err(refusal) => {
                tracing::warn!(%server, %refusal, "a tool is left out");
                None
            }
        });
        Tools::listed(tools.collect(), &self.limits)
    }

    fn those(&self, servers: &[ServerName], is_one: fn(&Tools) -> bool) -> Vec<(ServerName, CacheKey)> {
        let known = self.read();
        let of = |server: &ServerName| {
            let is_one = known.catalog.server(server.as_str()).is_some_and(|known| is_one(&known.tools));
            is_one.then(|| Some((server.clone(), known.keys.get(server)?.clone()))).flatten()
        };
        servers.iter().filter_map(of).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::catalog_cache::tests::{key, listing, unchanged};

    fn name(text: &str) -> ServerName {
        ServerName::new(text).unwrap()
    }

    /// The servers a and b, each configured by the word of its name.
    fn knowledge(dir: &std::path::Path) -> Knowledge {
        let limits = Arc::new(Limits::default());
        let (catalog, keys) = configured(&[("a", "a"), ("b", "b")]);
        let cache = CatalogCache::new(dir.join("catalog"), &limits);
        Knowledge::new(catalog, keys, Some(cache), limits)
    }

    fn configured(servers: &[(&str, &str)]) -> (Catalog, BTreeMap<ServerName, CacheKey>) {
        let names = servers.iter().map(|(server, _)| (name(server), None, None));
        let keys = servers.iter().map(|(server, word)| (name(server), key(word))).collect();
        (Catalog::new(names, &Limits::default()), keys)
    }

    fn known(knowledge: &Knowledge) -> Vec<String> {
        let shown = |tools: &Tools| match tools {
            Tools::Unasked => "unasked".to_owned(),
            Tools::Listed(tools) => tools.iter().map(|tool| tool.alias.clone()).collect(),
            Tools::Failed { reason } => format!("failed: {reason}"),
        };
        knowledge.catalog().servers().iter().map(|server| shown(&server.tools)).collect()
    }

    #[test]
    fn what_was_kept_fills_in_for_servers_of_the_same_configuration_only() {
        let dir = tempfile::tempdir().unwrap();
        let before = knowledge(dir.path());
        before.keep(&name("a"), &key("a"), &listing("kept"), &unchanged);
        let after = knowledge(dir.path());
        after.load(after.unasked(&[name("a"), name("b"), name("gone")]));
        assert_eq!(known(&after), ["kept", "unasked"]);
        assert!(after.catalog().search_bytes() > 0, "it is ready for searches");
        assert_eq!(after.unlisted(&[name("a"), name("b")]), [(name("b"), key("b"))]);
        let (catalog, keys) = configured(&[("a", "other"), ("b", "a")]);
        after.replace(catalog, keys);
        after.load(after.unasked(&[name("a"), name("b")]));
        assert_eq!(known(&after), ["unasked", "kept"], "names do not count");
    }

    #[test]
    fn what_a_server_lists_counts_more_than_what_was_kept_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let knowledge = knowledge(dir.path());
        knowledge.keep(&name("a"), &key("a"), &listing("kept"), &unchanged);
        let unasked = knowledge.unasked(&[name("a")]);
        let live: Arc<[Value]> = listing("live").into();
        assert_eq!(knowledge.learn(&name("a"), &key("a"), &live), Taken::New);
        assert_eq!(knowledge.learn(&name("a"), &key("a"), &live), Taken::Nothing);
        knowledge.load(unasked);
        assert_eq!(known(&knowledge), ["live", "unasked"]);
    }

    #[test]
    fn answers_to_an_earlier_configuration_are_not_taken_in() {
        let dir = tempfile::tempdir().unwrap();
        let knowledge = knowledge(dir.path());
        let late: Arc<[Value]> = listing("late").into();
        assert_eq!(knowledge.learn(&name("a"), &key("earlier"), &late), Taken::Nothing);
        assert_eq!(knowledge.learn(&name("gone"), &key("a"), &late), Taken::Nothing);
        knowledge.learn_failure(&name("a"), &key("earlier"), "exited 1");
        assert_eq!(known(&knowledge), ["unasked", "unasked"]);
    }

    #[test]
    fn a_failure_hides_no_tools_that_the_server_itself_has_listed() {
        let dir = tempfile::tempdir().unwrap();
        let knowledge = knowledge(dir.path());
        knowledge.learn_failure(&name("a"), &key("a"), "server 'a' did not start: \u{1b}no");
        assert_eq!(known(&knowledge), ["failed: did not start: \\x1bno", "unasked"]);
        assert_eq!(knowledge.unasked(&[name("a")]), []);
        assert_eq!(knowledge.unlisted(&[name("a")]), [(name("a"), key("a"))]);
        knowledge.learn(&name("a"), &key("a"), &listing("live").into());
        knowledge.learn_failure(&name("a"), &key("a"), "exited 1");
        assert_eq!(known(&knowledge), ["live", "unasked"]);
    }
}
