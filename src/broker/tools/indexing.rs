//! Makes tools searchable whose servers are not running. The tools come from the cache on disk, or from each server,
//! which is asked once and in the background, with few servers at a time.
//!
//! It waits for no server unless a caller asks for that, and starts none before the first search. A slow server does
//! not keep others from being asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_upstream::{Upstream, UpstreamError};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::catalog_cache::CacheKey;
use super::tool_index::{ListingChange, ToolIndex};

/// The servers whose tools are being listed or will be.
type ListingsInProgress = BTreeSet<ServerName>;

/// Asks servers for their tools.
pub(crate) struct Indexer {
    tool_index: Arc<ToolIndex>,
    upstream: Arc<Upstream>,
    in_progress: watch::Sender<ListingsInProgress>,
    permits: Arc<Semaphore>,
    /// How long a server that does not answer counts against the number of servers that are asked at once.
    slow: Duration,
    tasks: Mutex<JoinSet<()>>,
    closing: CancellationToken,
}

impl Indexer {
    pub(crate) fn new(tool_index: Arc<ToolIndex>, upstream: Arc<Upstream>, limits: &Limits) -> Self {
        Self {
            tool_index,
            upstream,
            in_progress: watch::Sender::new(ListingsInProgress::new()),
            permits: Arc::new(Semaphore::new(limits.servers_indexed_at_once_max)),
            slow: limits.slow_index,
            tasks: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Loads the cached tools of these servers, and begins to ask those whose tools are unknown, including those that
    /// failed before. Waits for the disk only. Must be called inside a tokio runtime.
    pub(crate) async fn begin(&self, servers: &[ServerName]) {
        let mut unasked = self.tool_index.unasked(servers);
        unasked.retain(|(server, _)| !self.in_progress.borrow().contains(server));
        if !unasked.is_empty() {
            let tool_index = Arc::clone(&self.tool_index);
            if let Err(error) = tokio::task::spawn_blocking(move || tool_index.load(unasked)).await {
                tracing::error!(%error, "the kept lists of tools could not be read");
            }
        }
        for (server, key) in self.tool_index.unlisted(servers) {
            self.ask(server, key);
        }
    }

    /// Asks servers again that were asked before. Must be called inside a tokio runtime.
    pub(crate) fn refresh(&self, servers: &[ServerName]) {
        for server in servers {
            if let Some(key) = self.tool_index.key(server) {
                self.ask(server.clone(), key);
            }
        }
    }

    /// Those of these servers that are being asked now.
    pub(crate) fn in_progress(&self, servers: &[ServerName]) -> Vec<ServerName> {
        let in_progress = self.in_progress.borrow();
        servers.iter().filter(|server| in_progress.contains(*server)).cloned().collect()
    }

    /// Waits until none of the servers is being asked for the first time, until the deadline, or until cancelled.
    /// `tell` receives the servers that are waited for.
    pub(crate) async fn settled(
        &self,
        servers: &[ServerName],
        deadline: Instant,
        cancel: &CancellationToken,
        tell: impl Fn(&[&ServerName]),
    ) {
        // Servers that failed before are not waited for again.
        let first = self.tool_index.unasked(servers);
        let mut watched = self.in_progress.subscribe();
        let settled = watched.wait_for(|in_progress| {
            let awaited: Vec<&ServerName> = first
                .iter()
                .map(|(server, _)| server)
                .filter(|server| in_progress.contains(*server))
                .collect();
            if !awaited.is_empty() {
                tell(&awaited);
            }
            awaited.is_empty()
        });
        tokio::select! {
            biased;
            // An error would mean that the sender is gone, but `self` owns it.
            _ = settled => {}
            () = cancel.cancelled() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }

    /// Caches the list of a started server, in the background.
    pub(crate) fn keep(&self, server: &ServerName, key: CacheKey, listing: Arc<[serde_json::Value]>) {
        let (tool_index, upstream) = (Arc::clone(&self.tool_index), Arc::clone(&self.upstream));
        let server = server.clone();
        self.tasks().spawn_blocking(move || {
            tool_index.keep(&server, &key, &listing, &|text| upstream.redacted(&server, text));
        });
    }

    /// Ends all background tasks.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks());
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "a task that asks for tools broke");
            }
        }
    }

    fn ask(&self, server: ServerName, key: CacheKey) {
        let begin = |in_progress: &mut ListingsInProgress| in_progress.insert(server.clone());
        if self.closing.is_cancelled() || !self.in_progress.send_if_modified(begin) {
            return;
        }
        let task = ListingTask {
            guard: ListingGuard { server: server.clone(), in_progress: self.in_progress.clone() },
            key,
            tool_index: Arc::clone(&self.tool_index),
            upstream: Arc::clone(&self.upstream),
        };
        let (permits, closing) = (Arc::clone(&self.permits), self.closing.clone());
        let slow = self.slow;
        self.tasks().spawn(async move {
            let permit = tokio::select! {
                permit = permits.acquire() => permit,
                () = closing.cancelled() => return,
            };
            let Ok(permit) = permit else { return };
            let answered = task.answered(&closing);
            tokio::pin!(answered);
            if tokio::time::timeout(slow, &mut answered).await.is_err() {
                drop(permit);
                answered.await;
            }
        });
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks
    }
}

