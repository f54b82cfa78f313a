//! What a run wrote, as text within a bound, and the expression with which code reads what was left out of it.
//!
//! It knows where in the whole output a line stands, and not what the line means.

use belljar_base::run::{OutputStream, RunOutcome, RunReport, SandboxLoss};
use belljar_base::text::{inert, last_state};

use super::fitting::grouped;
use super::own_lines::is_like_own;

/// A longer line is cut within, in characters as they were written.
const CHUNK_CHARS: usize = 200;
/// Room for the notice of what was left out.
const NOTICE_CHARS: usize = 160;
/// What is left out is read on in parts of this share of the room: as text they fit there, with what is shown of a
/// character that steers, and of a stream's change.
const ROOM_PER_PART: usize = 2;

/// The output of a report, of both streams or of one.
pub(super) struct OutputView {
    chunks: Vec<Chunk>,
    /// Whether the sandbox still has all of it.
    is_kept: bool,
    /// Whether a line could be taken for one of the bridge's.
    pub(super) has_like_own: bool,
}

/// A line, or a part of a long one.
struct Chunk {
    stream: OutputStream,
    /// As it is shown, with the mark of its stream where that changes.
    text: String,
    is_start_of_line: bool,
    /// Characters of its stream that were not kept before it.
    cut_before: usize,
    /// Where it ends among the characters that were kept of all output.
    end: usize,
    /// Its characters, as they were written.
    chars: usize,
}

impl OutputView {
    pub(super) fn of(report: &RunReport) -> Self {
        let mut chunks = Vec::new();
        let (mut end, mut has_like_own) = (0, false);
        for (index, piece) in report.output.pieces.iter().enumerate() {
            let cut = report.output.cut(piece.stream).filter(|cut| cut.before_piece == index);
            let mut cut_before = cut.map_or(0, |cut| usize::try_from(cut.chars).unwrap_or(usize::MAX));
            // What follows a cut is in the midst of a line, mostly.
            let mut is_start_of_line = cut_before == 0;
            let lines = piece.text.split_inclusive('\n').chain(piece.text.is_empty().then_some(""));
            for line in lines {
                let redrawn = last_state(line);
                has_like_own |= is_like_own(redrawn);
                // What was drawn over belongs to the first part.
                let mut drawn_over = line[..line.len() - redrawn.len()].chars().count();
                for raw in chunked(redrawn) {
                    let chars = raw.chars().count() + std::mem::take(&mut drawn_over);
                    end += chars;
                    let (stream, text) = (piece.stream, inert(raw).into_owned());
                    let cut_before = std::mem::take(&mut cut_before);
                    chunks.push(Chunk { stream, text, is_start_of_line, cut_before, end, chars });
                    is_start_of_line = false;
                }
                is_start_of_line = true;
            }
        }
        let container_is_gone =
            matches!(report.outcome, RunOutcome::SandboxLost(SandboxLoss::Container { .. }));
        Self { chunks, is_kept: !container_is_gone, has_like_own }
    }

