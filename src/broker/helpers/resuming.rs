//! The helper by which code asks to resume an earlier session. It only finds that session and adds it to the run's
//! record.
//!
//! It runs nothing. After the run has ended, the session replays the runs of the earlier session, as it does when
//! belljar is started to resume one.

use belljar_base::run::{FaultCode, ToolFault};
use serde::Deserialize;
use serde_json::Value;

use crate::broker::call::Call;
use crate::broker::parts::Broker;
use crate::config::ResumeFrom;
use crate::journal::{RecordedSession, Sessions, SessionsError};

impl Broker {
    pub(super) async fn resume_session(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            session: String,
        }
        let Arguments { session } = self.read(call)?;
        let cannot = |why: String| {
            ToolFault::new(FaultCode::SandboxUnavailable, format!("no session can be resumed: {why}"))
        };
        if call.run().job_number().is_some() {
            return Err(cannot("a job cannot resume one, a run can".into()));
        }
        let from: ResumeFrom = session.parse().map_err(|why| cannot(format!("the name {why}")))?;
        let (sessions, own) =
            self.journal.among().ok_or_else(|| cannot("the user keeps no journals of sessions".into()))?;
        let found = tokio::task::spawn_blocking(move || {
            if let Some(found) = of_own(&sessions, &own, &from) {
                return found;
            }
            let of_earlier = || {
                let id = sessions.earlier_than(&own, &from.session)?;
                Ok::<_, SessionsError>((sessions.read(&id)?, from.until.unwrap_or(u64::MAX)))
            };
            of_earlier().map_err(|error| error.to_string())
        });
        let found = found.await.map_err(|error| cannot(error.to_string()))?.map_err(cannot)?;
        call.run().with_record(|record| record.resumes = Some(found));
        Ok(Value::Null)
    }
}

/// The runs of this session itself, and the last one to replay. Code asks for them by the session's own name, or by
/// "last" after the previous interpreter was stopped or lost. `None`: code means an earlier session.
fn of_own(
    sessions: &Sessions,
    own: &str,
    from: &ResumeFrom,
) -> Option<Result<(RecordedSession, u64), String>> {
    let is_last = from.session == Sessions::LAST;
    if !is_last && sessions.find(&from.session).ok().as_deref() != Some(own) {
        return None;
    }
    let mut recorded = match sessions.read(own) {
        Ok(recorded) => recorded,
        Err(_) if is_last => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    let lost = recorded.last_run_before_loss();
    if is_last && lost.is_none() {
        return None;
    }
    let id = Sessions::short(own);
    let Some(until) = from.until.or(lost) else {
        return Some(Err(format!(
            "session {id} is this one, and its variables are here; \"{id}:N\" goes back to the end of run N"
        )));
    };
    let Some(runs) = recorded.leading_to(until).map(|runs| runs.into_iter().cloned().collect()) else {
        return Some(Err(format!("session {id}, which is this one, has no run {until}")));
    };
    recorded.runs = runs;
    Some(Ok((recorded, until)))
}
