//! Carries out what the machine has decided: sandboxes are started and closed, runs and calls sent, reports given.
//!
//! It decides nothing; what comes of it is fed back by the loop.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::calls::{self, Counted};
use super::super::machine::Effect;
use super::super::request::Ended;
use super::call_result::{answer_within, outcome, result_line};
use super::{Actor, CallEnded, Current, tell};
use crate::broker::{Answer, Call, HandlesOf, Making, RunRecord};
use crate::names::{CallId, RunId};
use crate::protocol::{CallFrame, ToWorker};
use crate::run::{CallOutcome, FaultCode, Progress, RunOutcome, ToolFault};
use crate::session::sandbox::writer::queue;
use crate::text;

/// Longest name of a call in a progress message, in characters.
const PROGRESS_CHARS_MAX: usize = 200;

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
                Effect::StartCall { call, counted, deadline } => self.start_call(call, counted, deadline),
                Effect::Refuse { call, fault } => self.answer(call, Err(fault)),
                Effect::Answer { call, value } => self.answer(call, Ok(Answer::Value(value))),
                Effect::CancelCall(call) => {
                    let never_sent = self.in_flight.cancel(call);
                    self.count_never_sent(never_sent);
                }
                Effect::EndCalls => {
                    let never_sent = self.in_flight.cancel_all();
                    self.count_never_sent(never_sent);
                    if let Some(current) = &self.current {
                        current.context.cancel.cancel();
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
                Effect::Finish(mut report) => {
                    if let Some(watchdog) = &self.watchdog {
                        watchdog.set_running(!self.jobs.is_empty());
                    }
                    self.broker.tell_effects(&mut report.calls);
                    for place in self.never_sent.drain(..) {
                        calls::end(&mut report.calls, place, CallOutcome::Refused);
                    }
                    let Some(Current { context, reply, .. }) = self.current.take() else { continue };
                    let RunRecord { planned, readings, notes, resumes, .. } = self.broker.finish(&context);
                    (report.calls.planned, report.calls.readings) = (planned, readings);
                    report.notes.extend(notes);
                    self.broker.jobs().drop_unbegun();
                    // Nobody reads the reply of a run that was cancelled: it is said in the next one.
                    if report.outcome != RunOutcome::Interrupted {
                        report.notes.extend(self.broker.jobs().news(context.id.0));
                        report.notes.extend(self.first_rootful());
                    }
                    self.broker.journal_end(&context, &mut report);
                    if reply.send(Ended { run: context.id, report: *report, resumes }).is_err() {
                        tracing::debug!("nobody waits for the run's report any more");
                    }
                }
            }
        }
    }

    /// At the end of a run, since a sandbox that is started ahead may never answer anybody.
    fn first_rootful(&mut self) -> Option<String> {
        let sandbox = self.sandbox.as_ref().filter(|_| !self.rootful_given)?;
        self.rootful_given = true;
        sandbox.first_rootful().map(str::to_owned)
    }

    fn start_sandbox(&mut self) {
        let Some(mut maker) = self.maker.take() else { return };
        self.starting = Some(tokio::spawn(async move {
            let made = maker.make().await;
            (maker, made)
        }));
    }

    fn send_run(&mut self, run: RunId, worker: u64, code: String) {
        let (Some(sandbox), Some(current)) = (&self.sandbox, &self.current) else { return };
        let servers = self.broker.run_servers(&current.context);
        sandbox.send_run(&ToWorker::Run { run, worker, code, servers });
        if let Some(watchdog) = &self.watchdog {
            watchdog.set_running(true);
        }
        tell(&current.context.progress, Progress::Started);
    }

    fn start_call(&mut self, frame: CallFrame, counted: Counted, deadline: Instant) {
        let (Some(sandbox), Some(current)) = (&self.sandbox, &mut self.current) else { return };
        let call = frame.call;
        if self.in_flight.len() >= self.limits.calls_in_flight_max || self.in_flight.contains(call) {
            let fault =
                ToolFault::new(FaultCode::Busy, "too many calls are under way, or two with one number");
            self.machine.call_ended(current.context.id, counted, CallOutcome::Refused);
            return self.answer(call, Err(fault));
        }
        let held = match self.arguments.hold(&frame) {
            Ok(held) => held,
            Err(fault) => {
                self.machine.call_ended(current.context.id, counted, CallOutcome::Refused);
                return self.answer(call, Err(fault));
            }
        };
        let tool = frame.server.as_ref().map(|server| {
            let tool = format!("{server}.{}", frame.tool);
            text::bounded(&text::inert_line(&tool), PROGRESS_CHARS_MAX).into_owned()
        });
        if let Some(tool) = &tool {
            current.calls_made += 1;
            current.tell_call(tool.clone());
        }
        let cancel = current.context.cancel.child_token();
        let sending = self.in_flight.insert(call, cancel.clone(), counted);
        let data = sandbox.data();
        let broker = Arc::clone(&self.broker);
        let line_bytes_max = self.limits.frame_to_sandbox_bytes_max;
        let run = Arc::clone(&current.context);
        self.calls.spawn(async move {
            let counted_tool = tool;
            let CallFrame { server, tool, arguments, dry_run, placeholders, handle, handles, .. } = frame;
            let making = Making::of(run.mode, dry_run, placeholders);
            let called = server.clone().filter(|_| !handle).map(|server| (server, tool.clone()));
            let handles = HandlesOf { arguments: handles, result: handle };
            let call_of_broker =
                Call { run: &run, server, tool, arguments, making, handles, deadline, sending: &sending };
            let answer = answer_within(held, &broker, call_of_broker, &cancel).await;
            let outcome = outcome(&answer);
            let wraps = called.is_some_and(|(server, tool)| broker.wraps_result(&server, &tool));
            let line = result_line((None, call, wraps), answer, line_bytes_max);
            // Nobody waits for the result of a call that was cancelled, or whose run has ended.
            queue(line, cancel, None, data).await;
            let counted = if sending.end() { counted } else { Counted::Nowhere };
            CallEnded { run: run.id, tool: counted_tool, call, counted, outcome }
        });
    }

    /// Calls that were given up before their servers had been told of them.
    fn count_never_sent(&mut self, places: impl IntoIterator<Item = Counted>) {
        let Some(run) = self.current.as_ref().map(|current| current.context.id) else { return };
        for place in places {
            // After the end of the run its report is what counts them.
            if !self.machine.call_ended(run, place, CallOutcome::Refused) {
                self.never_sent.push(place);
            }
        }
    }

    /// Answers a call at once; behind results that the sandbox has not taken yet, as many answers may wait as calls may be
    /// under way: one that keeps to its window of calls needs no more, and for one that does not nothing is kept.
    fn answer(&mut self, call: CallId, answer: Result<Answer, ToolFault>) {
        let Some(sandbox) = &self.sandbox else { return };
        while self.answers.try_join_next().is_some() {}
        if self.answers.len() >= self.limits.calls_in_flight_max {
            tracing::debug!("an answer was left out");
            return;
        }
        let line = result_line((None, call, false), answer, self.limits.frame_to_sandbox_bytes_max);
        self.answers.spawn(queue(line, CancellationToken::new(), None, sandbox.data()));
    }
}
