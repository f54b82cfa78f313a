//! The pins of tools, which record what a tool was at its first use. A tool that its server has changed since then is
//! reported; under a policy that asks, it is blocked until the user trusts it.
//!
//! A description that changes behind the user's back can make a model do what the user never saw.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{ServerTools, Tool};
use belljar_tools::policy::Profile;
use parking_lot::Mutex;

use super::pin_files::{Pin, PinFileFingerprint, PinFiles, Pinned, called_key, key};

/// The largest number of tools that one sentence names.
const NAMED_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 100;
/// The hint for a call that leaves no record.
pub(super) const UNWRITABLE_HINT: &str =
    "the user gives belljar a state folder that it can write, or chooses another profile";

/// The pins of all servers.
pub(crate) struct Pins {
    /// The folder of the pin files; `None`: nothing is pinned.
    dir: Option<PathBuf>,
    verified: Mutex<BTreeMap<ServerName, VerifiedTools>>,
}

/// The tools of a server that agree with their pins, and the fingerprint of each pin file at the time of the
/// comparison. A tool whose file could not be read has no fingerprint.
struct VerifiedTools {
    tools: Arc<ServerTools>,
    fingerprints: BTreeMap<String, Option<PinFileFingerprint>>,
}

/// The facts about a server that the comparison of its tools needs.
#[derive(Clone, Copy)]
pub(crate) struct ComparisonContext<'a> {
    /// The profile in effect.
    pub(crate) profile: Profile,
    /// Whether the policy can be read. While it cannot, a change replaces no pin: the profile may be a stricter one.
    pub(crate) has_policy: bool,
    /// Removes the secrets of the server from a text.
    pub(crate) redacted: &'a dyn Fn(String) -> String,
}

/// The result of the comparison of a tool with its pin.
enum PinComparison {
    Same,
    Changed,
    Unreadable(io::Error),
}

impl ComparisonContext<'_> {
    fn blocks(self) -> bool {
        self.profile.needs_records() || !self.has_policy
    }
}

impl Pins {
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, verified: Mutex::default() }
    }

    /// Compares a new list of a server's tools with the pins. Returns sentences about the tools that have changed.
    pub(crate) fn listed(&self, server: &ServerTools, context: ComparisonContext<'_>) -> Vec<String> {
        let Some(dir) = &self.dir else { return vec![] };
        let files = PinFiles::of(dir, &server.name);
        let said = |what: &str| said(&server.name, what, context);
        let pinned = match files.names() {
            Ok(pinned) if pinned.is_empty() => return vec![],
            Ok(pinned) => pinned,
            Err(error) => return vec![said(&format!("cannot be compared with what they were: {error}"))],
        };
        let (mut changed, mut unreadable) = (Vec::new(), Vec::new());
        let is_known = |tool: &&Tool| {
            let called = [tool.name.as_str(), &tool.alias].map(called_key);
            pinned.contains(&key(tool.name.as_str())) || called.iter().any(|called| pinned.contains(called))
        };
        for tool in server.listed().iter().filter(is_known) {
            let pin = Pin::of(tool, context.redacted);
            let name = || text::inert_excerpt(tool.name.as_str(), NAME_CHARS_MAX);
            match compared(&files, &pin, server) {
                None => {}
                Some(PinComparison::Same) => warn(&server.name, files.forget_change(pin.name())),
                Some(PinComparison::Changed) => {
                    changed.push(name());
                    warn(&server.name, take_in(&files, &pin, context));
                }
                Some(PinComparison::Unreadable(error)) => {
                    unreadable.push(format!("{} ({error})", name()));
                    warn(&server.name, take_in(&files, &pin, context));
                }
            }
        }
        let sentences = [
            ("have changed since they were first used", changed),
            ("cannot be compared with what they were", unreadable),
        ];
        let sentences = sentences.into_iter().filter(|(_, tools)| !tools.is_empty());
        sentences.map(|(what, tools)| said(&format!("{what}: {}", named(&tools)))).collect()
    }

    /// Pins a tool at its first call, and compares it with its pin at a later one. Returns the reason why it cannot be
    /// pinned.
    ///
    /// # Errors
    /// `denied` for a tool that differs from its pin or cannot be pinned, if the profile blocks such calls.
    pub(crate) fn admit(
        &self,
        server: &Arc<ServerTools>,
        tool: &Tool,
        context: ComparisonContext<'_>,
    ) -> Result<Option<String>, ToolFault> {
        let what = || text::inert_excerpt(&format!("{}.{}", server.name, tool.name), NAME_CHARS_MAX);
        let unpinned = |why: &str| {
            let why = format!("what the tool is cannot be remembered ({})", text::inert_line(why));
            if !context.blocks() {
                return Ok(Some(format!("{why}, so a later change of it is not noticed")));
            }
            let profile = context.profile;
            let message = format!("{} was not called: {why}, which profile {profile} needs", what());
            Err(ToolFault::new(FaultCode::Denied, message).hint(UNWRITABLE_HINT))
        };
        let Some(dir) = &self.dir else { return unpinned("no home folder is known") };
        let files = PinFiles::of(dir, &server.name);
        // The fingerprint is taken before the file is read, so that a change in between is noticed.
        let fingerprint = files.fingerprint(tool.name.as_str());
        if self.is_verified(server, tool, fingerprint, context) {
            return Ok(None);
        }
        let pin = Pin::of(tool, context.redacted);
        let denied = |why: &str| {
            let what = what();
            let hint = format!("the user looks at it and runs: belljar trust {}", quoted(&server.name));
            Err(ToolFault::new(FaultCode::Denied, format!("{what} was not called: {why}")).hint(hint))
        };
        let compared = match compared(&files, &pin, server) {
            Some(compared) => compared,
            None => match files.pin(&pin) {
                // Another bridge may have pinned the tool in between.
                Ok(Pinned::Before) => compared(&files, &pin, server).unwrap_or(PinComparison::Same),
                Ok(Pinned::TooMany) if context.blocks() => {
                    return denied("too many tools of its server are remembered");
                }
                // The next call takes the fingerprint of the new file.
                Ok(Pinned::Now) => return Ok(None),
                Ok(Pinned::TooMany) => PinComparison::Same,
                Err(error) => return unpinned(&error.to_string()),
            },
        };
        let why = match compared {
            PinComparison::Same => {
                warn(&server.name, files.note_called(&pin));
                self.verify(server, tool, fingerprint);
                return Ok(None);
            }
            PinComparison::Changed => "it is not the tool that was first used",
            PinComparison::Unreadable(_) => "what it was when it was first used cannot be read",
        };
        if let Err(error) = take_in(&files, &pin, context) {
            return unpinned(&error.to_string());
        }
        if context.blocks() { denied(why) } else { Ok(None) }
    }

    /// Whether the tool was compared with its present pin. If the profile blocks nothing, any existing pin is enough.
    fn is_verified(
        &self,
        server: &Arc<ServerTools>,
        tool: &Tool,
        fingerprint: Option<PinFileFingerprint>,
        context: ComparisonContext<'_>,
    ) -> bool {
        let verified = self.verified.lock();
        let Some(known) = verified.get(&server.name).filter(|known| Arc::ptr_eq(&known.tools, server)) else {
            return false;
        };
        let seen = known.fingerprints.get(tool.name.as_str());
        seen.is_some_and(|seen| *seen == fingerprint || (fingerprint.is_some() && !context.blocks()))
    }

    fn verify(&self, server: &Arc<ServerTools>, tool: &Tool, fingerprint: Option<PinFileFingerprint>) {
        let mut verified = self.verified.lock();
        let fresh = || VerifiedTools { tools: Arc::clone(server), fingerprints: BTreeMap::new() };
        let known = verified.entry(server.name.clone()).or_insert_with(fresh);
        if !Arc::ptr_eq(&known.tools, server) {
            *known = fresh();
        }
        known.fingerprints.insert(tool.name.as_str().to_owned(), fingerprint);
    }
}