    /// Both streams in order, with a mark where the stream changes.
    pub(super) fn of_both(mut self, chars_max: usize) -> String {
        let mut before: Option<OutputStream> = None;
        let mut ends_line = true;
        for chunk in &mut self.chunks {
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
        let is_whole = chunks.iter().all(|chunk| chunk.cut_before == 0);
        if is_whole && chunks.iter().map(chars).sum::<usize>() <= chars_max {
            return chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        }
        // Errors and results stand at the end, so that it gets the larger part.
        let kept = chars_max.saturating_sub(NOTICE_CHARS);
        let (mut head, mut head_chars) = (0, 0);
        while let Some(next) = chunks.get(head).filter(|next| next.cut_before == 0) {
            if head_chars + chars(next) > kept * 2 / 5 {
                break;
            }
            head_chars += chars(next);
            head += 1;
        }
        let (mut tail, mut tail_chars) = (chunks.len(), 0);
        while tail > head && tail_chars + chars(&chunks[tail - 1]) <= kept - kept * 2 / 5 {
            tail -= 1;
            tail_chars += chars(&chunks[tail]);
            if chunks[tail].cut_before > 0 {
                break;
            }
        }
        let mut text: String = chunks[..head].iter().map(|chunk| chunk.text.as_str()).collect();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let between = chunks[head..tail]
            .iter()
            .fold(0, |sum, chunk| chunk.cut_before.saturating_add(sum) + chunk.chars);
        let left_out = between.saturating_add(chunks.get(tail).map_or(0, |chunk| chunk.cut_before));
        let from = chunks[..head].last().map_or(0, |chunk| chunk.end);
        text.push_str(&self.notice(left_out, from, (chars_max / ROOM_PER_PART).max(1)));
        if chunks.get(tail).is_some_and(|chunk| !chunk.is_start_of_line) {
            // What is behind a cut within a line is not the beginning of one.
            text.push('…');
        }
        text.extend(chunks[tail..].iter().map(|chunk| chunk.text.as_str()));
        text
    }

    /// How much is missing here, and the code that shows the first of it. It gives all of the output a name, since the
    /// next run writes as well.
    fn notice(&self, left_out: usize, from: usize, part: usize) -> String {
        let count = grouped(left_out as u64);
        if !self.is_kept {
            return format!("… {count} characters left out here …\n");
        }
        let to = from + part.min(left_out);
        format!(
            "… {count} characters left out here; read on: out = runtime.last_output(); print(out[{from}:{to}]) …\n"
        )
    }
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
    use belljar_base::run::{OutputCut, OutputPiece, ToolFault};

    use super::*;

    fn written(pieces: &[(OutputStream, &str)]) -> OutputView {
        OutputView::of(&wrote(pieces))
    }

    /// So many characters were not kept before the piece of this index.
    fn cut(pieces: &[(OutputStream, &str)], before_piece: usize, chars: u64) -> OutputView {
        let mut report = wrote(pieces);
        report.output.stdout_cut = Some(OutputCut { before_piece, bytes: chars, chars });
        OutputView::of(&report)
    }

    fn wrote(pieces: &[(OutputStream, &str)]) -> RunReport {
        let mut report = RunReport::not_started(ToolFault::new(
            belljar_base::run::FaultCode::Internal,
            "none of this matters",
        ));
        report.output.pieces = pieces
            .iter()
            .map(|(stream, text)| OutputPiece { stream: *stream, text: (*text).into() })
            .collect();
        report
    }

    /// How many characters a notice says are left out, and the bounds of its slice.
    fn noticed(text: &str) -> (usize, usize, usize) {
        let (said, slice) = text.split_once("; read on: out = runtime.last_output(); print(out[").unwrap();
        let (_, said) = said.rsplit_once("… ").unwrap();
        let count = said.strip_suffix(" characters left out here").unwrap().replace(',', "");
        let (from, rest) = slice.split_once(':').unwrap();
        (count.parse().unwrap(), from.parse().unwrap(), rest.split_once(']').unwrap().0.parse().unwrap())
    }

    #[test]
    fn the_notice_counts_what_is_missing_and_reads_on_behind_the_head() {
        use OutputStream::{Stderr, Stdout};
        let out: String = (0..1000).map(|line| format!("line {line} €\u{1b}\n")).collect();
        let err: String = (0..500).map(|line| format!("trouble {line}\n")).collect();
        let shown = written(&[(Stdout, &out), (Stderr, &err), (Stdout, "end")]).of_both(3_000);
        assert!(shown.chars().count() <= 3_000, "{}", shown.chars().count());
        let whole: Vec<char> = format!("{out}{err}end").chars().collect();
        let (left_out, from, to) = noticed(&shown);
        assert_eq!(to, from + 1_500);
        let head: String = whole[..from].iter().collect();
        let tail: String = whole[from + left_out..].iter().collect();
        let (shown_head, rest) = shown.split_once("… ").unwrap();
        let (_, shown_tail) = rest.split_once(" …\n").unwrap();
        assert_eq!(shown_head, inert(&head));
        assert_eq!(shown_tail, format!("{}[stdout]\nend", tail.strip_suffix("end").unwrap()));
        // What is read on fits.
        let part: String = whole[from..to].iter().collect();
        assert_eq!(written(&[(Stdout, &part)]).of_both(3_000), inert(&part));
    }

    #[test]
    fn what_was_not_kept_is_counted_where_it_is_missing() {
        use OutputStream::{Stderr, Stdout};
        let (head, tail) = ("h".repeat(5_000), "t".repeat(5_000));
        let pieces = [(Stdout, head.as_str()), (Stderr, "trouble\n"), (Stdout, tail.as_str())];
        let shown = cut(&pieces, 2, 1_000_000).of_both(2_000);
        let (left_out, from, to) = noticed(&shown);
        let (shown_head, rest) = shown.split_once("\n… ").unwrap();
        let (_, shown_tail) = rest.split_once(" …\n…").unwrap();
        let (shown_head, shown_tail) = (shown_head.len(), shown_tail.len());
        assert!(left_out == 1_010_008 - shown_head - shown_tail, "{left_out} {shown_head} {shown_tail}");
        assert_eq!((from, to), (shown_head, shown_head + 1_000));
        // It is said also where all that was kept would fit, and of the stream that it is of.
        let both = cut(&pieces, 2, 1_000_000).of_both(20_000);
        assert!(both.starts_with(&format!("{head}\n[stderr]\ntrouble\n… 1,000,000 characters")), "{both}");
        assert!(both.ends_with(&format!(" …\n…[stdout]\n{tail}")), "{both}");
        let of_out = cut(&pieces, 2, 1_000_000).lines_of(Stdout, 20_000);
        assert_eq!((noticed(&of_out[1]).0, of_out.len()), (1_000_000, 3));
        assert_eq!(cut(&pieces, 2, 1_000_000).lines_of(Stderr, 20_000), ["trouble"]);
    }

    #[test]
    fn one_stream_is_cut_where_all_output_has_the_rest() {
        use OutputStream::{Stderr, Stdout};
        let err = "e".repeat(10_000);
        let lines =
            written(&[(Stdout, "before\n"), (Stderr, &err), (Stdout, "after")]).lines_of(Stderr, 1_000);
        let (left_out, from, _) = noticed(&lines[1]);
        assert_eq!(from, "before\n".len() + lines[0].len());
        assert_eq!(left_out, 10_000 - lines[0].len() - lines[2].matches('e').count());
    }

    #[test]
    fn a_line_that_redraws_itself_shows_its_last_state_and_the_rest_can_be_read_on() {
        use OutputStream::Stdout;
        let bar: String = (0..100).map(|step| format!("\r{step:3}%")).collect();
        let text = format!("begin\r\n{bar}\r\nend\n");
        assert_eq!(written(&[(Stdout, &text)]).of_both(3_000), "begin\n 99%\nend\n");
        let long = format!("{text}{}", "x".repeat(5_000));
        let (_, from, _) = noticed(&written(&[(Stdout, &long)]).of_both(3_000));
        assert!(long[from..].starts_with('x') && from > text.len(), "{from}");
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
            "… 1,000 characters left out here; read on: out = runtime.last_output(); print(out[0:5]) …\n"
        );
    }

    #[test]
    fn of_a_container_that_is_gone_nothing_can_be_read_on() {
        let mut written = written(&[(OutputStream::Stdout, &"x".repeat(1_000))]);
        written.is_kept = false;
        assert_eq!(written.of_both(10), "… 1,000 characters left out here …\n");
    }
}
