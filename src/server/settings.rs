//! The settings of the server that clients see.

use std::sync::Arc;
use std::time::Duration;

use super::arguments::RunDefaults;
use crate::limits::Limits;
use crate::run::OutputMode;

/// The settings that the server needs.
#[derive(Debug, Clone)]
pub struct HandlerSettings {
    /// What holds when the caller does not say.
    pub defaults: RunDefaults,
    /// How long a request waits for its run before its answer is a task, where the client takes tasks.
    pub task_after: Duration,
    /// How replies are written.
    pub output_mode: OutputMode,
    /// Whether replies carry structured content beside the text.
    pub structured: bool,
    /// Whether the sandbox is started before the first run.
    pub prewarm: bool,
    /// Whether servers may ask for the model of a client that offers it.
    pub sampling: bool,
    /// The bounds.
    pub limits: Arc<Limits>,
}
