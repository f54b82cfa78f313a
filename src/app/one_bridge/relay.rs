//! What a client starts if sessions are shared: it passes MCP between its stdin and stdout and the user's shared bridge, which
//! it starts unless it is running.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use belljar_base::text;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;

use super::hello::{Hello, VERSION, Welcome};
use super::place::Place;
use crate::app::common::printing::err;
use crate::config::{Config, Environment};

/// The variables that the shared bridge itself needs. Those of its sessions come from their relays.
const OF_BRIDGE: [&str; 7] = ["HOME", "LANG", "LOGNAME", "MCP_BRIDGE_LOG_LEVEL", "PATH", "TMPDIR", "USER"];

/// Serves the client through the shared bridge until either has ended.
///
/// # Errors
/// The reason why the shared bridge cannot be used. Then nothing was read from the client.
pub(crate) async fn relay(environment: &Environment, config: &Config) -> Result<ExitCode, String> {
    let place = Place::new(config);
    let mut stream = reached(&place, environment).await?;
    let answer = welcomed(&mut stream, &place, environment).await;
    let (mut stream, problems) = match answer {
        Ok(problems) => (stream, problems),
        // One of another version has ended for this relay.
        Err(_) => {
            drop(stream);
            let mut stream = reached(&place, environment).await?;
            let problems = welcomed(&mut stream, &place, environment).await?;
            (stream, problems)
        }
    };
    problems.lines().for_each(|line| err!("{}", text::inert(line)));
    let (mut from_client, mut to_client) = stdio_pipes();
    let (from_bridge, mut to_bridge) = stream.split();
    let mut from_bridge = BufReader::new(from_bridge);
    let sending = async {
        let sent = tokio::io::copy(&mut from_client, &mut to_bridge).await;
        let _ = to_bridge.shutdown().await;
        sent
    };
    let receiving = tokio::io::copy_buf(&mut from_bridge, &mut to_client);
    tokio::pin!(sending, receiving);
    tokio::select! {
        _ = &mut sending => {
            // The client has closed its end. The bridge answers what it still can, and ends the session.
            let _ = receiving.await;
            Ok(ExitCode::SUCCESS)
        }
        received = &mut receiving => {
            err!("belljar: the shared bridge has ended{}", received.err().map_or_else(String::new, |error| format!(": {error}")));
            Ok(ExitCode::from(70))
        }
    }
}

/// Begins a session; returns the problems of its configuration.
async fn welcomed(
    stream: &mut UnixStream,
    place: &Place,
    environment: &Environment,
) -> Result<String, String> {
    let unsaid = |error: io::Error| format!("the shared bridge does not answer: {error}");
    let (read, mut write) = stream.split();
    Hello::send(environment, &place.key(), &mut write).await.map_err(unsaid)?;
    // No byte of MCP comes before the client's first message, so nothing is lost with this reader.
    match Welcome::read(&mut BufReader::new(read)).await.map_err(unsaid)? {
        (Welcome::Ok(problems), version) => {
            if version != VERSION {
                err!(
                    "belljar: the shared bridge is belljar {version}, since it has sessions; this one is {VERSION}"
                );
            }
            Ok(problems)
        }
        (Welcome::No(why), _) => Err(why),
    }
}

/// A connection to the shared bridge, which is started unless it is running.
async fn reached(place: &Place, environment: &Environment) -> Result<UnixStream, String> {
    if let Ok(stream) = place.connect().await {
        return Ok(stream);
    }
    let unstarted = |error: io::Error| format!("the shared bridge cannot be started: {error}");
    // One of several relays starts it, and the others wait here.
    let turn = place.clone();
    let turn = tokio::task::spawn_blocking(move || turn.turn_to_start());
    let _turn = turn.await.map_err(|error| error.to_string())?.map_err(unstarted)?;
    if let Ok(stream) = place.connect().await {
        return Ok(stream);
    }
    let is_of_bridge = |name: &OsString| {
        OF_BRIDGE.iter().any(|of| name == OsStr::new(of)) || name.as_encoded_bytes().starts_with(b"XDG_")
    };
    // The bridge works in another folder, and would not see that a place is in the project that is open here.
    let is_outside = |name: &OsString, value: &OsString| {
        name == "PATH" || name == "HOME" || environment.project_on_the_way(Path::new(value)).is_none()
    };
    let status = Command::new(environment.own_file())
        .args(["serve", "--detach"])
        .env_clear()
        .envs(
            environment
                .variables
                .iter()
                .filter(|(name, value)| is_of_bridge(name) && is_outside(name, value)),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .await
        .map_err(unstarted)?;
    if !status.success() {
        return Err("the shared bridge cannot be started".into());
    }
    place.connect().await.map_err(unstarted)
}
