//! What a run wrote, as text within a bound, and the expression with which code reads what was left out of it.
//!
//! It knows where in the whole output a line stands, and not what the line means.

use std::collections::VecDeque;

use super::fitting::grouped;
use super::own_lines::quote;
use crate::run::{Output, OutputStream, RunOutcome, RunReport, SandboxLoss};
use crate::text::inert;

/// A longer line is cut within, in characters as they were written.
const CHUNK_CHARS: usize = 200;
/// Room for the notice of what was left out.
const NOTICE_CHARS: usize = 160;

/// The output of a report, of both streams or of one.
pub(super) struct Written {
    chunks: Vec<Chunk>,
    /// As they were written, of both streams.
    chars: usize,
    /// Whether the sandbox still has all of it.
    is_kept: bool,
}

/// A line, or a part of a long one.
struct Chunk {
    stream: OutputStream,
    /// As it is shown, with the mark of its stream where that changes.
    text: String,
    /// What quotes it in a plain reply.
    quote: &'static str,
    is_start_of_line: bool,
    /// Its place among the characters of all output.
    start: usize,
    end: usize,
}

impl Written {
    pub(super) fn of(report: &RunReport) -> Self {
        let mut chunks = Vec::new();
        let mut start = 0;
        for piece in &report.output.pieces {
            for line in piece.text.split_inclusive('\n') {
                let mut quote = Some(quote(line));
                for raw in chunked(line) {
                    let end = start + raw.chars().count();
                    let (stream, text) = (piece.stream, inert(raw).into_owned());
                    let is_start_of_line = quote.is_some();
                    let quote = quote.take().unwrap_or_default();
                    chunks.push(Chunk { stream, text, quote, is_start_of_line, start, end });
                    start = end;
                }
            }
        }
        let container_is_gone =
            matches!(report.outcome, RunOutcome::SandboxLost(SandboxLoss::Container { .. }));
        Self { chunks, chars: start, is_kept: !container_is_gone }
    }

    /// Both streams in order, with a mark where the stream changes.
    pub(super) fn of_both(mut self, chars_max: usize) -> String {
        let mut before: Option<OutputStream> = None;
        let mut ends_line = true;
        for chunk in &mut self.chunks {
            chunk.text.insert_str(0, chunk.quote);
            let is_marked =
                before.map_or(chunk.stream == OutputStream::Stderr, |before| before != chunk.stream);
            if is_marked {
                let mark = if chunk.stream == OutputStream::Stderr { "[stderr]" } else { "[stdout]" };
                let feed = if ends_line { "" } else { "\n" };
                chunk.text.insert_str(0, &format!("{feed}{mark}\n"));
            }
            before = Some(chunk.stream);
            ends_line = chunk.text.ends_with('\n');
        }
        self.fitted(&self.chunks.iter().collect::<Vec<_>>(), chars_max)
    }

    /// One stream by lines.
    pub(super) fn lines_of(&self, stream: OutputStream, chars_max: usize) -> Vec<String> {
        let chunks: Vec<&Chunk> = self.chunks.iter().filter(|chunk| chunk.stream == stream).collect();
        self.fitted(&chunks, chars_max).lines().map(str::to_owned).collect()
    }

    /// All of them, or head and tail around a notice.
    fn fitted(&self, chunks: &[&Chunk], chars_max: usize) -> String {
        let chars = |chunk: &&Chunk| chunk.text.chars().count();
        let all: usize = chunks.iter().map(chars).sum();
        if all <= chars_max {
            return chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        }
        // Errors and results stand at the end, so that it gets the larger part.
        let kept = chars_max.saturating_sub(NOTICE_CHARS);
        let (mut head, mut head_chars) = (0, 0);
        while let Some(next) = chunks.get(head).map(chars).filter(|next| head_chars + next <= kept * 2 / 5) {
            head_chars += next;
            head += 1;
        }
        let (mut tail, mut tail_chars) = (VecDeque::new(), 0);
        for chunk in chunks[head..].iter().rev() {
            if tail_chars + chars(chunk) > kept - kept * 2 / 5 {
                break;
            }
            tail_chars += chars(chunk);
            tail.push_front(*chunk);
        }
        let from = chunks[..head].last().map_or(0, |chunk| chunk.end);
        let to = tail.front().map(|chunk| self.chars - chunk.start);
        let mut text: String = chunks[..head].iter().map(|chunk| chunk.text.as_str()).collect();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&self.notice(all - head_chars - tail_chars, from, to));
        if tail.front().is_some_and(|chunk| !chunk.is_start_of_line) {
            // What is behind a cut within a line is not the beginning of one.
            text.push('…');
        }
        tail.into_iter().for_each(|chunk| text.push_str(&chunk.text));
        text
    }

    /// From the beginning to the head's end, and from the tail's start to the end: what the bridge itself has not kept
    /// lies between the two, so that both hold all the same.
    fn notice(&self, left_out: usize, from: usize, to: Option<usize>) -> String {
        let left_out = grouped(left_out as u64);
        if !self.is_kept {
            return format!("… {left_out} characters left out here …\n");
        }
        let to = to.map(|to| format!("-{to}")).unwrap_or_default();
        format!(
            "… {left_out} characters left out here: print(runtime.last_output()[{from}:{to}]) shows them …\n"
        )
    }
}