/// The task that lists the tools of one server.
struct ListingTask {
    key: CacheKey,
    tool_index: Arc<ToolIndex>,
    upstream: Arc<Upstream>,
    guard: ListingGuard,
}

impl ListingTask {
    async fn answered(self, closing: &CancellationToken) {
        let server = self.guard.server.clone();
        match self.upstream.tools(&server, closing).await {
            Ok(listing) => {
                let learning = tokio::task::spawn_blocking(move || {
                    if self.tool_index.learn(&server, &self.key, &listing) == ListingChange::New {
                        let redacted = |text| self.upstream.redacted(&server, text);
                        self.tool_index.keep(&server, &self.key, &listing, &redacted);
                    }
                });
                if let Err(error) = learning.await {
                    tracing::error!(%error, "a list of tools could not be read");
                }
            }
            // A cancelled request says nothing about the server.
            Err(error) if matches!(*error, UpstreamError::Cancelled { .. } | UpstreamError::Closing) => {}
            Err(error) => {
                tracing::info!(%server, reason = %error, "a server's tools are not known");
                self.tool_index.learn_failure(&server, &self.key, &error.to_string());
            }
        }
    }
}

/// Takes the server out of the listings in progress when it is dropped.
struct ListingGuard {
    server: ServerName,
    in_progress: watch::Sender<ListingsInProgress>,
}

impl Drop for ListingGuard {
    fn drop(&mut self) {
        self.in_progress.send_modify(|in_progress| {
            in_progress.remove(&self.server);
        });
    }
}

#[cfg(test)]
mod tests {
    use belljar_confine::PrivatePlaces;
    use belljar_tools::catalog::{Catalog, Tools};
    use belljar_upstream::{Inherited, ProcessSpec, ServerSpec, ServerTransport};

    use super::super::catalog_cache::tests::key;
    use super::super::tool_index::tests::of_key;
    use super::*;

    /// A script that ends at its first line of input.
    const ENDING: &str = r#"echo begins >> "$0"; read -r line; echo ends >> "$0"; exit 1"#;
    const SILENT: &str = r#"echo begins >> "$0"; exec sleep 3600"#;

    /// Servers that say that they begin and end, and that are none.
    fn indexing(log: &std::path::Path, names: &[ServerName], at_once: usize, script: &str) -> Indexer {
        let slow_index = Duration::from_millis(if script == SILENT { 1 } else { 60_000 });
        let limits = Limits { servers_indexed_at_once_max: at_once, slow_index, ..Limits::default() };
        let limits = Arc::new(limits);
        let command = ProcessSpec {
            program: "sh".into(),
            searched: false,
            args: ["-c", script, log.to_str().unwrap()].map(str::to_owned).to_vec(),
            inherited: Inherited::All,
            env: vec![],
            cwd: None,
            keeper: None,
            sandbox: None,
            projects: vec![],
            private: PrivatePlaces::default(),
            changeable: belljar_upstream::PlacesNow::default(),
        };
        let transport = ServerTransport::Process(command);
        let spec = |name: &ServerName| ServerSpec::new(name.clone(), transport.clone());
        let upstream = Arc::new(Upstream::new(names.iter().map(spec).collect(), &limits));
        let catalog = Catalog::new(names.iter().map(|name| (name.clone(), None, None)), &limits);
        let known = names
            .iter()
            .map(|name| (name.clone(), of_key(key(name.as_str()))))
            .collect::<std::collections::BTreeMap<_, _>>();
        let tool_index = ToolIndex::new(catalog, known, None, Arc::clone(&limits));
        Indexer::new(Arc::new(tool_index), upstream, &limits)
    }

