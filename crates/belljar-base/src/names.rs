//! Names that cannot be mixed up: servers, tools, runs, calls.
//!
//! It does not make Python names out of them; `catalog::alias` does.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The reason for which a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing but white space.
    #[error("a {kind} name is empty")]
    Empty {
        /// What was to be named.
        kind: &'static str,
    },
    /// Longer than a name may be.
    #[error("a {kind} name of {bytes} bytes is longer than the {bytes_max} allowed")]
    TooLong {
        /// What was to be named.
        kind: &'static str,
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// Cannot be the name of a folder everywhere.
    #[error(
        "a {kind} name has only letters, digits, \"-\", \"_\" and \".\", and begins with a letter or digit"
    )]
    Form {
        /// What was to be named.
        kind: &'static str,
    },
    /// Holds a control character, which could forge lines in logs and replies.
    #[error("a {kind} name holds the control character {character:?}")]
    Control {
        /// What was to be named.
        kind: &'static str,
        /// The offender.
        character: char,
    },
}

fn checked(kind: &'static str, text: &str, bytes_max: usize) -> Result<Box<str>, NameError> {
    if text.trim().is_empty() {
        return Err(NameError::Empty { kind });
    }
    if text.len() > bytes_max {
        return Err(NameError::TooLong { kind, bytes: text.len(), bytes_max });
    }
    if let Some(character) = text.chars().find(|c| c.is_control()) {
        return Err(NameError::Control { kind, character });
    }
    Ok(text.into())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $bytes_max:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks that the text is not blank, not too long, and free of control characters.
            ///
            /// # Errors
            /// [`NameError`] says which of these it is.
            pub fn new(text: &str) -> Result<Self, NameError> {
                checked($kind, text, $bytes_max).map(Self)
            }

            /// The name as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name!(
    /// A configured MCP server, as the operator wrote it; at most 256 bytes.
    ServerName,
    "server",
    256
);
name!(
    /// A tool, as its server published it; at most 10,240 bytes, since servers do publish absurd ones.
    ToolName,
    "tool",
    10_240
);

/// A workspace that is kept: at most 64 bytes of letters, digits, `-`, `_` and `.`, the first a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceName(Box<str>);

impl WorkspaceName {
    /// Checks that the text can be the name of a folder.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let text = checked("workspace", text, 64)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.chars().all(is_plain) {
            return Err(NameError::Form { kind: "workspace" });
        }
        Ok(Self(text))
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ID of a session, as the journal and the audit log have it. Clones share one text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// An ID that no other session has.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// One run of a session, counted from 1 by the bridge.
    RunId
);
id!(
    /// One call, numbered by the sandbox; unique only within one worker's life.
    CallId
);

/// The rule for names of owners of sessions over HTTP, as the end of a sentence.
pub const OWNER_NAME_RULE: &str =
    "has 1 to 40 of the characters a-z, 0-9, - and _, and begins with a letter or digit";

/// Whether an owner of sessions over HTTP can have this name.
#[must_use]
pub fn is_owner_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 40
        && name.bytes().next().is_some_and(is_plain)
        && name.bytes().all(|byte| is_plain(byte) || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use super::*;

    #[test]
    fn server_names_and_tool_names_are_different_types() {
        assert_ne!(TypeId::of::<ServerName>(), TypeId::of::<ToolName>());
    }

    #[test]
    fn names_of_workspaces_are_names_of_folders() {
        for wrong in ["", "..", ".hidden", "a/b", "a b", "é", "-x", &"a".repeat(65)] {
            assert!(WorkspaceName::new(wrong).is_err(), "{wrong:?}");
        }
        for right in ["a", "2026-q3_sales.v2"] {
            assert_eq!(WorkspaceName::new(right).unwrap().as_str(), right);
        }
    }

    #[test]
    fn names_refuse_blank_long_and_control() {
        assert_eq!(ServerName::new(" "), Err(NameError::Empty { kind: "server" }));
        assert_eq!(
            ServerName::new(&"x".repeat(257)),
            Err(NameError::TooLong { kind: "server", bytes: 257, bytes_max: 256 })
        );
        assert_eq!(ToolName::new("a\nb"), Err(NameError::Control { kind: "tool", character: '\n' }));
        assert_eq!(ToolName::new("日本").unwrap().as_str(), "日本");
    }
}
