//! Every bound of the bridge in one struct, each named with its unit.
//!
//! It does not read configuration: `config` fills the few bounds that an operator may change.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Declares each bound once: its meaning, its type, and what an unconfigured bridge uses.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $value:expr,)*) => {
        /// All bounds. `Limits::default()` is what an unconfigured bridge uses.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }
    };
}

limits! {
    /// Longest line towards the sandbox, line feed included: a tool result of 32 MB fits with its JSON escapes.
    frame_to_sandbox_bytes_max: usize = 64 * MIB,
    /// Bytes for the worker that may be under way unread. A longest line fits also when the worker has read all but what
    /// the supervisor tells of: it does so after each 8 MiB.
    unread_in_sandbox_bytes_max: usize = 72 * MIB,
    /// Longest line from the sandbox, line feed included.
    frame_to_bridge_bytes_max: usize = 16 * MIB,
    /// Deepest nesting of JSON accepted from any peer.
    json_depth_max: usize = 128,
    /// Most values and keys of JSON that are made into a tree at once: of a call's arguments, of a server's list, of a
    /// message from a client or server. Each takes up to 80 bytes of memory, and as little as two of a line. Among a call's
    /// arguments an object counts as eight.
    json_values_max: usize = 1_000_000,
    /// Files and folders of one mounted folder that are searched for named pipes, sockets and devices; a folder with more
    /// is not mounted.
    mount_entries_max: usize = 1_000_000,
    /// How long the search of one mounted folder may take; one that takes longer is not mounted.
    mount_search: Duration = Duration::from_secs(5),
    /// File descriptors of the interpreter.
    sandbox_open_files_max: u64 = 1024,
    /// Longest `code` of one run, in bytes.
    code_bytes_max: usize = 4 * MIB,
    /// Longest JSON of one call's arguments, in bytes.
    arguments_bytes_max: usize = 8 * MIB,
    /// Bytes of large arguments of one run's calls that are worked on at once. As many more are held in memory, and further
    /// calls are refused; the sandbox keeps calls back that exceed it.
    arguments_in_flight_bytes_max: usize = 32 * MIB,
    /// The same of one job's calls.
    arguments_in_flight_per_job_bytes_max: usize = 8 * MIB,
    /// Bytes of large arguments that all runs and jobs of all sessions of a process hold; further calls are refused.
    arguments_in_flight_of_all_bytes_max: usize = 256 * MIB,
    /// Arguments with at most so many bytes are not large, and count for none of these bounds.
    small_arguments_bytes_max: usize = 64 * KIB,
    /// Runs that may wait behind the running one; one more is refused.
    runs_queued_max: usize = 16,
    /// Calls of one run that may be under way at once; more wait in the sandbox.
    calls_in_flight_max: usize = 64,
    /// Calls that one server may work on at once; more wait in the bridge.
    calls_in_flight_per_server_max: usize = 32,
    /// Bytes of a run's output kept from its beginning, of each stream.
    output_head_bytes_max: usize = 64 * KIB,
    /// Bytes of a run's output kept from its end, of each stream.
    output_tail_bytes_max: usize = 64 * KIB,
    /// Images of one run that are passed on.
    images_max: usize = 4,
    /// Bytes (base64) of one run's images that are passed on.
    images_bytes_max: usize = 2 * MIB,
    /// How long a run gets after the interrupt before its interpreter is killed.
    grace: Duration = Duration::from_secs(2),
    /// How long a sandbox that was started may take to its handshake. What the engine is asked before has bounds of its own.
    sandbox_start: Duration = Duration::from_secs(30),
    /// How long the interpreter may take to be replaced before the container is given up: longer than the supervisor needs
    /// to kill everything that is left of the old one on a busy machine and to wake its frozen copy.
    replace: Duration = Duration::from_secs(10),
    /// How long one request to the engine may take, of those that a sandbox needs.
    engine_request: Duration = Duration::from_secs(10),
    /// How often the usage of a sandbox is read whose limits the engine does not enforce, while a run is under way.
    watch_running: Duration = Duration::from_millis(25),
    /// The same between runs.
    watch_idle: Duration = Duration::from_millis(100),
    /// How long a report of an excess waits for a busy bridge before the watch ends the sandbox itself.
    watch_unheard: Duration = Duration::from_millis(500),
    /// Silence after which the supervisor takes the bridge for dead, when it does not see its end otherwise.
    heartbeat: Duration = Duration::from_secs(12),
    /// How long a lost connection to a sandbox on another machine is tried again.
    reconnection: Duration = Duration::from_secs(150),
    /// Between two heartbeats: a bridge that stands still for 10 s after the last of them is not taken for dead.
    heartbeat_pause: Duration = Duration::from_millis(1500),
    /// How long a server may take to start and answer `initialize` and `tools/list`.
    server_start: Duration = Duration::from_secs(30),
    /// The longest start of a server whose command may have to install it first, as long as that command works.
    server_installation: Duration = Duration::from_secs(300),
    /// Longest line from a server, line feed included.
    server_line_bytes_max: usize = 64 * MIB,
    /// Largest body over HTTP that is read while others are, in bytes.
    http_small_body_bytes_max: usize = MIB,
    /// Larger bodies, of all remote servers, that are read at once; the others wait where they come from.
    http_large_bodies_at_once_max: usize = 2,
    /// How long a larger body may take once it is being read.
    http_large_body: Duration = Duration::from_secs(120),
    /// Bytes of a server's stderr that are kept for error messages.
    server_stderr_bytes_max: usize = 64 * KIB,
    /// Largest question of a server for the human or their model, in bytes of JSON.
    server_request_bytes_max: usize = 256 * KIB,
    /// Such questions that one run passes on.
    server_requests_per_run_max: usize = 20,
    /// Pages that are read of a list of tools, resources, templates of these, or prompts.
    tool_pages_max: usize = 1000,
    /// Bytes of JSON of one such list that are kept.
    tool_list_bytes_max: usize = 32 * MIB,
    /// Tools of one server that are kept; as many of the others.
    tools_per_server_max: usize = 10_000,
    /// Shortest time for which a list of tools holds, whatever its server says.
    listing_fresh_min: Duration = Duration::from_secs(5),
    /// Servers that are asked for their tools at once, when nothing is known of them.
    servers_indexed_at_once_max: usize = 8,
    /// For how long one of them that does not answer keeps a further one from being asked.
    slow_index: Duration = Duration::from_secs(1),
    /// How long code waits for the servers that it calls, when no server's tools are known.
    first_index: Duration = Duration::from_secs(3),
    /// How long a search or a list of all tools waits for servers that are asked for the first time.
    search_wait: Duration = Duration::from_secs(5),
    /// The same for servers that the search names.
    search_wait_named: Duration = Duration::from_secs(10),
    /// How long a call waits for a human who has to be asked.
    approval: Duration = Duration::from_secs(600),
    /// Calls of one run that a human is asked about.
    approvals_per_run_max: usize = 20,
    /// How long one run waits for its human, all questions together: so long its time stands still.
    waiting_per_run: Duration = Duration::from_secs(1800),
    /// How much longer they wait for the others, once those are known that matter most.
    further_index: Duration = Duration::from_millis(150),
    /// Largest file of one server's tools that is kept, in bytes.
    catalog_entry_bytes_max: usize = 8 * MIB,
    /// Such files that are kept, those of configured servers in any case.
    catalog_entries_max: usize = 2_000,
    /// The same of their bytes.
    catalog_bytes_max: u64 = 256 * MIB as u64,
    /// Longest line from the client, line feed included.
    client_line_bytes_max: usize = 16 * MIB,
    /// Requests of one peer, the client or a server, that are worked on at once; further ones are not read yet.
    peer_requests_in_flight_max: usize = 256,
    /// Largest configuration file.
    config_file_bytes_max: u64 = MIB as u64,
    /// Largest file of an MCP client that is read: Claude Code keeps much else beside its servers.
    client_file_bytes_max: u64 = 16 * MIB as u64,
    /// Configuration files that are read from one folder.
    config_files_max: usize = 1000,
    /// Largest value that a reference of a configuration file brings: a file's text, or what a command prints.
    reference_bytes_max: u64 = 64 * KIB as u64,
    /// How long such a command may take.
    reference_command: Duration = Duration::from_secs(10),
    /// Servers that are kept of all configuration files.
    servers_max: usize = 10_000,
    /// Longest alias of a server or tool, in bytes; all of them ASCII.
    alias_bytes_max: usize = 64,
    /// Longest description of a tool or server that is kept, in characters.
    description_chars_max: usize = 4_000,
    /// Longest signature of a tool, in characters.
    signature_chars_max: usize = 1_000,
    /// Longest stub of a tool, in characters.
    stub_chars_max: usize = 64_000,
    /// Largest result of a tool whose shape is learned.
    learned_result_bytes_max: usize = 256 * KIB,
    /// Tools of all servers of whose results the shape is kept.
    learned_shapes_max: usize = 10_000,
    /// Largest file of what was learned of one server's tools.
    learned_file_bytes_max: u64 = 4 * MIB as u64,
    /// Longest text of one reply to the client, in characters.
    reply_chars_max: usize = 16_000,
    /// Longest part of it that tells of an exception: its traceback and hint, in characters.
    error_chars_max: usize = 1_500,
    /// Longest text that a model is asked, in bytes.
    model_prompt_bytes_max: usize = MIB,
    /// Longest answer of a model that is read, in bytes.
    model_answer_bytes_max: usize = 4 * MIB,
    /// Largest source of one saved tool.
    saved_tool_bytes_max: usize = 256 * KIB,
    /// Saved tools that are kept.
    saved_tools_max: usize = 1000,
    /// Bytes of all files of a workspace.
    workspace_bytes_max: u64 = 128 * MIB as u64,
    /// Files and folders of a workspace.
    workspace_files_max: usize = 4_000,
    /// Sessions whose handed over files are kept for the user.
    outbox_sessions_max: usize = 50,
    /// Bytes of the handed over files of all sessions; of one, what a workspace may hold.
    outbox_bytes_max: u64 = 512 * MIB as u64,
    /// How long a run's changes of files may take to be kept.
    keep_files: Duration = Duration::from_secs(60),
    /// Size from which a file of the log of calls is put aside.
    audit_file_bytes_max: u64 = 16 * MIB as u64,
    /// What one session may write to the files of the log that all sessions share.
    audit_share_bytes_max: u64 = 8 * MIB as u64,
    /// Largest journal of one session.
    journal_session_bytes_max: u64 = 32 * MIB as u64,
    /// The same of all journals together; the oldest go.
    journals_bytes_max: u64 = 512 * MIB as u64,
    /// Journals that are kept.
    journals_max: usize = 200,
    /// Largest arguments or result of a call that a journal has whole, in bytes of JSON.
    journal_call_bytes_max: usize = MIB,
    /// Longest output of a run that a journal has, and longest value, in characters.
    journal_output_chars_max: usize = 8_000,
    /// Results that stay on the host for code to refer to.
    handles_max: usize = 256,
    /// The same of their bytes; more than the largest answer of a server.
    handles_bytes_max: u64 = 1024 * MIB as u64,
    /// The same of those that stand in the arguments of one call.
    handle_arguments_bytes_max: u64 = 64 * MIB as u64,
    /// Jobs that run at once; 0: none may.
    jobs_max: usize = 4,
    /// How long a job may take.
    job_time: Duration = Duration::from_secs(1800),
    /// Jobs that have ended and can still be asked about.
    jobs_kept_max: usize = 32,
    /// The last bytes of a job's output that are kept.
    job_tail_bytes_max: usize = 64 * KIB,
    /// Largest result of a job, as it is passed on: 8 MiB in base64.
    job_result_bytes_max: usize = 11 * MIB,
    /// All kept results of jobs together; the oldest go.
    job_results_bytes_max: usize = 64 * MIB,
    /// Calls of one job that may be under way at once; more wait in the sandbox.
    calls_in_flight_per_job_max: usize = 16,
    /// Longest line towards a job, line feed included.
    frame_to_job_bytes_max: usize = 16 * MIB,
    /// Bytes for one job that may be under way unread; the supervisor tells of those taken after each 4 MiB.
    unread_in_job_bytes_max: usize = 24 * MIB,
    /// How long shutting everything down may take.
    shutdown: Duration = Duration::from_millis(2500),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_that_stands_still_for_ten_seconds_is_not_taken_for_dead_and_a_dead_one_soon_is() {
        let Limits { heartbeat, heartbeat_pause, .. } = Limits::default();
        let longest_pause = heartbeat - heartbeat_pause;
        assert!(longest_pause > Duration::from_secs(10), "{longest_pause:?}");
        assert!(heartbeat <= Duration::from_secs(12), "{heartbeat:?}");
    }
}
