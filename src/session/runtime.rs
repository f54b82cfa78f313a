//! The Python runtime that is streamed into the sandbox, embedded so that both ends are always of one version.

use std::collections::BTreeMap;

use crate::protocol::bundle_line;

/// Passed to `python3 -c`: reads the bundle and runs it.
pub const BOOTSTRAP: &str = include_str!("../../entrypoint/bootstrap.py");

/// The module whose `main()` becomes PID 1.
const MAIN: &str = "hotcell_sandbox.ahead";

macro_rules! embedded {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../entrypoint/", $path)))),*]
    };
}

/// The first line towards a new sandbox: all files of the runtime.
#[must_use]
pub fn bundle() -> Vec<u8> {
    let files = embedded![
        "hotcell_sandbox/__init__.py",
        "hotcell_sandbox/account.py",
        "hotcell_sandbox/after_import.py",
        "hotcell_sandbox/ahead.py",
        "hotcell_sandbox/arguments.py",
        "hotcell_sandbox/aside.py",
        "hotcell_sandbox/awaitable.py",
        "hotcell_sandbox/awaiting.py",
        "hotcell_sandbox/bindings.py",
        "hotcell_sandbox/blocking_asyncio.py",
        "hotcell_sandbox/call_check.py",
        "hotcell_sandbox/calls.py",
        "hotcell_sandbox/channel.py",
        "hotcell_sandbox/checkpoints.py",
        "hotcell_sandbox/child.py",
        "hotcell_sandbox/chunks.py",
        "hotcell_sandbox/denials.py",
        "hotcell_sandbox/diagnostics.py",
        "hotcell_sandbox/effects.py",
        "hotcell_sandbox/event_loop.py",
        "hotcell_sandbox/figures.py",
        "hotcell_sandbox/forking.py",
        "hotcell_sandbox/frames.py",
        "hotcell_sandbox/free_names.py",
        "hotcell_sandbox/frozen_copy.py",
        "hotcell_sandbox/handles.py",
        "hotcell_sandbox/handover.py",
        "hotcell_sandbox/hints.py",
        "hotcell_sandbox/html_text.py",
        "hotcell_sandbox/images.py",
        "hotcell_sandbox/import_room.py",
        "hotcell_sandbox/interpreter.py",
        "hotcell_sandbox/interrupts.py",
        "hotcell_sandbox/job_handles.py",
        "hotcell_sandbox/jobs.py",
        "hotcell_sandbox/json_reader.py",
        "hotcell_sandbox/kept_skills.py",
        "hotcell_sandbox/kernel.py",
        "hotcell_sandbox/landlock.py",
        "hotcell_sandbox/languages.py",
        "hotcell_sandbox/limits.py",
        "hotcell_sandbox/literal_calls.py",
        "hotcell_sandbox/models.py",
        "hotcell_sandbox/native.py",
        "hotcell_sandbox/origin.py",
        "hotcell_sandbox/outbox.py",
        "hotcell_sandbox/output_record.py",
        "hotcell_sandbox/packages.py",
        "hotcell_sandbox/patience.py",
        "hotcell_sandbox/pictures.py",
        "hotcell_sandbox/placeholder.py",
        "hotcell_sandbox/plan.py",
        "hotcell_sandbox/posture.py",
        "hotcell_sandbox/processes.py",
        "hotcell_sandbox/programs.py",
        "hotcell_sandbox/proxies.py",
        "hotcell_sandbox/reading.py",
        "hotcell_sandbox/report.py",
        "hotcell_sandbox/resources.py",
        "hotcell_sandbox/results.py",
        "hotcell_sandbox/saved_files.py",
        "hotcell_sandbox/search_results.py",
        "hotcell_sandbox/seccomp.py",
        "hotcell_sandbox/skill_call.py",
        "hotcell_sandbox/skill_check.py",
        "hotcell_sandbox/skill_definitions.py",
        "hotcell_sandbox/skill_saving.py",
        "hotcell_sandbox/skill_sources.py",
        "hotcell_sandbox/skills.py",
        "hotcell_sandbox/sources.py",
        "hotcell_sandbox/spawning.py",
        "hotcell_sandbox/state.py",
        "hotcell_sandbox/streams.py",
        "hotcell_sandbox/stubs.py",
        "hotcell_sandbox/supervisor.py",
        "hotcell_sandbox/tables.py",
        "hotcell_sandbox/text.py",
        "hotcell_sandbox/time_travel.py",
        "hotcell_sandbox/to_host.py",
        "hotcell_sandbox/unawaited.py",
        "hotcell_sandbox/values.py",
        "hotcell_sandbox/worker.py",
        "hotcell_sandbox/workspace.py",
        "mcp/__init__.py",
        "mcp/runtime.py",
        "mcp/servers/__init__.py",
    ];
    bundle_line(&BTreeMap::from(files), MAIN)
}
