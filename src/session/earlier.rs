//! What a session says and does of those before it: that their variables are gone, and, when code asks, their runs once more.
//!
//! Which sessions there are is the journal's knowledge, and how runs are made once more that of `again`.

use std::collections::HashSet;

use super::again::{Resumed, why_not};
use super::handle::Session;
use super::remade::Asker;
use crate::journal::Sessions;
use crate::run::{FaultCode, FreshReason, PythonError, RunOutcome, RunReport, StateNote, ToolFault};

/// Tells how the earlier one is resumed.
const RESUME: &str = "runtime.resume(\"last\") makes the last session's variables again";

/// The last session of the client, before this one.
pub(super) struct Earlier {
    /// All words of its code.
    words: HashSet<String>,
    can_be_resumed: bool,
}

impl Session {
    /// Where a name is missing that the last session knew, says that this is another session.
    pub(super) async fn tell_of_earlier(&self, report: &mut RunReport) {
        let RunOutcome::Raised(error) = &report.outcome else { return };
        if !matches!(report.state, StateNote::Kept | StateNote::Fresh(FreshReason::First)) {
            return;
        }
        let Some(name) = missing_name(error) else { return };
        let earlier = self.earlier.get_or_init(|| self.read_earlier()).await;
        if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.words.contains(name)) {
            report.state = StateNote::Fresh(FreshReason::NewSession);
            report.notes.extend(earlier.can_be_resumed.then(|| RESUME.to_owned()));
        }
    }

    async fn read_earlier(&self) -> Option<Earlier> {
        let (sessions, own) = self.broker.journal().among()?;
        let read = tokio::task::spawn_blocking(move || {
            let id = sessions.earlier_than(&own, Sessions::LAST).ok()?;
            sessions.read(&id).ok()
        });
        let last = read.await.ok()??;
        let words = last.runs.iter().flat_map(|run| words(&run.begun.code)).map(str::to_owned).collect();
        let can_be_resumed = last.damage.is_none() && last.runs.iter().all(|run| why_not(run).is_none());
        Some(Earlier { words, can_be_resumed })
    }

    /// Makes the runs again of the session that the code has asked for, now that its own run has ended.
    pub(super) async fn resume_asked(&self, report: &mut RunReport, asker: &Asker) {
        let Some((of, until)) = self.broker.take_resumed() else { return };
        if !matches!(report.outcome, RunOutcome::Finished | RunOutcome::Exited { exit_code: 0 }) {
            return;
        }
        let id = Sessions::short(&of.begun.id);
        let settings = self.wanted_now();
        let cannot = of.runs.iter().filter(|run| run.begun.run <= until).find_map(why_not).or_else(|| {
            let folder = settings.folders.iter().find(|folder| folder.writable)?;
            Some(format!("{} is mounted writable, and its runs would write there again", folder.guest))
        });
        let made = match cannot {
            Some(why) => Err(ToolFault::new(
                FaultCode::SandboxUnavailable,
                format!("session {id} cannot be resumed: {why}"),
            )
            .hint("variables are as before")),
            None => {
                let resumed = Resumed::within((of, until), settings.workspace.name.is_some());
                resumed.make(self, asker).await.and_then(|made| made)
            }
        };
        match made {
            Ok(said) => report.notes.push(said),
            Err(fault) => {
                report.outcome = RunOutcome::Raised(PythonError {
                    class: "mcp.runtime.MCPError".into(),
                    message: fault.message,
                    traceback: String::new(),
                    line: None,
                    hint: fault.hint,
                });
            }
        }
    }
}

/// The name that code has used and that there is not.
fn missing_name(error: &PythonError) -> Option<&str> {
    let said = error.message.strip_prefix("name '").filter(|_| error.class == "NameError")?;
    said.split_once("' is not defined").map(|(name, _)| name)
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}