/// Compares a tool with its pin; `None`: neither it is pinned, nor another one that code has called by its name or alias.
/// Another one that its server lists with that alias in another case is called by that, and does not count.
fn compared(files: &PinFiles, pin: &Pin, server: &ServerTools) -> Option<PinComparison> {
    let is_called_still = |name: &String| {
        let mut listed = server.listed().iter().filter(|tool| tool.name.as_str() == name);
        listed.any(|tool| called_key(&tool.alias) == called_key(&pin.alias))
    };
    match files.first(pin.name()) {
        Ok(None) => match files.others_called(pin) {
            Ok(others) if others.iter().all(is_called_still) => None,
            Ok(_) => Some(PinComparison::Changed),
            Err(error) => Some(PinComparison::Unreadable(error)),
        },
        Ok(Some(first)) if first.hash == pin.hash => Some(PinComparison::Same),
        Ok(Some(_)) => Some(PinComparison::Changed),
        Err(error) => Some(PinComparison::Unreadable(error)),
    }
}

/// Stores a changed tool: for the user to trust if the profile blocks it, else as the new pin.
fn take_in(files: &PinFiles, pin: &Pin, context: ComparisonContext<'_>) -> io::Result<()> {
    if context.blocks() { files.keep_change(pin) } else { files.replace(pin) }
}

fn warn(server: &ServerName, kept: io::Result<()>) {
    if let Err(error) = kept {
        tracing::warn!(%server, %error, "what its tools are now could not be kept");
    }
}

fn said(server: &ServerName, what: &str, context: ComparisonContext<'_>) -> String {
    let then = if context.blocks() {
        format!("they are not called before the user runs: belljar trust {}", quoted(server))
    } else {
        "what it says of them now counts".into()
    };
    format!("tools of server {} {what}; {then}", text::inert_excerpt(server.as_str(), NAME_CHARS_MAX))
}

fn named(tools: &[String]) -> String {
    let named = tools[..tools.len().min(NAMED_MAX)].join(", ");
    match tools.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The server's name as a word of the shell.
fn quoted(server: &ServerName) -> String {
    text::shell_word(server.as_str(), NAME_CHARS_MAX)
}

#[cfg(test)]
#[path = "pins_tests.rs"]
mod tests;
