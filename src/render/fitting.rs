//! Makes a text fit a number of characters: its beginning and end stay, and what was left out between them is said.
//!
//! It cuts at characters, preferably at line ends, and knows nothing of what the text means.

use belljar_base::run::PythonError;
use belljar_base::text::{bounded, inert};

use super::own_lines::in_one_line;

/// The part of a traceback that the code in a notice shows, in characters.
const TRACEBACK_PART_CHARS: u64 = 8_000;
/// Longest hint, in characters.
const HINT_CHARS_MAX: usize = 600;

/// What to do about an error, safe to show; what a sandbox says may be of any length.
pub(super) fn hint(hint: &str) -> String {
    bounded(&inert(hint), HINT_CHARS_MAX).into_owned()
}

/// The same in one line, of a sandbox.
pub(super) fn hint_of_sandbox(hint: &str) -> String {
    bounded(&in_one_line(hint), HINT_CHARS_MAX).into_owned()
}

/// The whole text, or its head and tail around `… 1,234 characters left out …`. The result has at most `chars_max`
/// characters when that is at least 200.
pub(super) fn fitted(text: &str, chars_max: usize) -> String {
    fitted_with(text, chars_max, |left_out, _| {
        format!("{} characters left out here to keep the reply short", grouped(left_out))
    })
}

/// The same for a traceback in this form, with the code that shows the first of what was left out, if that is kept.
pub(super) fn fitted_traceback(shown: &str, raised: &PythonError, chars_max: usize) -> String {
    let kept = raised.traceback_chars;
    let known = raised.traceback.chars().count() as u64;
    if kept < known {
        return fitted(shown, chars_max);
    }
    fitted_with(shown, chars_max, |left_out, head| {
        let left_out = grouped(left_out + (kept - known));
        // Escapes make the head longer than what it shows.
        let from = kept - if shown == raised.traceback { head.min(kept) } else { 0 };
        let to = from.saturating_sub(TRACEBACK_PART_CHARS);
        let to = if to == 0 { String::new() } else { format!("-{to}") };
        format!("{left_out} characters left out here; read on: print(runtime.last_output()[-{from}:{to}])")
    })
}

/// `notice`: makes the notice from the number of characters that are left out, and the number before them.
fn fitted_with(text: &str, chars_max: usize, notice: impl Fn(u64, u64) -> String) -> String {
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.to_owned();
    }
    const NOTICE_CHARS: usize = 120;
    let kept = chars_max.saturating_sub(NOTICE_CHARS);
    // Errors and results stand at the end, so that it gets the larger part.
    let head_chars = kept * 2 / 5;
    let tail_chars = kept - head_chars;
    let head_end = byte_at(text, head_chars);
    let tail_start = byte_at(text, chars - tail_chars);
    let head_end = text[..head_end].rfind('\n').filter(|feed| *feed * 2 > head_end).unwrap_or(head_end);
    let tail = &text[tail_start..];
    let tail = match tail.find('\n') {
        Some(feed) if feed * 2 < tail.len() => &tail[feed + 1..],
        _ => tail,
    };
    // What is behind a cut within a line is not the beginning of one.
    let cut = if text[..text.len() - tail.len()].ends_with('\n') { "" } else { "…" };
    let head = &text[..head_end];
    let shown = head.chars().count();
    let notice = notice((chars - shown - tail.chars().count()) as u64, shown as u64);
    format!("{head}\n… {notice} …\n{cut}{tail}")
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn byte_at(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte)
}

/// As many of them as there is room for, and how many more there are.
pub(super) fn within_room(lines: &[String], room: usize) -> Vec<String> {
    let mut left = room;
    let mut shown = Vec::new();
    for line in lines {
        let line = in_one_line(line);
        let chars = line.chars().count();
        if chars > left {
            shown.push(format!("… {} more", lines.len() - shown.len()));
            break;
        }
        left -= chars;
        shown.push(line);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_keeps_both_ends() {
        assert_eq!(fitted("日本", 2), "日本");
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let fitted = fitted(&text, 400);
        assert!(fitted.chars().count() <= 400, "{}", fitted.chars().count());
        let (head, tail) = fitted.split_once("\n… ").unwrap();
        let (notice, tail) = tail.split_once(" …\n").unwrap();
        assert!(text.starts_with(head) && text.ends_with(tail) && head.ends_with(char::is_numeric));
        let left_out = text.len() - head.len() - tail.len();
        assert_eq!(
            notice,
            format!("{} characters left out here to keep the reply short", grouped(left_out as u64))
        );
    }

    #[test]
    fn a_traceback_is_counted_as_it_is_kept_and_the_code_reads_on_behind_its_head() {
        let whole = format!("Traceback:\nValueError: {}", "yz".repeat(1_500_000));
        let raised = |sent: &str, kept: u64| PythonError {
            class: "ValueError".into(),
            message: String::new(),
            traceback: sent.into(),
            traceback_chars: kept,
            line: None,
            hint: String::new(),
        };
        let sent = format!("{} … {}", &whole[..40_000], &whole[whole.len() - 20_000..]);
        let shown = fitted_traceback(&sent, &raised(&sent, whole.len() as u64), 1_500);
        let (head, rest) = shown.split_once("\n… ").unwrap();
        let (notice, tail) = rest.split_once(" …\n…").unwrap();
        let from = whole.len() - head.len();
        assert_eq!(
            notice,
            format!(
                "{} characters left out here; read on: print(runtime.last_output()[-{from}:-{}])",
                grouped((whole.len() - head.len() - tail.len()) as u64),
                from - 8_000
            )
        );
        assert!(whole.starts_with(head) && whole.ends_with(tail) && shown.chars().count() <= 1_500);
        let short = "x".repeat(2_000);
        let shown = fitted_traceback(&format!("> {short}"), &raised(&short, 2_000), 1_500);
        assert!(shown.contains("print(runtime.last_output()[-2000:])"), "{shown}");
        assert!(fitted_traceback(&short, &raised(&short, 0), 1_500).contains(" left out here to keep "));
    }

    #[test]
    fn one_endless_line_is_cut_within() {
        let fitted = fitted(&"é".repeat(100_000), 1_000);
        assert_eq!(fitted.chars().count() <= 1_000, fitted.starts_with('é'));
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
