//! The Python runtime that is streamed into the sandbox, embedded so that both ends are always of one version.

use std::collections::BTreeMap;

use crate::protocol::bundle_line;

/// Passed to `python3 -c`: reads the bundle and runs it.
pub const BOOTSTRAP: &str = include_str!("../../entrypoint/bootstrap.py");

/// The module whose `main()` becomes PID 1.
const MAIN: &str = "belljar_sandbox.ahead";

macro_rules! embedded {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../entrypoint/", $path)))),*]
    };
}

/// The first line towards a new sandbox: all files of the runtime.
#[must_use]
pub fn bundle() -> Vec<u8> {
    let files = embedded![
        "belljar_sandbox/__init__.py",
        "belljar_sandbox/account.py",
        "belljar_sandbox/after_import.py",
        "belljar_sandbox/ahead.py",
        "belljar_sandbox/arguments.py",
        "belljar_sandbox/aside.py",
        "belljar_sandbox/awaitable.py",
        "belljar_sandbox/awaiting.py",
        "belljar_sandbox/bindings.py",
        "belljar_sandbox/blocking_asyncio.py",
        "belljar_sandbox/call_check.py",
        "belljar_sandbox/calls.py",
        "belljar_sandbox/channel.py",
        "belljar_sandbox/checkpoints.py",
        "belljar_sandbox/child.py",
        "belljar_sandbox/chunks.py",
        "belljar_sandbox/denials.py",
        "belljar_sandbox/diagnostics.py",
        "belljar_sandbox/effects.py",
        "belljar_sandbox/event_loop.py",
        "belljar_sandbox/figures.py",
        "belljar_sandbox/forking.py",
        "belljar_sandbox/frames.py",
        "belljar_sandbox/free_names.py",
        "belljar_sandbox/frozen_copy.py",
        "belljar_sandbox/handles.py",
        "belljar_sandbox/handover.py",
        "belljar_sandbox/hints.py",
        "belljar_sandbox/html_text.py",
        "belljar_sandbox/images.py",
        "belljar_sandbox/import_room.py",
        "belljar_sandbox/interpreter.py",
        "belljar_sandbox/interrupts.py",
        "belljar_sandbox/job_handles.py",
        "belljar_sandbox/jobs.py",
        "belljar_sandbox/json_reader.py",
        "belljar_sandbox/kept_skills.py",
        "belljar_sandbox/kernel.py",
        "belljar_sandbox/landlock.py",
        "belljar_sandbox/languages.py",
        "belljar_sandbox/limits.py",
        "belljar_sandbox/literal_calls.py",
        "belljar_sandbox/models.py",
        "belljar_sandbox/native.py",
        "belljar_sandbox/origin.py",
        "belljar_sandbox/outbox.py",
        "belljar_sandbox/output_record.py",
        "belljar_sandbox/packages.py",
        "belljar_sandbox/patience.py",
        "belljar_sandbox/pictures.py",
        "belljar_sandbox/placeholder.py",
        "belljar_sandbox/plan.py",
        "belljar_sandbox/posture.py",
        "belljar_sandbox/processes.py",
        "belljar_sandbox/programs.py",
        "belljar_sandbox/proxies.py",
        "belljar_sandbox/reading.py",
        "belljar_sandbox/report.py",
        "belljar_sandbox/resources.py",
        "belljar_sandbox/results.py",
        "belljar_sandbox/saved_files.py",
        "belljar_sandbox/search_results.py",
        "belljar_sandbox/seccomp.py",
        "belljar_sandbox/skill_call.py",
        "belljar_sandbox/skill_check.py",
        "belljar_sandbox/skill_definitions.py",
        "belljar_sandbox/skill_saving.py",
        "belljar_sandbox/skill_sources.py",
        "belljar_sandbox/skills.py",
        "belljar_sandbox/sources.py",
        "belljar_sandbox/spawning.py",
        "belljar_sandbox/state.py",
        "belljar_sandbox/streams.py",
        "belljar_sandbox/stubs.py",
        "belljar_sandbox/supervisor.py",
        "belljar_sandbox/tables.py",
        "belljar_sandbox/text.py",
        "belljar_sandbox/time_travel.py",
        "belljar_sandbox/to_host.py",
        "belljar_sandbox/unawaited.py",
        "belljar_sandbox/values.py",
        "belljar_sandbox/worker.py",
        "belljar_sandbox/workspace.py",
        "mcp/__init__.py",
        "mcp/runtime.py",
        "mcp/servers/__init__.py",
    ];
    bundle_line(&BTreeMap::from(files), MAIN)
}
