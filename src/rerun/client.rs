//! A request of the client: what has to be run before it, itself, and what its code asks for after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_base::run::{FreshReason, Reset, RunOutcome, RunReport, StateNote, ToolFault};
use tokio::sync::OnceCell;

use super::own_runs::Requester;
use super::resumed::{EarlierSession, LastLoss, ResumedSession};
use crate::broker::Broker;
use crate::session::{Checkpoints, FinishedRun, RunSubmission, Session, Turn, checkpoint_error};

/// A session, and the runs before it and in it that can be run again.
pub struct Reruns {
    session: Arc<Session>,
    pub(super) broker: Arc<Broker>,
    /// What the session begins with.
    resumed: Option<ResumedSession>,
    /// The client's session before this one, once it is of use.
    pub(super) earlier: OnceCell<Option<EarlierSession>>,
    /// Whether code has resumed one in this session.
    pub(super) has_resumed: AtomicBool,
    pub(super) last_loss: LastLoss,
    /// Whether some of the session's own runs have been made again, but not all: the next run begins with them anew.
    pub(super) is_half_resumed: AtomicBool,
}

impl Reruns {
    /// `resumed`: what the session begins with.
    #[must_use]
    pub fn new(session: Arc<Session>, broker: Arc<Broker>, resumed: Option<ResumedSession>) -> Self {
        Self {
            session,
            broker,
            resumed,
            earlier: OnceCell::new(),
            has_resumed: AtomicBool::new(false),
            last_loss: LastLoss::default(),
            is_half_resumed: AtomicBool::new(false),
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(super) fn checkpoints(&self) -> &Arc<Checkpoints> {
        self.session.checkpoints()
    }

    /// Runs code; waits behind the requests before.
    ///
    /// # Errors
    /// `busy` when too many wait already, `cancelled` when it was cancelled while it waited, `internal` when the session
    /// has ended.
    pub async fn run(&self, mut submission: RunSubmission) -> Result<RunReport, ToolFault> {
        let (requester, mut turn) = (Requester::of(&submission), self.session.turn());
        let is_dry = submission.request.dry_run;
        let mut notes = vec![];
        if self.resumed.as_ref().is_some_and(ResumedSession::is_due)
            || matches!(submission.request.reset, Reset::Checkpoint(_))
        {
            turn.begin(&submission).await?;
            match self.prepare(&mut turn, &submission.request.reset, &requester).await {
                Ok(prepared) => notes = prepared,
                Err(fault) if self.resumed.as_ref().is_some_and(|resumed| resumed.is_given_up()) => {
                    if submission.request.reset == Reset::No {
                        submission.request.reset = Reset::Fresh;
                    }
                    notes = vec![format!("{}, so its variables are gone", fault.message)];
                }
                Err(fault) => return Ok(RunReport::not_started(fault)),
            }
        }
        let mut is_given_up = false;
        if submission.request.reset != Reset::No {
            self.is_half_resumed.store(false, Ordering::Relaxed);
        } else if self.is_half_resumed.load(Ordering::Relaxed) || self.has_several_engines() {
            turn.begin(&submission).await?;
            if self.is_half_resumed.load(Ordering::Relaxed) || turn.is_lost().await? {
                match self.resume_itself(&mut turn, &requester).await {
                    Ok(Ok(None)) if self.is_half_resumed.swap(false, Ordering::Relaxed) => {
                        is_given_up = true;
                        submission.request.reset = Reset::Fresh;
                        notes.push(
                            "earlier runs cannot be made once more, so their variables are gone".into(),
                        );
                    }
                    Ok(Ok(resumed)) => notes.extend(resumed),
                    Ok(Err(fault)) => {
                        is_given_up = true;
                        submission.request.reset = Reset::Fresh;
                        notes.push(format!("{}, so its variables are gone", fault.message));
                    }
                    Err(fault) => return Ok(RunReport::not_started(fault)),
                }
            }
        }
        let FinishedRun { mut report, resumes, .. } = turn.run(submission).await?;
        report.notes.extend(turn.waited());
        report.notes.extend(notes);
        if let Some(name) = report.goes_back_to.take() {
            match self.go_back(&mut turn, &name, &requester).await {
                Ok(notes) => {
                    report.state = StateNote::Restored;
                    report.notes.extend(notes);
                }
                Err(fault) => report.outcome = RunOutcome::Raised(checkpoint_error(&fault)),
            }
        }
        if is_dry {
            let saved =
                (!report.saved.is_empty()).then(|| "a dry run hands no file over to the user".to_owned());
            let folders = self.writable_folders().join(", ");
            let stays =
                (!folders.is_empty()).then(|| format!("what a dry run writes to {folders} stays there"));
            report.notes.extend(saved.into_iter().chain(stays));
        } else {
            report.notes.extend(self.session.files().hand_over(&report.saved).await);
        }
        self.tell_of_loss(&mut report).await;
        if is_given_up && report.state == StateNote::Fresh(FreshReason::Reset) {
            report.state = StateNote::Fresh(FreshReason::Lost);
        }
        if let Some(from) = resumes {
            self.resume_asked(&mut turn, &mut report, from, &requester).await;
        }
        if self.resumed.is_none() && !self.has_resumed.load(Ordering::Relaxed) {
            self.tell_of_earlier(&mut report).await;
        }
        self.tell_of_unread(&mut report);
        Ok(report)
    }

    /// Where a server is missing, names the configuration files that may have it and cannot be read. The interpreter does not
    /// know them.
    fn tell_of_unread(&self, report: &mut RunReport) {
        let RunOutcome::Raised(error) = &report.outcome else { return };
        if error.message.starts_with("Server '") && error.message.contains("' is not available") {
            let unread = self.broker.unread().into_iter().filter(|unread| !error.message.contains(unread));
            report.notes.extend(unread);
        }
    }

    /// Whether one of several engines can be lost, so that the session goes on at another one.
    fn has_several_engines(&self) -> bool {
        !self.session.wanted_now().locations.fleet().is_empty()
    }

    /// Why no run can be run again: a folder of the user's that it would write to.
    pub(super) fn mounted_writable(&self) -> Option<String> {
        let guest = self.writable_folders().into_iter().next()?;
        Some(format!("{guest} is mounted writable, and earlier runs would write to it again"))
    }

    fn writable_folders(&self) -> Vec<String> {
        let folders = self.session.wanted_now().folders.into_iter();
        folders.filter(|folder| folder.writable).map(|folder| folder.guest).collect()
    }

    /// Makes the state from which a run is to begin. Returns sentences about that.
    async fn prepare(
        &self,
        turn: &mut Turn,
        reset: &Reset,
        requester: &Requester,
    ) -> Result<Vec<String>, ToolFault> {
        let resumed = match &self.resumed {
            Some(resumed) => resumed.make_once(self, turn, requester).await?,
            None => None,
        };
        let mut notes = match reset {
            Reset::Checkpoint(name) if !self.checkpoints().sleeps(name) => {
                self.make_again(turn, name, requester).await?
            }
            _ => vec![],
        };
        notes.extend(resumed);
        Ok(notes)
    }
}
