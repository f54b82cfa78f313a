//! The content of a client's file in any format: values with their byte ranges. Repeated keys are kept.
//!
//! It knows no format and no client.

use std::ops::Range;

use serde_json::{Map, Number};

/// A value, and the bytes of the file that it consists of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub(crate) range: Range<usize>,
    pub(crate) node: Node,
}

/// The kind and content of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Table(Vec<Member>),
    /// A feature of the format that is not supported, in words.
    Unread(&'static str),
}

/// One member of a table, in the file's order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    /// The byte at which the key begins.
    pub(crate) at: usize,
    pub(crate) value: Value,
}

/// The form of the entries in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collection {
    /// A table, in which the name is the key of an entry.
    Table,
    /// A list, in which the name is a part of an entry.
    List,
}

/// The reason for which a text is not of its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormatError {
    /// The byte at which the error is.
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

impl FormatError {
    pub(super) fn too_deep(at: usize, depth_max: usize) -> Self {
        Self { at, message: format!("nesting deeper than {depth_max} levels"), hint: "" }
    }
}

impl Node {
    /// The kind of the value, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Table(_) => "an object",
            Self::Unread(kind) => kind,
        }
    }
}

impl Value {
    /// An empty table without a place in the text.
    pub(crate) fn empty() -> Self {
        Self { range: 0..0, node: Node::Table(Vec::new()) }
    }

    /// The byte at which the value begins.
    pub(crate) fn at(&self) -> usize {
        self.range.start
    }

    /// The kind of the value, in words.
    pub(crate) fn kind(&self) -> &'static str {
        self.node.kind()
    }

    /// Its members; empty if it is no table.
    pub(crate) fn members(&self) -> &[Member] {
        match &self.node {
            Node::Table(members) => members,
            _ => &[],
        }
    }

    /// The member of this name. If a key is repeated, the last one counts, as in every client.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.members().iter().rev().find(|member| member.key == key).map(|member| &member.value)
    }

    /// The value at a path of keys.
    pub(crate) fn at_path(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The value in which every member that is a list of tables is a table of these, by the text under their key `name`.
    /// A table without a name has an empty one. If a name is repeated, both stay.
    pub(crate) fn with_named_lists(mut self) -> Self {
        let Node::Table(members) = &mut self.node else { return self };
        for Member { value, .. } in members {
            let Node::List(items) = &mut value.node else { continue };
            if items.iter().all(|item| matches!(item.node, Node::Table(_))) {
                let named = std::mem::take(items).into_iter().map(|item| {
                    let key = item.get("name").and_then(Self::text).unwrap_or_default().to_owned();
                    Member { key, at: item.range.start, value: item }
                });
                value.node = Node::Table(named.collect());
            }
        }
        self
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as JSON without positions. If a key is repeated, the last one counts.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.node {
            Node::Null | Node::Unread(_) => serde_json::Value::Null,
            Node::Bool(value) => serde_json::Value::Bool(*value),
            Node::Number(number) => serde_json::Value::Number(number.clone()),
            Node::Text(text) => serde_json::Value::String(text.clone()),
            Node::List(items) => serde_json::Value::Array(items.iter().map(Self::to_json).collect()),
            Node::Table(members) => {
                let mut map = Map::new();
                for Member { key, value, .. } in members {
                    map.insert(key.clone(), value.to_json());
                }
                serde_json::Value::Object(map)
            }
        }
    }
}
