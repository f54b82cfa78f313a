//! The reply to one request: its blocks, whether it is an error, and the same as structured data.
//!
//! It knows no MCP types; `server` turns a reply into them.

use belljar_base::limits::Limits;
use belljar_base::run::{Image, OutputMode, RunReport, ToolFault};
use serde_json::Value;

use super::reply_text;
use super::structured;
use super::verdict::{Verdict, verdict};

/// The reply to the client.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Text first and never empty, then the pictures.
    pub blocks: Vec<Block>,
    /// Whether the request failed.
    pub verdict: Verdict,
    /// The report as data: the seed's fields, for clients that are given structured content.
    pub structured: Value,
}

/// One block of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Text without control characters other than line feed and tab.
    Text(String),
    /// A picture.
    Image(Image),
    /// The address of a file that can be read as a resource.
    File(String),
}

impl Reply {
    /// What MCP calls `isError`.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.verdict == Verdict::Error
    }
}

/// A run's report as its reply.
#[must_use]
pub fn render(report: &RunReport, mode: OutputMode, limits: &Limits) -> Reply {
    let (structured, text) = match mode {
        OutputMode::Toon => structured::within(report, limits, structured::toon),
        OutputMode::Json | OutputMode::Compact => structured::within(report, limits, Value::to_string),
    };
    let text = if mode == OutputMode::Compact { reply_text::of_report(report, limits) } else { text };
    let images = report.images.iter().cloned().map(Block::Image);
    let files = report.saved.iter().cloned().map(Block::File);
    Reply {
        blocks: std::iter::once(Block::Text(text)).chain(images).chain(files).collect(),
        verdict: verdict(report),
        structured,
    }
}

/// The reply to a request whose arguments were refused: the status `validation_error`.
#[must_use]
pub fn refusal(fault: &ToolFault, mode: OutputMode, limits: &Limits) -> Reply {
    let structured = structured::of_refusal(fault, limits);
    let text = match mode {
        OutputMode::Compact => reply_text::of_refusal(fault, limits),
        OutputMode::Toon => structured::toon(&structured),
        OutputMode::Json => structured.to_string(),
    };
    Reply { blocks: vec![Block::Text(text)], verdict: Verdict::Error, structured }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
