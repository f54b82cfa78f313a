//! The settings of the MCP server that clients see.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::run::OutputMode;

use super::arguments::RunDefaults;

/// The settings that the server needs.
#[derive(Debug, Clone)]
pub struct HandlerSettings {
    /// The defaults for arguments that the caller does not give.
    pub defaults: RunDefaults,
    /// How long a request waits for its run before the reply is a task, if the client supports tasks.
    pub task_after: Duration,
    /// How replies are written.
    pub output_mode: OutputMode,
    /// Whether replies have structured content in addition to the text.
    pub structured: bool,
    /// Beginnings of the names of clients that get images as files.
    pub images_as_files: Vec<String>,
    /// How many sandboxes are started ahead of first runs; 0: none, also not that of this session.
    pub prewarm: u64,
    /// Whether servers may use the model of a client that supports sampling.
    pub sampling: bool,
    /// All bounds of the bridge.
    pub limits: Arc<Limits>,
}
