//! Every bound of the bridge in one struct, each named with its unit.
//!
//! It does not read configuration: `config` fills the few bounds that an operator may change.

use std::time::Duration;

/// All bounds. `Limits::default()` is what an unconfigured bridge uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest line towards the sandbox, line feed included: a tool result of 32 MB fits with its JSON escapes.
    pub frame_to_sandbox_bytes_max: usize,
    /// Bytes for the worker that may be under way unread. A longest line fits also when the worker has read all but what
    /// the supervisor tells of: it does so after each 8 MiB.
    pub unread_in_sandbox_bytes_max: usize,
    /// Longest line from the sandbox, line feed included.
    pub frame_to_bridge_bytes_max: usize,
    /// Deepest nesting of JSON accepted from any peer.
    pub json_depth_max: usize,
    /// Most values and keys of JSON that are made into a tree at once: of a call's arguments, of a server's list, of a
    /// message from a client or server. Each takes up to 80 bytes of memory, and as little as two of a line. Among a call's
    /// arguments an object counts as eight.
    pub json_values_max: usize,
    /// Files and folders of one mounted folder that are searched for named pipes, sockets and devices; a folder with more
    /// is not mounted.
    pub mount_entries_max: usize,
    /// How long the search of one mounted folder may take; one that takes longer is not mounted.
    pub mount_search: Duration,
    /// File descriptors of the interpreter.
    pub sandbox_open_files_max: u64,
    /// Longest `code` of one run, in bytes.
    pub code_bytes_max: usize,
    /// Longest JSON of one call's arguments, in bytes.
    pub arguments_bytes_max: usize,
    /// Bytes of large arguments of one run's calls that are worked on at once. As many more are held in memory, and further
    /// calls are refused; the sandbox keeps calls back that exceed it.
    pub arguments_in_flight_bytes_max: usize,
    /// The same of one job's calls.
    pub arguments_in_flight_per_job_bytes_max: usize,
    /// Bytes of large arguments that all runs and jobs of all sessions of a process hold; further calls are refused.
    pub arguments_in_flight_of_all_bytes_max: usize,
    /// Arguments with at most so many bytes are not large, and count for none of these bounds.
    pub small_arguments_bytes_max: usize,
    /// Runs that may wait behind the running one; one more is refused.
    pub runs_queued_max: usize,
    /// Calls of one run that may be under way at once; more wait in the sandbox.
    pub calls_in_flight_max: usize,
    /// Calls that one server may work on at once; more wait in the bridge.
    pub calls_in_flight_per_server_max: usize,
    /// Bytes of a run's output kept from its beginning, of each stream.
    pub output_head_bytes_max: usize,
    /// Bytes of a run's output kept from its end, of each stream.
    pub output_tail_bytes_max: usize,
    /// Images of one run that are passed on.
    pub images_max: usize,
    /// Bytes (base64) of one run's images that are passed on.
    pub images_bytes_max: usize,
    /// How long a run gets after the interrupt before its interpreter is killed.
    pub grace: Duration,
    /// How long a sandbox that was started may take to its handshake. What the engine is asked before has bounds of its own.
    pub sandbox_start: Duration,
    /// How long the interpreter may take to be replaced before the container is given up: longer than the supervisor needs
    /// to kill everything that is left of the old one on a busy machine and to wake its frozen copy.
    pub replace: Duration,
    /// How long one request to the engine may take, of those that a sandbox needs.
    pub engine_request: Duration,
    /// How often the usage of a sandbox is read whose limits the engine does not enforce, while a run is under way.
    pub watch_running: Duration,
    /// The same between runs.
    pub watch_idle: Duration,
    /// How long a report of an excess waits for a busy bridge before the watch ends the sandbox itself.
    pub watch_unheard: Duration,
    /// Silence after which the supervisor takes the bridge for dead, when it does not see its end otherwise.
    pub heartbeat: Duration,
    /// Between two heartbeats: a bridge that stands still for 10 s after the last of them is not taken for dead.
    pub heartbeat_pause: Duration,
    /// How long a server may take to start and answer `initialize` and `tools/list`.
    pub server_start: Duration,
    /// The longest start of a server whose command may have to install it first, as long as that command works.
    pub server_installation: Duration,
    /// Longest line from a server, line feed included.
    pub server_line_bytes_max: usize,
    /// Largest body over HTTP that is read while others are, in bytes.
    pub http_small_body_bytes_max: usize,
    /// Larger bodies, of all remote servers, that are read at once; the others wait where they come from.
    pub http_large_bodies_at_once_max: usize,
    /// How long a larger body may take once it is being read.
    pub http_large_body: Duration,
    /// Bytes of a server's stderr that are kept for error messages.
    pub server_stderr_bytes_max: usize,
    /// Largest question of a server for the human or their model, in bytes of JSON.
    pub server_request_bytes_max: usize,
    /// Such questions that one run passes on.
    pub server_requests_per_run_max: usize,
    /// Pages that are read of a list of tools, resources, templates of these, or prompts.
    pub tool_pages_max: usize,
    /// Bytes of JSON of one such list that are kept.
    pub tool_list_bytes_max: usize,
    /// Tools of one server that are kept; as many of the others.
    pub tools_per_server_max: usize,
    /// Shortest time for which a list of tools holds, whatever its server says.
    pub listing_fresh_min: Duration,
    /// Servers that are asked for their tools at once, when nothing is known of them.
    pub servers_indexed_at_once_max: usize,
    /// For how long one of them that does not answer keeps a further one from being asked.
    pub slow_index: Duration,
    /// How long code waits for the servers that it calls, when no server's tools are known.
    pub first_index: Duration,
    /// How long a search or a list of all tools waits for servers that are asked for the first time.
    pub search_wait: Duration,
    /// The same for servers that the search names.
    pub search_wait_named: Duration,
    /// How long a call waits for a human who has to be asked.
    pub approval: Duration,
    /// Calls of one run that a human is asked about.
    pub approvals_per_run_max: usize,
    /// How long one run waits for its human, all questions together: so long its time stands still.
    pub waiting_per_run: Duration,
    /// How much longer they wait for the others, once those are known that matter most.
    pub further_index: Duration,
    /// Largest file of one server's tools that is kept, in bytes.
    pub catalog_entry_bytes_max: usize,
    /// Such files that are kept, those of configured servers in any case.
    pub catalog_entries_max: usize,
    /// The same of their bytes.
    pub catalog_bytes_max: u64,
    /// Longest line from the client, line feed included.
    pub client_line_bytes_max: usize,
    /// Requests of one peer, the client or a server, that are worked on at once; further ones are not read yet.
    pub peer_requests_in_flight_max: usize,
    /// Largest configuration file.
    pub config_file_bytes_max: u64,
    /// Largest file of an MCP client that is read: Claude Code keeps much else beside its servers.
    pub client_file_bytes_max: u64,
    /// Configuration files that are read from one folder.
    pub config_files_max: usize,
    /// Largest value that a reference of a configuration file brings: a file's text, or what a command prints.
    pub reference_bytes_max: u64,
    /// How long such a command may take.
    pub reference_command: Duration,
    /// Servers that are kept of all configuration files.
    pub servers_max: usize,
    /// Longest alias of a server or tool, in bytes; all of them ASCII.
    pub alias_bytes_max: usize,
    /// Longest description of a tool or server that is kept, in characters.
    pub description_chars_max: usize,
    /// Longest signature of a tool, in characters.
    pub signature_chars_max: usize,
    /// Longest stub of a tool, in characters.
    pub stub_chars_max: usize,
    /// Largest result of a tool whose shape is learned.
    pub learned_result_bytes_max: usize,
    /// Tools of all servers of whose results the shape is kept.
    pub learned_shapes_max: usize,
    /// Largest file of what was learned of one server's tools.
    pub learned_file_bytes_max: u64,
    /// Longest text of one reply to the client, in characters.
    pub reply_chars_max: usize,
    /// Longest part of it that tells of an exception: its traceback and hint, in characters.
    pub error_chars_max: usize,
    /// Longest text that a model is asked, in bytes.
    pub model_prompt_bytes_max: usize,
    /// Longest answer of a model that is read, in bytes.
    pub model_answer_bytes_max: usize,
    /// Largest source of one saved tool.
    pub saved_tool_bytes_max: usize,
    /// Saved tools that are kept.
    pub saved_tools_max: usize,
    /// Bytes of all files of a workspace.
    pub workspace_bytes_max: u64,
    /// Files and folders of a workspace.
    pub workspace_files_max: usize,
    /// Sessions whose handed over files are kept for the user.
    pub outbox_sessions_max: usize,
    /// Bytes of the handed over files of all sessions; of one, what a workspace may hold.
    pub outbox_bytes_max: u64,
    /// How long a run's changes of files may take to be kept.
    pub keep_files: Duration,
    /// Size from which a file of the log of calls is put aside.
    pub audit_file_bytes_max: u64,
    /// What one session may write to the files of the log that all sessions share.
    pub audit_share_bytes_max: u64,
    /// Largest journal of one session.
    pub journal_session_bytes_max: u64,
    /// The same of all journals together; the oldest go.
    pub journals_bytes_max: u64,
    /// Journals that are kept.
    pub journals_max: usize,
    /// Largest arguments or result of a call that a journal has whole, in bytes of JSON.
    pub journal_call_bytes_max: usize,
    /// Longest output of a run that a journal has, and longest value, in characters.
    pub journal_output_chars_max: usize,
    /// Results that stay on the host for code to refer to.
    pub handles_max: usize,
    /// The same of their bytes; more than the largest answer of a server.
    pub handles_bytes_max: u64,
    /// The same of those that stand in the arguments of one call.
    pub handle_arguments_bytes_max: u64,
    /// Jobs that run at once; 0: none may.
    pub jobs_max: usize,
    /// How long a job may take.
    pub job_time: Duration,
    /// Jobs that have ended and can still be asked about.
    pub jobs_kept_max: usize,
    /// The last bytes of a job's output that are kept.
    pub job_tail_bytes_max: usize,
    /// Largest result of a job, as it is passed on: 8 MiB in base64.
    pub job_result_bytes_max: usize,
    /// All kept results of jobs together; the oldest go.
    pub job_results_bytes_max: usize,
    /// Calls of one job that may be under way at once; more wait in the sandbox.
    pub calls_in_flight_per_job_max: usize,
    /// Longest line towards a job, line feed included.
    pub frame_to_job_bytes_max: usize,
    /// Bytes for one job that may be under way unread; the supervisor tells of those taken after each 4 MiB.
    pub unread_in_job_bytes_max: usize,
    /// How long shutting everything down may take.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Self {
            frame_to_sandbox_bytes_max: 64 * MIB,
            unread_in_sandbox_bytes_max: 72 * MIB,
            frame_to_bridge_bytes_max: 16 * MIB,
            json_depth_max: 128,
            json_values_max: 1_000_000,
            mount_entries_max: 1_000_000,
            mount_search: Duration::from_secs(5),
            sandbox_open_files_max: 1024,
            code_bytes_max: 4 * MIB,
            arguments_bytes_max: 8 * MIB,
            arguments_in_flight_bytes_max: 32 * MIB,
            arguments_in_flight_per_job_bytes_max: 8 * MIB,
            arguments_in_flight_of_all_bytes_max: 256 * MIB,
            small_arguments_bytes_max: 64 * KIB,
            runs_queued_max: 16,
            calls_in_flight_max: 64,
            calls_in_flight_per_server_max: 32,
            output_head_bytes_max: 64 * KIB,
            output_tail_bytes_max: 64 * KIB,
            images_max: 4,
            images_bytes_max: 2 * MIB,
            grace: Duration::from_secs(2),
            sandbox_start: Duration::from_secs(30),
            replace: Duration::from_secs(10),
            engine_request: Duration::from_secs(10),
            watch_running: Duration::from_millis(25),
            watch_idle: Duration::from_millis(100),
            watch_unheard: Duration::from_millis(500),
            heartbeat: Duration::from_secs(12),
            heartbeat_pause: Duration::from_millis(1500),
            server_start: Duration::from_secs(30),
            server_installation: Duration::from_secs(300),
            server_line_bytes_max: 64 * MIB,
            http_small_body_bytes_max: MIB,
            http_large_bodies_at_once_max: 2,
            http_large_body: Duration::from_secs(120),
            server_stderr_bytes_max: 64 * KIB,
            server_request_bytes_max: 256 * KIB,
            server_requests_per_run_max: 20,
            tool_pages_max: 1000,
            tool_list_bytes_max: 32 * MIB,
            tools_per_server_max: 10_000,
            listing_fresh_min: Duration::from_secs(5),
            servers_indexed_at_once_max: 8,
            slow_index: Duration::from_secs(1),
            first_index: Duration::from_secs(3),
            search_wait: Duration::from_secs(5),
            search_wait_named: Duration::from_secs(10),
            approval: Duration::from_secs(600),
            approvals_per_run_max: 20,
            waiting_per_run: Duration::from_secs(1800),
            further_index: Duration::from_millis(150),
            catalog_entry_bytes_max: 8 * MIB,
            catalog_entries_max: 2_000,
            catalog_bytes_max: 256 * MIB as u64,
            client_line_bytes_max: 16 * MIB,
            peer_requests_in_flight_max: 256,
            config_file_bytes_max: MIB as u64,
            client_file_bytes_max: 16 * MIB as u64,
            config_files_max: 1000,
            reference_bytes_max: 64 * KIB as u64,
            reference_command: Duration::from_secs(10),
            servers_max: 10_000,
            alias_bytes_max: 64,
            description_chars_max: 4_000,
            signature_chars_max: 1_000,
            stub_chars_max: 64_000,
            learned_result_bytes_max: 256 * KIB,
            learned_shapes_max: 10_000,
            learned_file_bytes_max: 4 * MIB as u64,
            reply_chars_max: 16_000,
            error_chars_max: 1_500,
            model_prompt_bytes_max: MIB,
            model_answer_bytes_max: 4 * MIB,
            saved_tool_bytes_max: 256 * KIB,
            saved_tools_max: 1000,
            workspace_bytes_max: 128 * MIB as u64,
            workspace_files_max: 4_000,
            outbox_sessions_max: 50,
            outbox_bytes_max: 512 * MIB as u64,
            keep_files: Duration::from_secs(60),
            audit_file_bytes_max: 16 * MIB as u64,
            audit_share_bytes_max: 8 * MIB as u64,
            journal_session_bytes_max: 32 * MIB as u64,
            journals_bytes_max: 512 * MIB as u64,
            journals_max: 200,
            journal_call_bytes_max: MIB,
            journal_output_chars_max: 8_000,
            handles_max: 256,
            handles_bytes_max: 1024 * MIB as u64,
            handle_arguments_bytes_max: 64 * MIB as u64,
            jobs_max: 4,
            job_time: Duration::from_secs(1800),
            jobs_kept_max: 32,
            job_tail_bytes_max: 64 * KIB,
            job_result_bytes_max: 11 * MIB,
            job_results_bytes_max: 64 * MIB,
            calls_in_flight_per_job_max: 16,
            frame_to_job_bytes_max: 16 * MIB,
            unread_in_job_bytes_max: 24 * MIB,
            shutdown: Duration::from_millis(2500),
        }
    }
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
