//! TOML as Codex and Vibe write it: read with positions, and edited in place.
//!
//! An edit keeps all other bytes. This module does not know what the file is about.

use serde_json::Number;
use toml_edit::{ArrayOfTables, Document, DocumentMut, InlineTable, Item, Table, TableLike};

use super::spanned::{FormatError, Member, Node, Value};

/// Reads a whole text.
pub(crate) fn read(text: &str, depth_max: usize) -> Result<Value, FormatError> {
    let document = Document::parse(text).map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        FormatError { at: error.span().map_or(0, |span| span.start), message, hint: "" }
    })?;
    let node = table_of(document.as_table(), depth_max, depth_max)?;
    Ok(Value { range: 0..text.len(), node })
}

/// The text with this table in the one at `path`, which replaces one of the same name; `None`: the edit is not
/// possible.
pub(crate) fn put(text: &str, path: &[&str], name: &str, entry: &serde_json::Value) -> Option<String> {
    let mut document = parsed(text)?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in path {
        let made = || {
            let mut made = Table::new();
            made.set_implicit(true);
            Item::Table(made)
        };
        table = table.entry(key).or_insert_with(made).as_table_like_mut()?;
    }
    table.insert(name, Item::Table(table_from(entry, text)?));
    Some(document.to_string())
}

/// The text with this table in the list at `path` (one key), which replaces one with the same `name`.
pub(crate) fn put_item(text: &str, path: &[&str], name: &str, entry: &serde_json::Value) -> Option<String> {
    let [key] = path else { return None };
    let mut document = parsed(text)?;
    let list =
        document.as_table_mut().entry(key).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    match list {
        Item::ArrayOfTables(tables) => {
            let mut made = table_from(entry, text)?;
            let at = tables.iter().position(|table| is_called(table, name));
            match at {
                Some(at) => {
                    let former = tables.get_mut(at)?;
                    made.set_position(former.position());
                    *made.decor_mut() = former.decor().clone();
                    *former = made;
                }
                None => tables.push(made),
            }
        }
        Item::Value(toml_edit::Value::Array(items)) => {
            let made = value_from(entry)?;
            let at = items.iter().position(|item| is_inline_called(item, name));
            match at {
                Some(at) => drop(items.replace(at, made)),
                None => items.push(made),
            }
        }
        _ => return None,
    }
    Some(document.to_string())
}

/// The text without this table.
pub(crate) fn take_out(text: &str, path: &[&str], name: &str) -> Option<String> {
    let mut document = parsed(text)?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in path {
        table = table.get_mut(key)?.as_table_like_mut()?;
    }
    table.remove(name)?;
    Some(document.to_string())
}

/// The text without the table with this `name` in the list.
pub(crate) fn take_out_item(text: &str, path: &[&str], name: &str) -> Option<String> {
    let [key] = path else { return None };
    let mut document = parsed(text)?;
    match document.as_table_mut().get_mut(key)? {
        Item::ArrayOfTables(tables) => {
            let at = tables.iter().position(|table| is_called(table, name))?;
            tables.remove(at);
        }
        Item::Value(toml_edit::Value::Array(items)) => {
            let at = items.iter().position(|item| is_inline_called(item, name))?;
            items.remove(at);
        }
        _ => return None,
    }
    Some(document.to_string())
}

fn is_called(table: &dyn TableLike, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

fn is_inline_called(item: &toml_edit::Value, name: &str) -> bool {
    item.as_inline_table().is_some_and(|table| is_called(table, name))
}

/// The entry as a table of its own in this text.
fn table_from(entry: &serde_json::Value, text: &str) -> Option<Table> {
    let mut made = Table::new();
    for (key, value) in entry.as_object()? {
        made.insert(key, Item::Value(value_from(value)?));
    }
    if !text.trim().is_empty() {
        made.decor_mut().set_prefix("\n");
    }
    Some(made)
}

fn parsed(text: &str) -> Option<DocumentMut> {
    let document: DocumentMut = text.parse().ok()?;
    (document.to_string() == text).then_some(document)
}

fn table_of(table: &dyn TableLike, depth_left: usize, depth_max: usize) -> Result<Node, FormatError> {
    let depth_left = depth_left.checked_sub(1).ok_or_else(|| FormatError::too_deep(0, depth_max))?;
    let mut members = Vec::new();
    for (key, item) in table.iter() {
        let value = item_of(item, depth_left, depth_max)?;
        let key_span = table.key(key).and_then(toml_edit::Key::span);
        let at = key_span.map_or(value.range.start, |span| span.start);
        members.push(Member { key: key.to_owned(), at, value });
    }
    Ok(Node::Table(members))
}

fn item_of(item: &Item, depth_left: usize, depth_max: usize) -> Result<Value, FormatError> {
    let range = item.span().unwrap_or(0..0);
    let node = match item {
        Item::None => Node::Null,
        Item::Value(value) => return value_of(value, depth_left, depth_max),
        Item::Table(table) => table_of(table, depth_left, depth_max)?,
        Item::ArrayOfTables(tables) => {
            let depth_left =
                depth_left.checked_sub(1).ok_or_else(|| FormatError::too_deep(range.start, depth_max))?;
            let tables = tables.iter().map(|table| {
                let node = table_of(table, depth_left, depth_max)?;
                Ok(Value { range: table.span().unwrap_or(0..0), node })
            });
            Node::List(tables.collect::<Result<_, FormatError>>()?)
        }
    };
    Ok(Value { range, node })
}

fn value_of(value: &toml_edit::Value, depth_left: usize, depth_max: usize) -> Result<Value, FormatError> {
    let range = value.span().unwrap_or(0..0);
    let node = match value {
        toml_edit::Value::String(text) => Node::Text(text.value().clone()),
        toml_edit::Value::Integer(number) => Node::Number(Number::from(*number.value())),
        toml_edit::Value::Float(number) => match Number::from_f64(*number.value()) {
            Some(number) => Node::Number(number),
            None => Node::Unread("a number without end"),
        },
        toml_edit::Value::Boolean(value) => Node::Bool(*value.value()),
        toml_edit::Value::Datetime(time) => Node::Text(time.value().to_string()),
        toml_edit::Value::Array(items) => {
            let depth_left =
                depth_left.checked_sub(1).ok_or_else(|| FormatError::too_deep(range.start, depth_max))?;
            let items = items.iter().map(|item| value_of(item, depth_left, depth_max));
            Node::List(items.collect::<Result<_, _>>()?)
        }
        toml_edit::Value::InlineTable(table) => table_of(table, depth_left, depth_max)?,
    };
    Ok(Value { range, node })
}

fn value_from(value: &serde_json::Value) -> Option<toml_edit::Value> {
    Some(match value {
        serde_json::Value::Null => return None,
        serde_json::Value::Bool(value) => (*value).into(),
        serde_json::Value::Number(number) => number.as_i64()?.into(),
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => {
            items.iter().map(value_from).collect::<Option<toml_edit::Array>>()?.into()
        }
        serde_json::Value::Object(members) => {
            let members = members.iter().map(|(key, value)| Some((key.as_str(), value_from(value)?)));
            members.collect::<Option<InlineTable>>()?.into()
        }
    })
}
