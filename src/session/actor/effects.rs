//! Carries out the machine's effects: starts and closes sandboxes, sends runs and calls, gives reports.
//!
//! It decides nothing; the actor's loop feeds the results back into the machine.

use belljar_base::names::RunId;
use belljar_base::run::{Progress, RunOutcome, ToolCalls};
use belljar_protocol::ToWorker;

use super::super::machine::Effect;
use super::super::request::FinishedRun;
use super::call_lane::CallLane;
use super::{Actor, Current};
use crate::broker::{Answer, RunRecord};
use crate::render::calls_made;

impl Actor {
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::StartSandbox => self.start_sandbox(),
                Effect::Send(frame) => {
                    if let Some(sandbox) = &self.sandbox {
                        sandbox.send(&frame);
                    }
                }
                Effect::SendRun { run, worker, code } => self.send_run(run, worker, code),
                Effect::StartCall { call, deadline } => self.start_call(None, call, deadline),
                Effect::Refuse { call, fault } => self.answer(None, call, Err(fault)),
                Effect::Answer { call, value } => self.answer(None, call, Ok(Answer::Value(value))),
                Effect::CancelCall(call) => {
                    if let Some(current) = &mut self.current {
                        current.lane.cancel(call);
                    }
                }
                Effect::EndCalls => {
                    if let Some(current) = &mut self.current {
                        current.lane.cancel_all();
                    }
                }
                Effect::EndJobs { why } => self.end_jobs(&why),
                Effect::CloseSandbox => {
                    self.lose_jobs("its sandbox is gone");
                    self.watchdog = None;
                    self.checkpoints.lost();
                    if let Some(sandbox) = self.sandbox.take() {
                        self.closings.spawn(sandbox.close());
                    }
                }
                Effect::SnapshotDone(end) => {
                    if self.snapshot.take().is_some_and(|reply| reply.send(end).is_err()) {
                        tracing::debug!("nobody waits for the snapshot any more");
                    }
                }
                Effect::Finish(mut report) => {
                    if let Some(watchdog) = &self.watchdog {
                        watchdog.set_running(!self.jobs.is_empty());
                    }
                    let Some(Current { lane: CallLane { context, .. }, reply, .. }) = self.current.take()
                    else {
                        continue;
                    };
                    let RunRecord { calls, notes, resumes, .. } = self.broker.finish(&context);
                    report.calls = calls;
                    report.notes.extend(notes);
                    self.broker.jobs().drop_unbegun();
                    // Nobody reads the reply of a cancelled run, so these notes wait for the next one.
                    if report.outcome != RunOutcome::Interrupted {
                        report.notes.extend(self.broker.jobs().news(context.id.0));
                        report.notes.extend(self.first_rootful());
                    }
                    let is_sent = |tool: &ToolCalls| tool.counts.total() > tool.counts.refused;
                    if report.outcome == RunOutcome::Interrupted
                        && report.calls.of_tools.iter().any(is_sent)
                        && let Some(made) = calls_made(&report)
                    {
                        self.machine
                            .note(format!("run {}, which the client cancelled: {made}", context.id.0));
                    }
                    self.broker.journal_end(&context, &mut report);
                    if reply.send(FinishedRun { run: context.id, report: *report, resumes }).is_err() {
                        tracing::debug!("nobody waits for the run's report any more");
                    }
                }
            }
        }
    }

    /// The notice about a rootful engine, the first time. It is given at the end of a run, since a sandbox that was
    /// started ahead may never have a run.
    fn first_rootful(&mut self) -> Option<String> {
        let sandbox = self.sandbox.as_ref().filter(|_| !self.rootful_given)?;
        self.rootful_given = true;
        sandbox.first_rootful().map(str::to_owned)
    }

    fn start_sandbox(&mut self) {
        let Some(mut starter) = self.starter.take() else { return };
        self.starting = Some(tokio::spawn(async move {
            let made = starter.start().await;
            (starter, made)
        }));
    }

    fn send_run(&mut self, run: RunId, worker: u64, code: String) {
        let (Some(sandbox), Some(current)) = (&self.sandbox, &self.current) else { return };
        let servers = self.broker.run_servers(&current.lane.context);
        let images_as_files = current.lane.context.human.abilities.images_as_files;
        sandbox.send_run(&ToWorker::Run { run, worker, code, servers, images_as_files });
        if let Some(watchdog) = &self.watchdog {
            watchdog.set_running(true);
        }
        current.lane.context.tell(Progress::Started);
    }
}
