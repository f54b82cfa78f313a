//! Adds an entry to a table or list in a block of YAML, or removes it, with the smallest change of the text. Unusual texts
//! are not edited.
//!
//! It does not check the result: `format` parses it again and compares.

use super::spanned::{Collection, FormatError, Member, Node, Value};
use super::yaml_text;

/// The largest depth of a file. Files of settings are less deep.
const DEPTH_MAX: usize = 128;

/// The text with this entry in the table or list at `path` below the root (one key), which replaces one of the same name;
/// `None`: the edit is not possible.
pub(crate) fn put(
    text: &str,
    (path, name): (&[&str], &str),
    entry: &serde_json::Value,
    collection: Collection,
) -> Option<String> {
    let [parent] = path else { return None };
    let root = read(text, collection).ok()?;
    let block = |indent: usize| block(name, entry, indent, collection);
    let Some(at) = root.members().iter().find(|member| member.key == *parent) else {
        return appended(text, &root, &format!("{}:\n{}", key(parent), block(2)));
    };
    match &at.value.node {
        Node::Null => {
            let line_end = line_end(text, at.at);
            Some(inserted(text, line_end, &block(2)))
        }
        Node::Table(members) if members.is_empty() => {
            let (before, rest) = text.split_at(at.value.range.start);
            // Only the brackets are removed: the rest of the line stays.
            let rest = rest.strip_prefix(empty(collection))?;
            let line_end = rest.find('\n').map_or(rest.len(), |feed| feed + 1);
            let text = format!("{}{rest}", before.trim_end_matches(' '));
            let before_bytes = text.len() - rest.len();
            Some(inserted(&text, before_bytes + line_end, &block(2)))
        }
        Node::Table(members) => match members.iter().find(|member| member.key == name) {
            Some(former) => {
                let (start, end) = lines_of(text, former)?;
                let block = block(column(text, former)?);
                Some(format!("{}{block}{}", &text[..start], &text[end..]))
            }
            None => {
                let first = members.first()?;
                let indent = column(text, first)?;
                let line_end = line_end(text, at.at);
                // A list may begin at the column of its key.
                let indent_min = column(text, at)? + usize::from(collection == Collection::Table);
                // A flow mapping, or a block that begins on the key's line, is not edited.
                (first.at >= line_end && indent >= indent_min)
                    .then(|| inserted(text, line_end, &block(indent)))
            }
        },
        _ => None,
    }
}

/// The text without this entry.
pub(crate) fn take_out(text: &str, (path, name): (&[&str], &str), collection: Collection) -> Option<String> {
    let [parent] = path else { return None };
    let root = read(text, collection).ok()?;
    let at = root.members().iter().find(|member| member.key == *parent)?;
    let members = at.value.members();
    let (start, end) = lines_of(text, members.iter().find(|member| member.key == name)?)?;
    if members.len() > 1 {
        return Some(format!("{}{}", &text[..start], &text[end..]));
    }
    let key_end = at.at + text[at.at..].find(':')? + 1;
    Some(format!("{} {}{}{}", &text[..key_end], empty(collection), &text[key_end..start], &text[end..]))
}

/// The entry as lines, each indented by `indent` blanks.
fn block(name: &str, entry: &serde_json::Value, indent: usize, collection: Collection) -> String {
    let blanks = " ".repeat(indent);
    let mut block = match collection {
        Collection::Table => format!("{blanks}{}:\n", key(name)),
        Collection::List => String::new(),
    };
    for (name, value) in entry.as_object().into_iter().flatten() {
        let start = if block.is_empty() { "- " } else { "  " };
        // Strings, lists and tables in JSON are also valid YAML, on one line.
        block.push_str(&format!("{blanks}{start}{}: {value}\n", key(name)));
    }
    block
}

fn read(text: &str, collection: Collection) -> Result<Value, FormatError> {
    let root = yaml_text::read(text, DEPTH_MAX)?;
    Ok(match collection {
        Collection::Table => root,
        Collection::List => root.with_named_lists(),
    })
}

fn empty(collection: Collection) -> &'static str {
    match collection {
        Collection::Table => "{}",
        Collection::List => "[]",
    }
}

fn appended(text: &str, root: &Value, block: &str) -> Option<String> {
    let is_at_margin = |member: &Member| column(text, member) == Some(0);
    let is_plain = match &root.node {
        Node::Table(members) => members.iter().all(is_at_margin),
        _ => false,
    };
    let has_end_mark = text.lines().any(|line| line.trim_end() == "...");
    (is_plain && !has_end_mark).then(|| inserted(text, text.len(), block))
}

fn inserted(text: &str, at: usize, block: &str) -> String {
    let (before, after) = text.split_at(at);
    let feed = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{feed}{block}{after}")
}

/// The key without quotes, unless it would mean something else in YAML.
fn key(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&name.to_lowercase().as_str());
    if is_plain { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}

/// The number of blanks before a member's key, or before the dash of an item; `None`: other text comes before it on its
/// line.
fn column(text: &str, member: &Member) -> Option<usize> {
    let before = &text[line_start(text, member.at)..member.at];
    let blanks = before.bytes().take_while(|byte| *byte == b' ').count();
    let rest = before[blanks..].trim_end_matches(' ');
    (rest.is_empty() || rest == "-").then_some(blanks)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |feed| feed + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |feed| at + feed + 1)
}

/// The lines of a member: that of its key, and all following lines that are indented deeper.
fn lines_of(text: &str, member: &Member) -> Option<(usize, usize)> {
    let indent = column(text, member)?;
    let start = line_start(text, member.at);
    let mut end = line_end(text, member.at);
    let mut next = end;
    while next < text.len() {
        let line_end = line_end(text, next);
        let line = &text[next..line_end];
        let is_blank = line.trim().is_empty();
        if !is_blank && line.len() - line.trim_start_matches(' ').len() <= indent {
            break;
        }
        next = line_end;
        if !is_blank {
            end = next;
        }
    }
    Some((start, end))
}
