//! Connections to a container on another machine: a relay in it for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::query_parameters::InspectContainerOptions;
use futures_util::future::{BoxFuture, ready};
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;

use super::super::error::{is_not_found, with_causes};
use super::super::interface::{Chunk, Output, Streams};
use super::super::stream::{Connect, ConnectError, relay_command};
use super::find::{ContainerEngine, Reach, connect_to};

/// A container on another machine.
#[derive(Debug)]
pub(super) struct RemoteContainer {
    reach: Arc<Reach>,
    /// The engine, as it was reached last.
    engine: Mutex<ContainerEngine>,
    id: String,
    /// Whether a connection was made before.
    was_connected: AtomicBool,
}

impl RemoteContainer {
    pub(super) fn new(engine: &ContainerEngine, id: &str) -> Option<Arc<Self>> {
        let reach = engine.reach.clone()?;
        let engine = Mutex::new(engine.clone());
        Some(Arc::new(Self { reach, engine, id: id.to_owned(), was_connected: AtomicBool::new(false) }))
    }

    pub(super) fn docker(&self) -> Docker {
        self.engine.lock().docker.clone()
    }

    /// Reaches the engine in a new way if it does not answer in the old one: `ssh` ends with its connection.
    async fn reach_again(&self) {
        let engine = self.engine.lock().clone();
        if engine.pings().await {
            return;
        }
        let Reach { locations, sockets } = &*self.reach;
        match connect_to(&engine.address, None, locations, sockets).await {
            Ok(found) => *self.engine.lock() = found,
            Err(reason) => tracing::debug!(reason, "an engine cannot be reached again yet"),
        }
    }

    async fn relay(&self) -> Result<Streams, bollard::errors::Error> {
        let docker = self.docker();
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(relay_command()),
            ..CreateExecOptions::default()
        };
        let relay = docker.create_exec(&self.id, options).await?;
        match docker.start_exec(&relay.id, None).await? {
            StartExecResults::Attached { output, input } => {
                Ok(Streams { input, output: Output::new(chunks(output)) })
            }
            StartExecResults::Detached => Err(std::io::Error::other("the relay is detached").into()),
        }
    }
}

impl Connect for RemoteContainer {
    fn connect(&self) -> BoxFuture<'_, Result<Streams, ConnectError>> {
        Box::pin(async {
            if self.was_connected.load(Ordering::Relaxed) {
                self.reach_again().await;
            }
            match self.relay().await {
                Ok(streams) => {
                    self.was_connected.store(true, Ordering::Relaxed);
                    Ok(streams)
                }
                Err(error) => {
                    Err(ConnectError { message: with_causes(&error), is_final: self.is_gone().await })
                }
            }
        })
    }

    fn is_gone(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            match self.docker().inspect_container(&self.id, None::<InspectContainerOptions>).await {
                Ok(found) => found.state.is_some_and(|state| state.running == Some(false)),
                Err(error) => is_not_found(&error),
            }
        })
    }
}

/// The output of an attached process. A broken stream has no further output.
pub(super) fn chunks(
    output: impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send + 'static,
) -> impl Stream<Item = Chunk> + Send + 'static {
    let whole = output.take_while(|item| {
        if let Err(error) = item {
            tracing::debug!(%error, "the attached stream broke");
        }
        ready(item.is_ok())
    });
    whole.filter_map(|item| {
        ready(match item {
            Ok(LogOutput::StdOut { message }) => Some(Chunk::Stdout(message)),
            Ok(LogOutput::StdErr { message }) => Some(Chunk::Stderr(message)),
            Ok(LogOutput::Console { .. } | LogOutput::StdIn { .. }) | Err(_) => None,
        })
    })
}