/// How much of each stream the bridge has not kept, a sentence for each.
pub(super) fn cuts(output: &Output) -> impl Iterator<Item = String> {
    [("stdout", output.stdout_cut_bytes), ("stderr", output.stderr_cut_bytes)]
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(stream, bytes)| {
            format!("… {} bytes of {stream} left out between its head and tail …", grouped(bytes))
        })
}

/// A line in parts of about CHUNK_CHARS.
fn chunked(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = rest.char_indices().nth(CHUNK_CHARS).map_or(rest.len(), |(at, _)| at);
        // A line's end stays whole.
        let at = if rest[at..] == *"\n" { rest.len() } else { at };
        let (part, further) = rest.split_at(at);
        rest = further;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{OutputPiece, ToolFault};

    fn written(pieces: &[(OutputStream, &str)]) -> Written {
        let mut report =
            RunReport::not_started(ToolFault::new(crate::run::FaultCode::Internal, "none of this matters"));
        report.output.pieces = pieces
            .iter()
            .map(|(stream, text)| OutputPiece { stream: *stream, text: (*text).into() })
            .collect();
        Written::of(&report)
    }

    /// The bounds in `[from:-to]` of a notice.
    fn bounds(text: &str) -> (usize, usize) {
        let (_, slice) = text.split_once("print(runtime.last_output()[").unwrap();
        let (from, rest) = slice.split_once(":-").unwrap();
        (from.parse().unwrap(), rest.split_once(']').unwrap().0.parse().unwrap())
    }

    #[test]
    fn the_expression_names_what_lies_between_head_and_tail_of_all_output() {
        use OutputStream::{Stderr, Stdout};
        let out: String = (0..1000).map(|line| format!("line {line} €\u{1b}\n")).collect();
        let err: String = (0..500).map(|line| format!("trouble {line}\n")).collect();
        let shown = written(&[(Stdout, &out), (Stderr, &err), (Stdout, "end")]).of_both(3_000);
        assert!(shown.chars().count() <= 3_000, "{}", shown.chars().count());
        let whole: Vec<char> = format!("{out}{err}end").chars().collect();
        let (from, to) = bounds(&shown);
        let head: String = whole[..from].iter().collect();
        let tail: String = whole[whole.len() - to..].iter().collect();
        let (shown_head, rest) = shown.split_once("… ").unwrap();
        let (_, shown_tail) = rest.split_once(" …\n").unwrap();
        assert_eq!(shown_head, inert(&head));
        assert_eq!(shown_tail, format!("{}[stdout]\nend", tail.strip_suffix("end").unwrap()));
    }

    #[test]
    fn one_stream_is_cut_where_all_output_has_the_rest() {
        use OutputStream::{Stderr, Stdout};
        let err = "e".repeat(10_000);
        let lines =
            written(&[(Stdout, "before\n"), (Stderr, &err), (Stdout, "after")]).lines_of(Stderr, 1_000);
        let (from, to) = bounds(&lines.join("\n"));
        assert!(from > "before\n".len() && to > "after".len(), "{from} {to}");
        assert_eq!(lines.concat().matches('e').count() - "before".matches('e').count(), {
            let shown = (from - "before\n".len()) + (to - "after".len());
            // Those of the notice itself.
            shown + lines[1].matches('e').count() - 2
        });
    }

    #[test]
    fn one_endless_line_is_cut_within() {
        let shown = written(&[(OutputStream::Stdout, &"é".repeat(100_000))]).of_both(2_000);
        assert!(shown.starts_with("éé") && shown.ends_with("éé") && shown.chars().count() <= 2_000);
    }

    #[test]
    fn a_small_bound_still_says_what_was_left_out() {
        let shown = written(&[(OutputStream::Stdout, &"x".repeat(1_000))]).of_both(10);
        assert_eq!(
            shown,
            "… 1,000 characters left out here: print(runtime.last_output()[0:]) shows them …\n"
        );
    }

    #[test]
    fn of_a_container_that_is_gone_nothing_can_be_read_on() {
        let mut written = written(&[(OutputStream::Stdout, &"x".repeat(1_000))]);
        written.is_kept = false;
        assert_eq!(written.of_both(10), "… 1,000 characters left out here …\n");
    }
}
