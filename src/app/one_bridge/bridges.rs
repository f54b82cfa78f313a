//! The sessions of the shared bridge by their configurations: those with equal ones share their servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_guard::Mark;
use belljar_upstream::Inherited;
use parking_lot::Mutex;

use super::status::SessionStatus;
use crate::app::wiring::{Modules, Process};
use crate::audit::{Gauge, Metrics};
use crate::config::{Config, ConfigFiles, Environment, Launch, Transport};

/// How long servers go on without a session, for one that comes next.
const UNUSED: Duration = Duration::from_secs(60);

/// The largest number of sessions at once.
pub(super) const SESSIONS_MAX: usize = 256;

/// All that the shared bridge has.
#[derive(Default)]
pub(super) struct Bridges {
    groups: Mutex<Vec<Group>>,
    metrics: Arc<Metrics>,
}

/// Sessions with one configuration.
struct Group {
    /// The environment of the session that was the first.
    environment: Arc<Environment>,
    process: Arc<Process>,
    sessions: Vec<Listed>,
    /// When the last session ended; meaningless while there is one.
    unused_since: Instant,
}

/// A session, for the list of `belljar serve status`.
struct Listed {
    id: Mark,
    begun: Instant,
}

/// A session of a group, until this value is dropped.
pub(super) struct Member {
    bridges: Arc<Bridges>,
    pub(super) modules: Modules,
    pub(super) process: Arc<Process>,
    /// The ID of the session, which is that of its journal.
    pub(super) id: Mark,
}

impl Group {
    /// Whether a session with this configuration may use its servers: all on which they depend is equal.
    fn is_for(&self, config: &Config, environment: &Environment) -> bool {
        self.environment.cwd == environment.cwd
            && self.environment.has_settings_of(environment)
            && self.process.told().borrow().is_same(config)
            && inherited(config, &self.environment) == inherited(config, environment)
    }
}

/// The variables that each server inherits from an environment.
fn inherited(config: &Config, environment: &Environment) -> Vec<Inherited> {
    let launches = config.servers.iter().filter_map(|server| match &server.transport {
        Transport::Launch(launch) => Some(launch),
        Transport::Endpoint(_) => None,
    });
    let of = |launch: &Launch| {
        let sandbox = launch.sandbox.resolved(config.sandbox_servers);
        environment.inherited(launch, sandbox.as_ref())
    };
    launches.map(of).collect()
}

impl Bridges {
    /// Begins a session with this configuration, which goes on from the session with this journal if that is possible. Must be
    /// called inside a tokio runtime.
    pub(super) fn join(self: &Arc<Self>, config: &Config, files: ConfigFiles, after: Option<&str>) -> Member {
        let environment = Arc::clone(files.environment());
        let id = Mark::new();
        let listed = Listed { id: id.clone(), begun: Instant::now() };
        let mut groups = self.groups.lock();
        let process = match groups.iter_mut().find(|group| group.is_for(config, &environment)) {
            Some(group) => {
                group.sessions.push(listed);
                group.process.share_with(&environment);
                Arc::clone(&group.process)
            }
            None => {
                let process = Arc::new(Process::build(config, files, Some(Arc::clone(&self.metrics))));
                let own = Arc::clone(&process);
                groups.push(Group {
                    environment,
                    process: own,
                    sessions: vec![listed],
                    unused_since: Instant::now(),
                });
                process
            }
        };
        drop(groups);
        let modules = match after {
            Some(journal) => process.session_after(config, &id, journal),
            None => process.session(config, &id),
        };
        Member { bridges: Arc::clone(self), modules, process, id }
    }

    /// The number of sessions.
    pub(super) fn sessions(&self) -> usize {
        self.groups.lock().iter().map(|group| group.sessions.len()).sum()
    }

    /// Numbers for programs that watch belljar.
    pub(super) fn metrics(&self) -> Result<String, std::fmt::Error> {
        let groups = self.groups.lock();
        let sessions = groups.iter().map(|group| group.sessions.len()).sum::<usize>();
        let servers = groups.iter().map(|group| group.process.told().borrow().servers.len()).sum::<usize>();
        drop(groups);
        let gauge = |name, help, value: usize| Gauge { name, help, value: value as u64 };
        self.metrics.text(&[
            gauge("sessions", "The sessions that are open.", sessions),
            gauge("servers", "The servers that are configured for them.", servers),
            gauge(
                "resident_memory_bytes",
                "The memory of belljar itself.",
                resident_bytes().unwrap_or_default(),
            ),
        ])
    }

    /// The status of each session.
    pub(super) fn statuses(&self) -> Vec<SessionStatus> {
        let groups = self.groups.lock();
        let statuses = groups.iter().flat_map(|group| {
            let config = Arc::clone(&group.process.told().borrow());
            let folder = group.environment.cwd.as_deref().map(|cwd| cwd.display().to_string());
            group.sessions.iter().map(move |session| SessionStatus {
                id: format!("{:.8}", session.id.as_str()),
                age_s: session.begun.elapsed().as_secs(),
                owner: config.owner.name().map(str::to_owned),
                servers: config.servers.len(),
                folder: folder.clone(),
            })
        });
        statuses.collect()
    }

    /// Ends what no session has used for some time.
    async fn end_unused(&self) {
        let is_over = |group: &mut Group| group.sessions.is_empty() && group.unused_since.elapsed() >= UNUSED;
        let over: Vec<Group> = self.groups.lock().extract_if(.., is_over).collect();
        for group in over {
            group.process.close().await;
        }
    }

    /// Ends all servers. No session begins any more.
    pub(super) async fn close(&self) {
        let all: Vec<Group> = std::mem::take(&mut *self.groups.lock());
        futures_util::future::join_all(all.iter().map(|group| group.process.close())).await;
    }
}

/// The resident memory of this process; `None`: the system does not show it.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut groups = self.bridges.groups.lock();
        for group in groups.iter_mut() {
            group.sessions.retain(|session| session.id.as_str() != self.id.as_str());
            if Arc::ptr_eq(&group.process, &self.process) {
                group.unused_since = Instant::now();
            }
        }
        drop(groups);
        let bridges = Arc::clone(&self.bridges);
        // Without a runtime the program is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(UNUSED).await;
                bridges.end_unused().await;
            });
        }
    }
}
