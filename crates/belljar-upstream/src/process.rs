//! A server's process. It runs in its own process group, below a keeper process where the system supports one. Its last
//! output to stderr is stored. The process is killed at the latest when its `Process` is dropped.
//!
//! This module does not speak MCP, and does not decide when a server starts or ends.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use belljar_base::text;
use belljar_confine::{PrivatePlaces, ServerPlan};
use belljar_guard::{self as guard, KeepError, Keeper, PARENT_VARIABLE, Token, labelled};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::confinement::{Confinement, ConfinementError, Lack, lacks, to_suggest};
use super::error::StderrSummary;
use super::redaction::Redaction;
use super::{Inherited, ProcessSpec};

/// The time that a server gets to end after its stdin was closed, after SIGTERM, and after it was killed.
const STEP: Duration = Duration::from_millis(700);

/// The longest wait for the rest of a dead server's stderr.
const STDERR_END: Duration = Duration::from_millis(100);

/// A running server process, or its keeper. Dropping it kills the process group. A keeper also kills the processes that
/// have left the group.
pub(super) struct Process {
    child: Child,
    group: Pid,
    /// The token at the beginning of its keeper's messages, if it has a keeper.
    token: Option<Token>,
    stderr: StderrTail,
    stderr_task: JoinHandle<()>,
    /// Removes the container of the server, if its command runs one.
    removal: Option<Command>,
}

/// The pipes of a new process.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// The facts about a server process that has ended.
pub(super) struct ServerExit {
    /// The last output of the server.
    pub(super) stderr: StderrTail,
    /// The error, if it never started.
    pub(super) not_started: Option<StartError>,
}

/// The reason for which a server's program was not started.
#[derive(Debug)]
pub(super) enum StartError {
    /// The system could not start the program.
    Program(std::io::Error),
    /// It cannot be confined as its entry says.
    Confinement(ConfinementError),
}

impl From<KeepError> for StartError {
    fn from(not_started: KeepError) -> Self {
        match not_started {
            KeepError::Program(error) => Self::Program(error),
            KeepError::Confinement(failed) => Self::Confinement(Confinement::failed(&failed)),
        }
    }
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self::Program(error)
    }
}

/// The last bytes of a server's stderr, readable after its end.
#[derive(Clone)]
pub(crate) struct StderrTail {
    tail: Arc<Mutex<TailBuffer>>,
    redaction: Redaction,
    /// The names of variables that the bridge has and the server does not.
    withheld: Arc<[String]>,
    /// The plan of a confined server, with the files that it sees.
    plan: Option<Arc<ServerPlan>>,
    /// Private places. The user is never advised to give the server access to them.
    private: PrivatePlaces,
    /// Variables whose values are paths. In redacted texts, the names of these variables replace the paths.
    places: Arc<[(String, String)]>,
    /// Paths that the program's files refer to, and that the server does not see.
    unfollowed: Arc<[PathBuf]>,
}

/// The last bytes of a stream.
#[derive(Default)]
struct TailBuffer {
    bytes: VecDeque<u8>,
    /// Whether earlier bytes were dropped.
    is_cut: bool,
    /// The number of all bytes.
    taken: u64,
}

/// The longest part of the stderr that is reported, in bytes.
const LAST_WORDS_BYTES_MAX: usize = 2048;
/// The largest number of lines of the stderr that are reported.
const LAST_LINES_MAX: usize = 5;
/// The longest first line of an error that is reported, in characters.
const FIRST_ERROR_CHARS_MAX: usize = 300;
/// The largest number of variables that are named to the user.
const WITHHELD_TOLD_MAX: usize = 5;
/// Words in lines that report an error, in lower case.
const ERROR_WORDS: [&str; 12] = [
    "error",
    "exception",
    "fatal",
    "panic",
    "failed",
    "cannot",
    "can't",
    "could not",
    "not found",
    "denied",
    "missing",
    "required",
];

/// The command of a server without its arguments, and its keeper's token.
fn command(
    spec: &ProcessSpec,
    confinement: Option<&Confinement>,
) -> Result<(Command, Option<Token>), StartError> {
    let own = spec.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    if let (Some(keeper), Some(confinement)) = (&spec.keeper, confinement) {
        if let Some(cwd) = &spec.cwd {
            // The keeper starts in another folder, so this checks that the server's folder can be entered.
            std::fs::read_dir(cwd)?;
        }
        let mut variables: BTreeMap<OsString, OsString> = match &spec.inherited {
            // Only commands of the user inherit everything, and those are not confined.
            Inherited::All => BTreeMap::new(),
            Inherited::Only { variables, .. } => variables.iter().cloned().collect(),
        };
        let others = confinement.variables.iter().map(|(name, value)| (name.into(), value.into()));
        variables.extend(own.chain(others));
        let plan = serde_json::to_string(&confinement.plan).map_err(std::io::Error::other)?;
        let (command, token) = keeper.confined(&confinement.program, &plan, variables);
        return Ok((command.into(), Some(token)));
    }
    let (mut command, token) = match &spec.keeper {
        Some(keeper) => {
            let (command, token) = keeper.command(&spec.program);
            (Command::from(command), Some(token))
        }
        None => (Command::new(&spec.program), None),
    };
    spec.inherited.pass_to(command.as_std_mut());
    command.envs(own);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    Ok((command, token))
}

