//! A client's file in a form that may be shown: without values and comments, except those of belljar's own entry.
//!
//! It keeps all lines, so that a diff has the right line numbers.

use std::ops::Range;

use belljar_base::limits::Limits;

use super::format::Format;
use super::spanned::{Node, Value};

/// The text with every string hidden, except those of one entry; empty if the text cannot be read.
pub(crate) fn masked(format: Format, text: &str, own: Option<(&[&str], &str)>, limits: &Limits) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Ok(root) = format.read(text, limits) else { return String::new() };
    let own = own.and_then(|(path, name)| root.at_path(path)?.get(name));
    let mut ranges = Vec::new();
    hide(&root, own, &mut ranges);
    ranges.sort_by_key(|range| range.start);
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        if range.start < from {
            continue;
        }
        push_without_comments(&mut shown, &text[from..range.start], format);
        let hidden = &text[range.clone()];
        // A value of several lines keeps its number of lines.
        let feeds = hidden.matches('\n').count();
        shown.push_str("\"…\"");
        shown.push_str(&"\n".repeat(feeds));
        from = range.end;
    }
    push_without_comments(&mut shown, &text[from..], format);
    shown
}

/// Appends the text between values: keys and punctuation. A comment is only marked as one.
fn push_without_comments(shown: &mut String, between: &str, format: Format) {
    let starts: &[&str] = if format == Format::Json { &["//", "/*"] } else { &["#"] };
    let mut rest = between;
    let mut quote = None;
    while let Some(first) = rest.chars().next() {
        if let (None, Some(start)) = (quote, starts.iter().find(|start| rest.starts_with(**start))) {
            let end = match *start {
                "/*" => rest.find("*/").map_or(rest.len(), |end| end + 2),
                _ => rest.find('\n').unwrap_or(rest.len()),
            };
            let feeds = rest[..end].matches('\n').count();
            shown.push_str(&format!("{start} …{}", if *start == "/*" { " */" } else { "" }));
            shown.push_str(&"\n".repeat(feeds));
            rest = &rest[end..];
            continue;
        }
        quote = match (quote, first) {
            // No key continues on the next line.
            (_, '\n') => None,
            (None, '"' | '\'') => Some(first),
            (Some(open), _) if open == first => None,
            (same, _) => same,
        };
        let escaped = if quote == Some('"') && first == '\\' { rest[1..].chars().next() } else { None };
        let length = first.len_utf8() + escaped.map_or(0, char::len_utf8);
        shown.push_str(&rest[..length]);
        rest = &rest[length..];
    }
}

fn hide(value: &Value, own: Option<&Value>, ranges: &mut Vec<Range<usize>>) {
    if own.is_some_and(|own| std::ptr::eq(own, value)) {
        return;
    }
    match &value.node {
        Node::Text(_) | Node::Number(_) => ranges.push(value.range.clone()),
        Node::List(items) => items.iter().for_each(|item| hide(item, own, ranges)),
        Node::Table(members) => members.iter().for_each(|member| hide(&member.value, own, ranges)),
        Node::Null | Node::Bool(_) | Node::Unread(_) => {}
    }
}
