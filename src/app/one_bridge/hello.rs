//! What a relay and the shared bridge say to each other before MCP: a line of words, and bytes of the length in it.
//!
//! The relay says `belljar 1 VERSION KEY LENGTH`, with its working folder and variables behind it, each ended by a zero byte. The
//! bridge answers `ok VERSION LENGTH` with the problems of the configuration, or `no VERSION LENGTH` with the reason.
//!
//! The key is in a file of the user's state folder, which no confined server can read: one that sees the socket would otherwise
//! start programs outside of its sandbox by the environment that it sends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::config::Environment;

/// The version of belljar, which both sides name.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of this exchange. Sides of different versions do not work together.
const EXCHANGE: &str = "1";
/// The words of wishes without a body.
pub(super) const STATUS: &str = "status";
pub(super) const STOP: &str = "stop";
/// The longest first line, in bytes.
const LINE_BYTES_MAX: u64 = 200;
/// The largest environment, in bytes. Linux lets a program have 2 MiB by default.
const BODY_BYTES_MAX: usize = 16 << 20;

/// What somebody wants who connects to the shared bridge.
pub(super) enum Wish {
    /// A relay wants a session.
    Session(Hello),
    /// `belljar serve status` wants to know what runs.
    Status,
    /// `belljar serve stop` wants the bridge to end.
    Stop,
}

/// The first message of a relay.
pub(super) struct Hello {
    /// The relay's version of belljar.
    pub(super) version: String,
    /// The environment that the relay was started with.
    pub(super) environment: Environment,
}

/// The answer of the shared bridge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Welcome {
    /// MCP follows. The text has the problems of the configuration.
    Ok(String),
    /// The bridge does not serve this relay, with the reason.
    No(String),
}

impl Hello {
    /// Sends the environment of this process.
    pub(super) async fn send(
        environment: &Environment,
        key: &str,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut body = Vec::new();
        if let Some(cwd) = &environment.cwd {
            body.extend_from_slice(cwd.as_os_str().as_bytes());
        }
        body.push(0);
        for (name, value) in &environment.variables {
            body.extend_from_slice(name.as_bytes());
            body.push(b'=');
            body.extend_from_slice(value.as_bytes());
            body.push(0);
        }
        send(to, &["belljar", EXCHANGE, VERSION, key], &body).await
    }

    fn of(version: &str, body: &[u8]) -> Self {
        let mut parts = body.split(|byte| *byte == 0).map(<[u8]>::to_vec);
        let cwd = parts.next().filter(|cwd| !cwd.is_empty());
        let variable = |part: Vec<u8>| {
            // A name may begin with "=", as on other systems.
            let at = part.iter().skip(1).position(|byte| *byte == b'=')? + 1;
            let (name, value) = part.split_at(at);
            Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value[1..].to_vec())))
        };
        let variables: BTreeMap<_, _> = parts.filter_map(variable).collect();
        let cwd = cwd.map(|cwd| PathBuf::from(OsString::from_vec(cwd)));
        Self { version: version.to_owned(), environment: Environment::of_client(variables, cwd) }
    }
}

impl Wish {
    /// Sends a wish without a body.
    pub(super) async fn send(word: &str, key: &str, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        send(to, &[word, EXCHANGE, VERSION, key], b"").await
    }

    /// Reads the first message.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin), key: &str) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let (words, length) = words(from).await.map_err(said)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [_, EXCHANGE, _, theirs] if *theirs == key => {}
            [_, EXCHANGE, _, _] => {
                return Err(
                    "the key in its state folder is not that of the running bridge, or it cannot be read"
                        .into(),
                );
            }
            [_, _, version, ..] => {
                return Err(format!(
                    "the running belljar {VERSION} does not know how to serve belljar {version}"
                ));
            }
            _ => return Err("this is no message of belljar".into()),
        }
        let body = body(from, length).await.map_err(said)?;
        match words.as_slice() {
            ["belljar", _, version, _] => Ok(Self::Session(Hello::of(version, &body))),
            [STATUS, ..] => Ok(Self::Status),
            [STOP, ..] => Ok(Self::Stop),
            _ => Err("this is no message of belljar".into()),
        }
    }
}