/// The command that removes the container of a server's command, with the variables of that command.
fn removal(spec: &ProcessSpec, command: &std::process::Command) -> Option<Command> {
    let words = [spec.program.clone().into_os_string()].into_iter();
    let words: Vec<OsString> = words.chain(spec.args.iter().map(OsString::from)).collect();
    let mut removal = guard::removal(&words)?;
    removal.env_clear();
    for (name, value) in command.get_envs().filter(|(name, _)| *name != PARENT_VARIABLE) {
        if let Some(value) = value {
            removal.env(name, value);
        }
    }
    if let Some(cwd) = &spec.cwd {
        removal.current_dir(cwd);
    }
    Some(removal.into())
}

impl Process {
    pub(super) fn start(
        spec: &ProcessSpec,
        redaction: &Redaction,
        stderr_bytes_max: usize,
    ) -> Result<(Self, Pipes), StartError> {
        let mut spec = spec.found();
        let mark = spec.variable(PARENT_VARIABLE).and_then(|mark| mark.into_string().ok());
        if let Some(args) = labelled(&spec.program, &spec.args, &mark.unwrap_or_default()) {
            spec.args = args;
        }
        let spec = &spec;
        let confinement = spec.sandbox.as_ref().map(|sandbox| Confinement::new(spec, sandbox));
        let confinement = confinement.transpose().map_err(StartError::Confinement)?;
        let (mut command, token) = command(spec, confinement.as_ref())?;
        command.args(&spec.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let removal = match confinement {
            None => removal(spec, command.as_std()),
            // It reaches no engine.
            Some(_) => None,
        };
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(missing)?;
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let pipe = child.stderr.take().ok_or_else(missing)?;
        let tail = Arc::<Mutex<TailBuffer>>::default();
        let withheld = match &spec.inherited {
            Inherited::All => vec![],
            Inherited::Only { withheld, .. } => withheld.clone(),
        };
        let places = spec.env.iter().filter(|(_, value)| value.starts_with('/')).cloned().collect();
        let (plan, unfollowed) = confinement.map(|found| (Arc::new(found.plan), found.unfollowed)).unzip();
        let unfollowed = unfollowed.unwrap_or_default().into();
        let stderr_task = tokio::spawn(keep_tail(pipe, Arc::clone(&tail), stderr_bytes_max));
        let (redaction, withheld, private) = (redaction.clone(), withheld.into(), spec.private.clone());
        let stderr = StderrTail { tail, redaction, withheld, plan, private, places, unfollowed };
        let process = Self { child, group: Pid::from_raw(pid), token, stderr, stderr_task, removal };
        Ok((process, Pipes { stdin, stdout }))
    }

    /// A number that grows while the server works: its processor time and its output to stderr.
    pub(super) fn work(&self) -> u64 {
        guard::ticks_of_group(self.group) + self.stderr.tail.lock().taken
    }

    pub(super) fn stderr(&self) -> StderrTail {
        self.stderr.clone()
    }

    /// Ends the server and all its child processes. Its stdin is closed already; SIGTERM and SIGKILL follow, each after
    /// a while.
    pub(super) async fn end(mut self) -> ServerExit {
        if !self.ended_within(STEP).await {
            self.signal(Signal::SIGTERM);
            if !self.ended_within(STEP).await {
                self.end_at_once();
                self.ended_within(STEP).await;
            }
        }
        // The group is killed even if its leader has ended: npx and uvx leave grandchildren, and a keeper can be
        // killed. The leader is not reaped yet, so its number still identifies this group.
        self.signal(Signal::SIGKILL);
        let status = self.child.wait().await;
        self.remove_container();
        // The group is dead, so its stderr ends, unless a process that has left the group holds it.
        if tokio::time::timeout(STDERR_END, &mut self.stderr_task).await.is_err() {
            self.stderr_task.abort();
        }
        let stderr = self.stderr();
        let not_started = match status {
            Ok(status) => {
                let token = self.token.as_ref();
                token.and_then(|token| Keeper::not_started(status, &stderr.stderr_summary().text, token))
            }
            Err(error) => {
                tracing::debug!(%error, "a server's process could not be reaped");
                None
            }
        };
        ServerExit { stderr, not_started: not_started.map(StartError::from) }
    }

    async fn ended_within(&self, limit: Duration) -> bool {
        let ended = async {
            loop {
                // It stays a zombie, so that nobody else gets its number.
                let flags = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
                let group = rustix::process::Pid::from_raw(self.group.as_raw());
                match group.map(|group| waitid(WaitId::Pid(group), flags)) {
                    Some(Ok(None)) => tokio::time::sleep(Duration::from_millis(5)).await,
                    _ => return,
                }
            }
        };
        tokio::time::timeout(limit, ended).await.is_ok()
    }

    /// Kills the server at once. A keeper also finds processes that have left the group, and ends after them.
    fn end_at_once(&self) {
        if self.token.is_none() {
            self.signal(Signal::SIGKILL);
        } else if let Err(error) = kill(self.group, Keeper::AT_ONCE) {
            tracing::debug!(%error, "a server's keeper had gone");
        }
    }

    /// Begins to remove the server's container, if there is one. Its command is dead, so it starts no other.
    fn remove_container(&mut self) {
        if let Some(mut removal) = self.removal.take()
            && let Err(error) = removal.spawn()
        {
            tracing::warn!(%error, "a server's container could not be removed");
        }
    }

    fn signal(&self, signal: Signal) {
        match killpg(self.group, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::warn!(%error, %signal, "a server's process group could not be signalled"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child has no id after `end` has reaped it.
        if self.child.id().is_some() {
            self.end_at_once();
        }
        self.remove_container();
        self.stderr_task.abort();
    }
}

impl StderrTail {
    /// The last lines, at most 2 KiB, as one line of text without secrets. Secrets are removed before the text is cut,
    /// since a part of one would not be recognised.
    pub(super) fn stderr_summary(&self) -> StderrSummary {
        let (bytes, text) = self.read();
        StderrSummary {
            text: last_lines(&text).join(" | "),
            withheld: self.withheld_in(&bytes),
            lacks: self.lacks(&text),
        }
    }

    /// As [`Self::stderr_summary`], but beginning with the first line that reports an error, since the last lines
    /// rarely name the cause of a failure.
    pub(super) fn first_error_and_summary(&self) -> StderrSummary {
        let (bytes, text) = self.read();
        let last = last_lines(&text);
        let first = text.lines().map(str::trim).find(|line| tells_of_error(line));
        let words = match first.map(|first| (first, last.iter().position(|line| *line == first))) {
            Some((_, Some(place))) => last[place..].join(" | "),
            Some((first, None)) => {
                format!("{} | … | {}", text::bounded(first, FIRST_ERROR_CHARS_MAX), last.join(" | "))
            }
            None => last.join(" | "),
        };
        let mut lacks = self.lacks(&text);
        lacks.extend(self.unfollowed().into_iter().filter(|lack| !lacks.contains(lack)).collect::<Vec<_>>());
        StderrSummary { text: words, withheld: self.withheld_in(&bytes), lacks }
    }

    /// The paths that files of a confined server's program name, and that the server does not see. A server that does
    /// not start may need them.
    fn unfollowed(&self) -> Vec<Lack> {
        let Some(plan) = self.plan.as_deref() else { return vec![] };
        to_suggest(&self.unfollowed, plan, &self.private)
    }

    /// The files and hosts that the server lacks according to this text from it; empty if the server is not confined.
    pub(super) fn lacks(&self, text: &str) -> Vec<Lack> {
        let Some(plan) = self.plan.as_deref() else { return vec![] };
        let named =
            |text: String, (name, place): &(String, String)| text.replace(&format!("[{name}]"), place);
        lacks(&self.places.iter().fold(text.to_owned(), named), plan, &self.private)
    }

    /// The stored bytes as they arrived, and their text without secrets.
    fn read(&self) -> (Vec<u8>, String) {
        let tail = self.tail.lock();
        let (bytes, is_cut): (Vec<u8>, bool) = (tail.bytes.iter().copied().collect(), tail.is_cut);
        drop(tail);
        let text = match is_cut {
            true => self.redaction.tail(&bytes),
            false => self.redaction.text(String::from_utf8_lossy(&bytes).into_owned()),
        };
        (bytes, text)
    }

    /// The withheld variables that the server's output names, in the order of the text.
    fn withheld_in(&self, bytes: &[u8]) -> Vec<String> {
        // The text is searched before secrets are replaced by names, which would look like the server's words.
        let text = String::from_utf8_lossy(bytes);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut found: Vec<String> = Vec::new();
        for word in words.filter(|word| is_usual_name(word)) {
            let is_new = !found.iter().any(|known| known == word);
            if is_new && found.len() < WITHHELD_TOLD_MAX && self.withheld.iter().any(|name| name == word) {
                found.push(word.to_owned());
            }
        }
        found
    }
}

/// The last lines of a text, at most 2 KiB.
fn last_lines(text: &str) -> Vec<&str> {
    let mut begin = text.len().saturating_sub(LAST_WORDS_BYTES_MAX);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    let lines: Vec<&str> = text[begin..].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES_MAX)..].to_vec()
}

/// Whether a line seems to report an error.
fn tells_of_error(line: &str) -> bool {
    let line = line.to_lowercase();
    ERROR_WORDS.iter().any(|word| line.contains(word))
}

/// Whether a word is spelled as names of variables usually are. Any other word may be the name of a variable by chance.
fn is_usual_name(word: &str) -> bool {
    word.len() >= 3
        && word.contains(|c: char| c.is_ascii_uppercase())
        && !word.contains(|c: char| c.is_ascii_lowercase())
}

async fn keep_tail(mut pipe: ChildStderr, tail: Arc<Mutex<TailBuffer>>, bytes_max: usize) {
    let mut chunk = vec![0; 8192];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        tail.lock().take_in(&chunk[..read], bytes_max);
    }
}

