//! The calls of a run as the reader of a failed one needs them: what was done already, and what may have been.
//!
//! A run that succeeded says nothing of its calls but those whose outcome is unknown.

use belljar_base::run::{CallCounts, DryRunReason, RunReport, ToolCalls, ToolEffect};
use belljar_base::text::name_in_sentence;
use serde_json::{Map, Value, json};

use super::fitting::grouped;
use super::verdict::{Verdict, verdict};

/// Tools that are named from the beginning of the run, and from its end.
const SHOWN_AT_EACH_END: usize = 5;
/// Longest name of a tool, in characters.
const NAME_CHARS_MAX: usize = 80;
/// Tools whose calls a dry run has left out that are named.
const NOT_MADE_SHOWN_MAX: usize = 5;
/// Servers' tools that are named in the warning.
const UNKNOWN_SHOWN_MAX: usize = 5;

/// The calls that a failed run has made, in one line; a tool that its server does not mark as read-only has a star.
#[must_use]
pub fn calls_made(report: &RunReport) -> Option<String> {
    let overview = CallOverview::of(report)?;
    let mut shown: Vec<String> = overview.first.iter().map(of_tool).collect();
    if overview.left_out.total() > 0 {
        shown.push(format!("… other tools: {} …", counted(overview.left_out, ToolEffect::MayWrite)));
    }
    shown.extend(overview.last.iter().map(of_tool));
    let tools = || overview.first.iter().chain(overview.last);
    let legend = if overview.left_out.total() > 0 || tools().any(is_unmarked) {
        " (* not marked read-only)"
    } else {
        ""
    };
    Some(format!("calls made: {}{legend}", shown.join(", ")))
}

/// The same as data: the tools, and how many calls there were in all.
pub(super) fn insert_calls_made(report: &RunReport, fields: &mut Map<String, Value>) {
    let Some(overview) = CallOverview::of(report) else { return };
    let tools = overview.first.iter().chain(overview.last).map(|tool| {
        let CallCounts { answered, failed, refused, unknown } = tool.counts;
        json!({
            "tool": name(tool), "ok": answered, "failed": failed, "unknown": unknown, "notSent": refused,
            "notMarkedReadOnly": is_unmarked(tool)
        })
    });
    fields.insert("calls".into(), tools.collect());
    fields.insert("callsMade".into(), json!(overview.total));
}

/// A warning when calls were cut off: repeating them could do things twice, unless their tools only read.
#[must_use]
pub fn calls_with_unknown_outcome(report: &RunReport) -> Option<String> {
    let tools: Vec<&ToolCalls> =
        report.calls.of_tools.iter().filter(|tool| tool.counts.unknown > 0 && is_unmarked(tool)).collect();
    let shown = tools.iter().take(UNKNOWN_SHOWN_MAX).map(|tool| match tool.counts.unknown {
        1 => name(tool),
        times => format!("{} × {}", name(tool), grouped(times)),
    });
    let shown: Vec<String> = shown.collect();
    let more: u64 = tools.iter().skip(UNKNOWN_SHOWN_MAX).map(|tool| tool.counts.unknown).sum();
    let more = match more + report.calls.others.unknown {
        0 if shown.is_empty() => return None,
        0 => String::new(),
        more => format!(" and {} more", grouped(more)),
    };
    Some(format!("calls with unknown outcome (they may have taken effect): {}{more}", shown.join(", ")))
}