impl Welcome {
    pub(super) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (word, text) = match self {
            Self::Ok(text) => ("ok", text),
            Self::No(text) => ("no", text),
        };
        send(to, &[word, VERSION], text.as_bytes()).await
    }

    /// Reads the answer, and the bridge's version of belljar.
    pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<(Self, String)> {
        let (words, length) = words(from).await?;
        let body = body(from, length).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        match words.as_slice() {
            [ok, version] if ok == "ok" => Ok((Self::Ok(text), version.clone())),
            [no, version] if no == "no" => Ok((Self::No(text), version.clone())),
            _ => Err(io::Error::other("its answer is that of no belljar")),
        }
    }
}

async fn send(to: &mut (impl AsyncWrite + Unpin), words: &[&str], body: &[u8]) -> io::Result<()> {
    to.write_all(format!("{} {}\n", words.join(" "), body.len()).as_bytes()).await?;
    to.write_all(body).await?;
    to.flush().await
}

/// Reads the words of the first line, and the length.
async fn words(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<(Vec<String>, usize)> {
    let mut line = Vec::new();
    (&mut *from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    let line = String::from_utf8(line).unwrap_or_default();
    let mut words: Vec<String> = line.trim_end().split(' ').map(str::to_owned).collect();
    let length =
        words.pop().and_then(|word| word.parse::<usize>().ok()).filter(|length| *length <= BODY_BYTES_MAX);
    match length.filter(|_| line.ends_with('\n')) {
        Some(length) => Ok((words, length)),
        None => Err(io::Error::other("its first line is not that of a belljar")),
    }
}

async fn body(from: &mut (impl AsyncBufRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_environment_arrives_as_it_is_whatever_its_bytes_are() {
        let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let variables = BTreeMap::from([
            ("A".into(), "b=c\nd".into()),
            (bytes(b"=C:"), "x".into()),
            ("EMPTY".into(), OsString::new()),
            (bytes(b"L\xe9"), bytes(b"\xff")),
        ]);
        let cwd = Some(PathBuf::from(bytes(b"/p\xe9/a b")));
        let sent = Environment::of_client(variables, cwd);
        let mut wire = Vec::new();
        Hello::send(&sent, "key", &mut wire).await.unwrap();
        wire.extend_from_slice(b"{\"jsonrpc\"");
        let mut from = wire.as_slice();
        let Wish::Session(hello) = Wish::read(&mut from, "key").await.unwrap() else { panic!("a relay") };
        assert_eq!((hello.version.as_str(), hello.environment), (VERSION, sent));
        assert_eq!(from, b"{\"jsonrpc\"", "MCP follows");
        for answer in [Welcome::Ok("a\nb".into()), Welcome::No("why".into())] {
            let mut wire = Vec::new();
            answer.send(&mut wire).await.unwrap();
            assert_eq!(Welcome::read(&mut wire.as_slice()).await.unwrap(), (answer, VERSION.to_owned()));
        }
    }

    #[tokio::test]
    async fn what_is_no_message_of_a_relay_is_refused() {
        for wire in [
            &b"{\"jsonrpc\": \"2.0\"}\n"[..],
            b"belljar 2 0.1 key 0\n",
            b"belljar 1 0.1 0\n",
            b"belljar 1 0.1  0\n",
            b"belljar 1 0.1 other 0\n",
            b"belljar 1 0.1 key 99999999999\n",
            b"belljar 1 0.1 key 5\nab",
            b"GET / HTTP/1.1\r\n",
            b"",
            &[b'x'; 1_000],
        ] {
            assert!(Wish::read(&mut &*wire, "key").await.is_err(), "{}", String::from_utf8_lossy(wire));
        }
    }
}