impl TailBuffer {
    fn take_in(&mut self, read: &[u8], bytes_max: usize) {
        self.taken += read.len() as u64;
        self.bytes.extend(read);
        let excess = self.bytes.len().saturating_sub(bytes_max);
        self.is_cut |= excess > 0;
        self.bytes.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redaction::tests::of;

    fn summary_of(said: &str, bytes_max: usize) -> String {
        let mut tail = TailBuffer::default();
        for chunk in said.as_bytes().chunks(700) {
            tail.take_in(chunk, bytes_max);
        }
        let redaction = of(&[("KEY", "first-line-0123456789\nsecond-line-0123456789")]);
        StderrTail { tail: Arc::new(Mutex::new(tail)), redaction, ..self::tail("", &[]) }
            .stderr_summary()
            .text
    }

    #[test]
    fn a_secret_is_taken_out_before_anything_is_cut_off() {
        let secret = "first-line-0123456789\nsecond-line-0123456789";
        // Wherever the text is cut, only the name of the secret is left.
        for blanks in 0..60 {
            let said = format!("{}{secret}{}\nend", "x".repeat(3000), ".".repeat(2005 + blanks));
            for bytes_max in [64 * 1024, 2020 + 60] {
                let words = summary_of(&said, bytes_max);
                assert!(words.ends_with(". | end") && words.len() <= LAST_WORDS_BYTES_MAX + 2, "{words}");
                assert!(!words.contains("line") && !words.contains("6789"), "{blanks} {bytes_max}: {words}");
            }
        }
        assert_eq!(summary_of(&format!("\u{e4}\n\nkey {secret}\n end \n"), 1024), "\u{e4} | key [KEY] | end");
        assert_eq!(summary_of("1\n2\n3\n4\n5\n6", 1024), "2 | 3 | 4 | 5 | 6");
    }

    fn tail(said: &str, withheld: &[&str]) -> StderrTail {
        let mut tail = TailBuffer::default();
        tail.take_in(said.as_bytes(), 64 * 1024);
        let redaction = of(&[("SET_KEY", "0123456789")]);
        let withheld = withheld.iter().map(|&name| name.to_owned()).collect();
        StderrTail {
            tail: Arc::new(Mutex::new(tail)),
            redaction,
            withheld,
            plan: None,
            private: PrivatePlaces::default(),
            places: Arc::default(),
            unfollowed: Arc::default(),
        }
    }

    #[test]
    fn first_line_of_an_error_stands_before_the_last_lines() {
        let words = |said: &str| tail(said, &[]).first_error_and_summary().text;
        assert_eq!(words("starting\nready"), "starting | ready");
        assert_eq!(
            words("npm warn old\nnpm error code E404\nnpm error 404"),
            "npm error code E404 | npm error 404"
        );
        let noise = (0..6).map(|line| format!("closing {line}\n")).collect::<String>();
        assert_eq!(
            words(&format!("starting\nModuleNotFoundError: x\n{noise}")),
            "ModuleNotFoundError: x | … | closing 1 | closing 2 | closing 3 | closing 4 | closing 5"
        );
    }

    #[test]
    fn withheld_variables_are_found_as_whole_words_of_what_the_server_wrote() {
        let withheld = ["AWS_PROFILE", "HOSTNAME", "SET_KEY", "name", "AWS"];
        let found = |said: &str| tail(said, &withheld).stderr_summary().withheld;
        assert_eq!(
            found("KeyError: 'AWS_PROFILE'\n$HOSTNAME is unset, AWS_PROFILE too"),
            ["AWS_PROFILE", "HOSTNAME"]
        );
        assert_eq!(found("MY_AWS_PROFILE is no name; AWS_PROFILES; 0123456789 is replaced"), [""; 0]);
    }
}
