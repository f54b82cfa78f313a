//! Code asks to resume an earlier session: which one that is, until the run that asks has ended.
//!
//! It runs nothing. The session does that, as for one that begins with the runs of another.

use std::sync::PoisonError;

use serde::Deserialize;
use serde_json::Value;

use super::call::Call;
use super::state::Broker;
use crate::config::ResumeFrom;
use crate::journal::{RecordedSession, SessionsError};
use crate::run::{FaultCode, ToolFault};

impl Broker {
    /// The session that the run which has just ended asks for, and the last run of it that counts.
    pub fn take_resumed(&self) -> Option<(RecordedSession, u64)> {
        self.resumes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) async fn resume_session(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            session: String,
        }
        let Arguments { session } = self.read(call)?;
        let cannot = |why: String| {
            ToolFault::new(FaultCode::SandboxUnavailable, format!("no session can be resumed: {why}"))
        };
        if call.job.is_some() {
            return Err(cannot("a job cannot resume one, a run can".into()));
        }
        let from: ResumeFrom = session.parse().map_err(|why| cannot(format!("the name {why}")))?;
        let (sessions, own) =
            self.journal.among().ok_or_else(|| cannot("the user keeps no journals of sessions".into()))?;
        let found = tokio::task::spawn_blocking(move || {
            let id = sessions.earlier_than(&own, &from.session)?;
            Ok::<_, SessionsError>((sessions.read(&id)?, from.until.unwrap_or(u64::MAX)))
        });
        let found = found.await.map_err(|error| cannot(error.to_string()))?;
        let found = found.map_err(|error| cannot(error.to_string()))?;
        *self.resumes.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(Value::Null)
    }
}