    fn names(count: usize) -> Vec<ServerName> {
        (0..count).map(|number| ServerName::new(&format!("s{number:02}")).unwrap()).collect()
    }

    #[tokio::test]
    async fn servers_are_asked_in_the_background_once_and_few_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (log, names) = (dir.path().join("log"), names(12));
        let indexing = indexing(&log, &names, 3, ENDING);
        indexing.begin(&names).await;
        assert_eq!(indexing.in_progress(&names), names, "nobody has waited for them");
        indexing.begin(&names).await;
        let late = Instant::now() + Duration::from_secs(60);
        indexing.settled(&names, late, &CancellationToken::new(), |_| {}).await;
        assert_eq!(indexing.in_progress(&names), []);
        let catalog = indexing.tool_index.catalog();
        assert!(catalog.servers().iter().all(|server| matches!(server.tools, Tools::Failed { .. })));
        let events = std::fs::read_to_string(&log).unwrap();
        let mut now = 0_usize;
        let most = events.lines().map(|event| {
            now = if event == "begins" { now + 1 } else { now - 1 };
            now
        });
        assert!(most.max() <= Some(3), "{events}");
        // Each begins and ends twice: a server that ends at `server/discover` may have an earlier version of the
        // protocol.
        assert_eq!(events.lines().count(), 48, "{events}");
        indexing.close().await;
        indexing.upstream.close().await;
    }

    #[tokio::test]
    async fn nobody_waits_beyond_the_deadline_for_a_cancelled_run_or_for_servers_that_failed_before() {
        let dir = tempfile::tempdir().unwrap();
        let names = names(2);
        let none_at_once = indexing(&dir.path().join("log"), &names, 0, ENDING);
        none_at_once.begin(&names).await;
        let (now, never) = (Instant::now(), Instant::now() + Duration::from_secs(3_600));
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        none_at_once.settled(&names, never, &cancelled, |_| {}).await;
        let told = std::cell::RefCell::new(String::new());
        let tell = |awaited: &[&ServerName]| *told.borrow_mut() = format!("{awaited:?}");
        // The second search waits as the first one did.
        for _ in 0..2 {
            told.borrow_mut().clear();
            none_at_once.settled(&names, now, &CancellationToken::new(), tell).await;
            assert_eq!(*told.borrow(), format!("{names:?}"));
        }
        none_at_once.tool_index.learn(&names[1], &key("s01"), &Arc::from([]));
        none_at_once.tool_index.learn_failure(&names[0], &key("s00"), "exited 1");
        none_at_once.settled(&names, never, &CancellationToken::new(), |_| {}).await;
        assert_eq!(none_at_once.in_progress(&names), names);
        none_at_once.close().await;
        assert_eq!(none_at_once.in_progress(&names), []);
        assert!(!dir.path().join("log").exists(), "none was started");
    }

    #[tokio::test]
    async fn servers_that_do_not_answer_keep_no_other_from_being_asked() {
        let dir = tempfile::tempdir().unwrap();
        let (log, names) = (dir.path().join("log"), names(4));
        let indexing = indexing(&log, &names, 1, SILENT);
        indexing.begin(&names).await;
        let all_begin = async {
            while std::fs::read_to_string(&log).unwrap_or_default().lines().count() < names.len() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all_begin).await.unwrap();
        assert_eq!(indexing.in_progress(&names), names);
        indexing.close().await;
        indexing.upstream.close().await;
    }
}