/// The number of calls that a dry run has not sent, their tools, and the reasons. Code got placeholders for their results.
pub(super) fn calls_not_made(report: &RunReport) -> Option<String> {
    let planned = &report.calls.planned;
    let count = planned.calls.len() as u64 + planned.further;
    if count == 0 {
        return None;
    }
    let mut tools: Vec<(String, DryRunReason, u64)> = Vec::new();
    for call in &planned.calls {
        let job = call.job.map(|job| format!("job {job}: ")).unwrap_or_default();
        let tool = name_in_sentence(&format!("{}.{}", call.server, call.tool), NAME_CHARS_MAX);
        let name = format!("{job}{tool}");
        match tools.iter_mut().find(|(known, why, _)| *known == name && *why == call.why) {
            Some((_, _, times)) => *times += 1,
            None => tools.push((name, call.why, 1)),
        }
    }
    let shown = tools.iter().take(NOT_MADE_SHOWN_MAX).map(|(name, why, times)| {
        let times = if *times == 1 { String::new() } else { format!(" × {}", grouped(*times)) };
        let why = match why {
            DryRunReason::NotMarkedReadOnly => "its server does not mark it read-only",
            DryRunReason::NeedsPlaceholder => "an argument is a placeholder",
            DryRunReason::Helper => "a dry run never calls it",
        };
        format!("{name}{times} ({why})")
    });
    let mut shown: Vec<String> = shown.collect();
    let more =
        tools.iter().skip(NOT_MADE_SHOWN_MAX).map(|(_, _, times)| times).sum::<u64>() + planned.further;
    if more > 0 {
        shown.push(format!("{} more", grouped(more)));
    }
    let (count, shown) = (grouped(count), shown.join(", "));
    Some(format!("dry run, calls that were not made: {count}; placeholders stand for their results: {shown}"))
}

/// The calls of a failed run that its reply lists.
struct CallOverview<'a> {
    first: &'a [ToolCalls],
    left_out: CallCounts,
    last: &'a [ToolCalls],
    total: u64,
}

impl<'a> CallOverview<'a> {
    /// Nothing of a run that succeeded, or made no call.
    fn of(report: &'a RunReport) -> Option<Self> {
        let tools = report.calls.of_tools.as_slice();
        if verdict(report) == Verdict::Success || tools.is_empty() {
            return None;
        }
        let first = tools.len().min(SHOWN_AT_EACH_END);
        let last = tools.len().saturating_sub(SHOWN_AT_EACH_END).max(first);
        let left_out = sum(tools[first..last].iter().map(|tool| tool.counts).chain([report.calls.others]));
        let total = sum(tools.iter().map(|tool| tool.counts).chain([report.calls.others])).total();
        Some(Self { first: &tools[..first], left_out, last: &tools[last..], total })
    }
}

fn sum(counts: impl Iterator<Item = CallCounts>) -> CallCounts {
    counts.fold(CallCounts::default(), |sum, next| CallCounts {
        answered: sum.answered + next.answered,
        failed: sum.failed + next.failed,
        refused: sum.refused + next.refused,
        unknown: sum.unknown + next.unknown,
    })
}

fn of_tool(tool: &ToolCalls) -> String {
    let mark = if is_unmarked(tool) { "*" } else { "" };
    format!("{}{mark} {}", name(tool), counted(tool.counts, tool.effect))
}

/// Whether calls were sent to a tool that its server does not mark as read-only. A call that was not sent changed nothing.
fn is_unmarked(tool: &ToolCalls) -> bool {
    tool.effect == ToolEffect::MayWrite && tool.counts.total() > tool.counts.refused
}

fn name(tool: &ToolCalls) -> String {
    name_in_sentence(&format!("{}.{}", tool.server, tool.tool), NAME_CHARS_MAX)
}

/// The counts in words, such as `2 ok 1 failed`, without those that are zero. A call that only reads has no outcome but its answer.
fn counted(counts: CallCounts, effect: ToolEffect) -> String {
    let CallCounts { answered, failed, refused, unknown } = counts;
    let unanswered = if effect == ToolEffect::Reads { "without an answer" } else { "of unknown outcome" };
    let counts = [(answered, "ok"), (failed, "failed"), (unknown, unanswered), (refused, "not sent")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, outcome)| format!("{} {outcome}", grouped(count))).collect::<Vec<_>>().join(" ")
}
