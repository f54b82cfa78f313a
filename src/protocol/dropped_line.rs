//! Why a line from the sandbox was dropped.

use crate::text;

/// Longest quotation of a dropped frame, in characters: it may be as long as a frame.
const QUOTED_CHARS_MAX: usize = 200;

/// The reason for which a line from the sandbox was dropped. The decoder continues behind its line feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DroppedLine {
    #[error("a line of more than {bytes_max} bytes")]
    Overlong { bytes_max: usize },
    #[error("a line that begins with byte {byte:#04x} instead of S, W or J and a number")]
    Address { byte: u8 },
    #[error("a frame nested too deep")]
    Depth,
    #[error("a frame that is not UTF-8")]
    Utf8,
    #[error("a frame that is no JSON: {detail}")]
    NotJson { detail: String },
    #[error("a frame that is no JSON object")]
    NotObject,
    #[error("a frame of type {kind:?} that cannot be read: {detail:?}")]
    Type { kind: String, detail: String },
}

impl DroppedLine {
    pub(super) fn of_type(kind: &str, detail: &str) -> Self {
        Self::Type { kind: quoted(kind), detail: quoted(detail) }
    }

    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        Self::NotJson { detail: quoted(&error.to_string()) }
    }
}

fn quoted(said: &str) -> String {
    text::bounded(said, QUOTED_CHARS_MAX).into_owned()
}
