//! What the sessions of one process share: the configuration, the servers and what is known of their tools, the log, and the
//! folders of the user's own data.
//!
//! It knows no session: what belongs to one is in its `Broker`.

use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::SessionId;
use belljar_upstream::Upstream;

use super::gate::pins::Pins;
use super::servers::active_config::ActiveConfig;
use super::servers::server_requests::{ListenerTask, RequestListener, ServerRequests};
use super::tools::catalog_cache::CatalogCache;
use super::tools::indexing::Indexer;
use super::tools::searched_skills::SearchedSkills;
use super::tools::shape_store::ShapeStore;
use super::tools::tool_index::ToolIndex;
use crate::audit::{AuditLog, ServerLog};
use crate::config::{Audit, Config, Environment, LearnShapes};
use crate::skills::Skills;

/// The parts of the broker that all sessions of this process use.
pub struct Shared {
    pub(super) active_config: ActiveConfig,
    pub(super) upstream: Arc<Upstream>,
    pub(super) skills: Skills,
    pub(super) searched_skills: SearchedSkills,
    pub(super) shape_store: ShapeStore,
    pub(super) limits: Arc<Limits>,
    pub(super) indexing: Indexer,
    pub(super) tool_index: Arc<ToolIndex>,
    pub(super) pins: Pins,
    pub(super) server_requests: Arc<ServerRequests>,
    listening: ListenerTask,
    pub(super) log: Arc<AuditLog>,
    /// The part of the arguments that the log has.
    pub(super) logged: Audit,
}

impl Shared {
    /// The shared parts for the configured servers. Questions of servers that are for no session are logged under the name
    /// `process`. Must be called inside a tokio runtime.
    #[must_use]
    pub fn new(
        active_config: ActiveConfig,
        upstream: Arc<Upstream>,
        config: &Config,
        log: AuditLog,
        process: SessionId,
        limits: Arc<Limits>,
    ) -> Self {
        let (owner, log, logged) = (&config.owner, Arc::new(log), config.audit);
        let learned = owner.shapes().filter(|_| config.learn_shapes == LearnShapes::On);
        let cache = owner.catalog().map(|dir| CatalogCache::new(dir, &limits));
        let (catalog, known) = (active_config.catalog(&limits), active_config.known());
        let tool_index = Arc::new(ToolIndex::new(catalog, known, cache, Arc::clone(&limits)));
        let server_requests = ServerRequests::new(&limits);
        let listening = ListenerTask::start(RequestListener {
            requests: Arc::clone(&server_requests),
            upstream: Arc::clone(&upstream),
            log: Arc::clone(&log),
            logged,
            process,
            words: ServerLog::start(owner.server_log()),
        });
        Self {
            indexing: Indexer::new(Arc::clone(&tool_index), Arc::clone(&upstream), &limits),
            skills: Skills::new(owner.skills(), &limits),
            searched_skills: SearchedSkills::default(),
            shape_store: ShapeStore::new(learned, &limits),
            pins: Pins::new(owner.pins()),
            active_config,
            upstream,
            tool_index,
            server_requests,
            listening,
            log,
            logged,
            limits,
        }
    }

    /// Ends all background tasks.
    pub async fn close(&self) {
        tokio::join!(self.indexing.close(), self.listening.close());
        self.log.close().await;
    }

    /// From now on, a session with this environment uses the servers, too.
    pub fn share_with(&self, environment: &Environment) {
        self.active_config.share_with(environment);
    }

    /// Puts the configuration of the files into effect. Running servers whose entries have changed are replaced.
    pub(super) fn follow_config(&self) {
        let Some(roots) = self.active_config.advance() else { return };
        tracing::info!("the configuration has changed");
        self.upstream.offer_roots(&roots);
        self.upstream.replace(self.active_config.specs());
        self.tool_index.replace(self.active_config.catalog(&self.limits), self.active_config.known());
    }
}
