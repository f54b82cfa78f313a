//! A client's file as it may be shown: no value of it but those of hotcell's own entry.
//!
//! It keeps the lines as they are, so that a diff names the right ones.

use std::ops::Range;

use super::format::Format;
use super::tree::{Node, Value};
use crate::limits::Limits;

/// The text with every string of it hidden, but for those of one entry; nothing of a text that cannot be read.
pub(super) fn masked(format: Format, text: &str, own: Option<(&[&str], &str)>, limits: &Limits) -> String {
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
        shown.push_str(&text[from..range.start]);
        let hidden = &text[range.clone()];
        // A block of several lines stays as many.
        let feeds = hidden.matches('\n').count();
        shown.push_str("\"…\"");
        shown.push_str(&"\n".repeat(feeds));
        from = range.end;
    }
    shown.push_str(&text[from..]);
    shown
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
