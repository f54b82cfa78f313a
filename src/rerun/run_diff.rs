//! Compares what a run has come to with what it had come to before.
//!
//! It knows no calls; the broker compares these.

use belljar_base::run::OutputStream;
use belljar_base::text;

use crate::journal::RunEnded;

/// Longest line of output that is shown, in characters.
const LINE_CHARS_MAX: usize = 300;

/// In what a run has come to something else: nothing where it is the same.
pub(super) fn differences(then: &RunEnded, now: &RunEnded) -> Vec<String> {
    let mut differences = Vec::new();
    if then.outcome != now.outcome {
        differences.push(format!("it came to {}, and now to {}", shown(&then.outcome), now.outcome));
    }
    if then.said_sha256 != now.said_sha256 {
        differences.push(first_difference(then, now));
    }
    differences
}

/// The first line that is another one, of what is kept of both.
fn first_difference(then: &RunEnded, now: &RunEnded) -> String {
    let (then, now) = (said(then), said(now));
    let pairs = then.iter().map(Some).chain(std::iter::repeat(None));
    let mut pairs = pairs.zip(now.iter().map(Some).chain(std::iter::repeat(None)));
    let differing = pairs.by_ref().take(then.len().max(now.len())).find(|(then, now)| then != now);
    let line = |line: Option<&String>| line.map_or("(nothing)".into(), |line| shown(line));
    match differing {
        Some((then, now)) => format!("it says otherwise\n  now:  {}\n  then: {}", line(now), line(then)),
        None => "it says otherwise, behind what is kept of it".into(),
    }
}

/// The lines of what a run has said, stream by stream.
fn said(ended: &RunEnded) -> Vec<String> {
    let of = |stream: OutputStream| {
        let pieces = ended.output.iter().filter(move |written| written.stream == stream);
        pieces.map(|written| written.text.as_str()).collect::<String>()
    };
    let mut said = vec![of(OutputStream::Stdout), of(OutputStream::Stderr)];
    said.extend(ended.value.clone());
    said.extend(ended.bound.iter().cloned());
    said.extend(ended.error.as_ref().map(|error| format!("{}: {}", error.class, error.message)));
    said.iter().flat_map(|text| text.lines().map(str::to_owned)).collect()
}

fn shown(line: &str) -> String {
    text::inert_excerpt(line, LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use belljar_base::digest;
    use belljar_base::run::StateNote;

    use super::*;
    use crate::journal::OutputText;

    fn ended(outcome: &str, stdout: &str, stderr: &str, value: &str) -> RunEnded {
        let said = format!("{stdout}{stderr}{value}");
        let written = |stream, text: &str| OutputText { stream, text: text.into() };
        RunEnded {
            run: 1,
            time: String::new(),
            outcome: outcome.into(),
            error: None,
            output: vec![written(OutputStream::Stderr, stderr), written(OutputStream::Stdout, stdout)],
            value: Some(value.into()),
            bound: vec![],
            said_bytes: said.len() as u64,
            said_sha256: digest::sha256(said.as_bytes()),
            images: 0,
            notes: vec![],
            state: StateNote::Kept,
            ms: 1,
        }
    }

    #[test]
    fn the_first_line_that_differs_is_shown_and_how_a_run_ended() {
        let then = ended("finished", "a\nb\n", "e\n", "1");
        assert_eq!(differences(&then, &then), [""; 0]);
        let now = ended("raised", "a\nc\u{1b}\n", "e\n", "1");
        assert_eq!(
            differences(&then, &now),
            ["it came to finished, and now to raised", "it says otherwise\n  now:  c\\x1b\n  then: b"]
        );
        let shorter = ended("finished", "a\nb\n", "e\n", "");
        assert_eq!(differences(&then, &shorter), ["it says otherwise\n  now:  (nothing)\n  then: 1"]);
        let mut cut = ended("finished", "a\nb\n", "e\n", "1");
        cut.said_sha256 = digest::sha256(b"what was cut off");
        assert_eq!(differences(&then, &cut), ["it says otherwise, behind what is kept of it"]);
    }
}
