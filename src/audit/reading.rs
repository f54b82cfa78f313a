//! Reads the log back, for the user.

use belljar_base::clock;
use belljar_base::own_file;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use std::time::Duration;

use super::entry::{Entry, Event};
use super::log::{RINGS, Ring};

/// The conditions on the entries that are wanted. Each condition that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this server.
    pub server: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// With this outcome.
    pub outcome: Option<String>,
    /// Of this session, by the beginning of its name.
    pub session: Option<String>,
    /// Not before this time, as entries have it.
    pub since: Option<String>,
    /// Only what was not let pass.
    pub denied: bool,
}

/// The time that a user means, as entries have it: `30m`, `12h` or `7d` ago, or a date, with or without a time, in UTC.
///
/// # Errors
/// What is wrong with it.
pub fn time(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no time; write 30m, 12h, 7d, 2026-11-22 or 2026-11-22T05:00");
    let ago = text.char_indices().next_back().and_then(|(at, unit)| {
        let unit_s = match unit {
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        text[..at].parse::<u64>().ok()?.checked_mul(unit_s).map(Duration::from_secs)
    });
    if let Some(ago) = ago {
        return clock::timestamp_before(ago).ok_or_else(wrong);
    }
    let looks_like_one = text.len() >= "2026-11-22".len()
        && text.bytes().zip("0000-00-00T00:00:00.000Z".bytes()).all(|(is, form)| match form {
            b'0' => is.is_ascii_digit(),
            _ => is == form,
        })
        && text.len() <= "0000-00-00T00:00:00.000Z".len();
    if looks_like_one { Ok(text.to_owned()) } else { Err(wrong()) }
}

/// The wanted entries, oldest first. Lines that are none are left out.
///
/// # Errors
/// A file cannot be read, or somebody else could have written it. A missing file is no error.
pub fn entries(dir: &Path, filter: &Filter) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for name in RINGS.iter().flat_map(Ring::names) {
        let file = own_file::open(&dir.join(name), File::options().read(true));
        let Some(file) = own_file::unless_missing(file)? else { continue };
        for line in BufReader::new(file).split(b'\n') {
            if let Ok(entry) = serde_json::from_slice::<Entry>(&line?)
                && filter.wants(&entry)
            {
                found.push(entry);
            }
        }
    }
    found.sort_by(|one, other| one.time.cmp(&other.time));
    Ok(found)
}

impl Filter {
    fn wants(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is.is_some_and(|is| is == wanted))
        };
        let (server, tool, outcome, is_denied) = match &entry.event {
            Event::Call(call) => (
                Some(call.server.as_str()),
                Some(call.tool.as_str()),
                &call.outcome,
                call.outcome == "denied",
            ),
            Event::Run(run) => (None, None, &run.outcome, false),
        };
        is(&self.server, server)
            && is(&self.tool, tool)
            && is(&self.outcome, Some(outcome))
            && self.session.as_deref().is_none_or(|session| entry.session.starts_with(session))
            // RFC 3339 in UTC sorts as text.
            && self.since.as_deref().is_none_or(|since| entry.time.as_str() >= since)
            && (!self.denied || is_denied)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_ago_or_dates() {
        for good in ["2026-11-22", "2026-11-22T05:00", "2026-11-22T05:00:00.123Z"] {
            assert_eq!(time(good).unwrap(), good);
        }
        let (hour, day) = (time("1h").unwrap(), time("1d").unwrap());
        assert!(day < hour && hour.ends_with('Z') && time("90m").unwrap() < hour, "{day} {hour}");
        for bad in [
            "",
            "d",
            "-1d",
            "yesterday",
            "2026",
            "22.11.2026",
            "2026-11-22 05:00",
            "99999999999999999d",
            "1é",
        ] {
            assert!(time(bad).unwrap_err().contains("is no time"), "{bad}");
        }
    }

    #[test]
    fn entries_are_found_by_what_they_are_and_foreign_lines_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let call = |time: &str, server: &str, outcome: &str| {
            json!({
                "time": time, "session": "abc", "kind": "call", "run": 1, "server": server, "tool": "t",
                "arguments": "sha256:0", "bytes_out": 2, "bytes_in": 3, "outcome": outcome, "decision": "", "ms": 4
            })
        };
        let run = json!({
            "time": "2026-01-03T00:00:00.000Z", "session": "def", "kind": "run", "run": 1, "outcome": "finished",
            "calls": 2, "code_bytes": 3, "ms": 4
        });
        let lines = [
            call("2026-01-01T00:00:00.000Z", "files", "answered").to_string(),
            "{\"time\": 1}".into(),
            "\u{0}".into(),
            call("2026-01-02T00:00:00.000Z", "git", "denied").to_string(),
            run.to_string(),
            "{\"half".into(),
        ];
        std::fs::write(dir.path().join("audit.jsonl"), lines.join("\n")).unwrap();
        let count = |filter: Filter| entries(dir.path(), &filter).unwrap().len();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(count(Filter::default()), 3);
        assert_eq!(count(Filter { server: text("git"), ..Filter::default() }), 1);
        assert_eq!(count(Filter { tool: text("t"), ..Filter::default() }), 2);
        assert_eq!(count(Filter { outcome: text("finished"), ..Filter::default() }), 1);
        assert_eq!(count(Filter { session: text("ab"), ..Filter::default() }), 2);
        assert_eq!(count(Filter { since: text("2026-01-02T00:00:00.000Z"), ..Filter::default() }), 2);
        assert_eq!(count(Filter { denied: true, ..Filter::default() }), 1);
        assert_eq!(entries(&dir.path().join("none"), &Filter::default()).unwrap(), []);
    }
}
