//! Results that stay on the host. Code has a handle, which stands for the result, or for a part of it, in further
//! calls.
//!
//! A small result is kept in memory, a larger one in a file without a name, and both end with the session. A call with
//! a handle is admitted as if the code had sent the whole result.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tempfile::SpooledTempFile;

use super::held_value::{Part, Step, held_value, holds_files, told};

/// The only key of an object that stands for a handle, in arguments that are marked to contain handles.
const KEY: &str = "belljar/handle";
/// The largest result that is kept in memory, in bytes; larger ones are kept in a file.
const IN_MEMORY_BYTES_MAX: usize = 1 << 20;
/// Longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 400;

/// The results on the host.
pub(crate) struct Handles {
    table: Mutex<HandleTable>,
    results_max: usize,
    bytes_max: u64,
    arguments_bytes_max: u64,
    depth_max: usize,
}

/// The results that handles refer to.
#[derive(Default)]
struct HandleTable {
    made: u64,
    bytes: u64,
    /// The results, sorted by their last use.
    results: VecDeque<Arc<HeldResult>>,
}

/// A result on the host.
struct HeldResult {
    number: u64,
    server: ServerName,
    tool: String,
    /// Whether the tool wraps its results.
    wraps: bool,
    bytes: u64,
    told: String,
    file: Mutex<SpooledTempFile>,
}

/// A reference of code to a result, or to a part of one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reference {
    pub(crate) number: u64,
    #[serde(default)]
    path: Vec<Step>,
    #[serde(default)]
    json: bool,
}

impl Reference {
    /// Whether the reference means the whole result, as the server sent it.
    pub(crate) fn is_whole(&self) -> bool {
        self.path.is_empty() && !self.json
    }
}

/// Arguments in which handles were replaced by results.
pub(crate) struct FilledArguments {
    pub(crate) arguments: Map<String, Value>,
    /// The number of bytes that came from results.
    pub(crate) bytes: u64,
}

impl Handles {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            table: Mutex::default(),
            results_max: limits.handles_max,
            bytes_max: limits.handles_bytes_max,
            arguments_bytes_max: limits.handle_arguments_bytes_max,
            depth_max: limits.json_depth_max,
        }
    }

    /// Stores a result, and returns the description of it that code gets. If there is no room, the results that were
    /// used least recently are dropped.
    ///
    /// # Errors
    /// The result is no JSON, or the disk is full.
    pub(crate) fn keep(
        &self,
        server: &ServerName,
        (tool, wraps): (&str, bool),
        result: &RawValue,
    ) -> Result<Value, ToolFault> {
        let told = told(&parsed(result.get().as_bytes())?, wraps);
        let mut file = SpooledTempFile::new(IN_MEMORY_BYTES_MAX);
        file.write_all(result.get().as_bytes()).map_err(|error| disk(&error))?;
        let bytes = result.get().len() as u64;
        let mut table = self.table.lock();
        table.made += 1;
        let (number, server, tool, file) = (table.made, server.clone(), tool.to_owned(), Mutex::new(file));
        let result = HeldResult { number, server, tool, wraps, bytes, told, file };
        let description = result.description();
        table.bytes += bytes;
        table.results.push_back(Arc::new(result));
        while table.results.len() > self.results_max
            || (table.bytes > self.bytes_max && table.results.len() > 1)
        {
            table.take(0);
        }
        Ok(description)
    }

    /// Reserves the number of a handle from an earlier session. Code has the handle again, but its result is gone.
    pub(crate) fn recorded(&self, description: &RawValue) {
        #[derive(Deserialize)]
        struct Description {
            handle: u64,
        }
        if let Ok(Description { handle }) = serde_json::from_str(description.get()) {
            let mut table = self.table.lock();
            table.made = table.made.max(handle);
        }
    }

    /// Replaces the handles in the arguments by their results.
    ///
    /// # Errors
    /// `invalid_arguments`: there is no such handle or part, or it is binary and the server accepts no files;
    /// `too_large`.
    pub(crate) fn fill(
        &self,
        arguments: Map<String, Value>,
        takes_files: bool,
    ) -> Result<FilledArguments, ToolFault> {
        let mut filler = HandleFiller { handles: self, takes_files, bytes: 0 };
        let mut filled = Map::new();
        for (name, value) in arguments {
            filled.insert(name, filler.fill(value, 1)?);
        }
        Ok(FilledArguments { arguments: filled, bytes: filler.bytes })
    }

    /// The whole result, as the server sent it.
    ///
    /// # Errors
    /// `invalid_arguments`: there is no such result.
    pub(crate) fn whole(&self, number: u64) -> Result<Box<RawValue>, ToolFault> {
        let bytes = self.result(number)?.read()?;
        let text = String::from_utf8(bytes).map_err(|error| broken(&error.to_string()))?;
        RawValue::from_string(text).map_err(|error| broken(&error.to_string()))
    }

    /// The value of a reference.
    ///
    /// # Errors
    /// `invalid_arguments`: there is no such value.
    pub(crate) fn value(&self, reference: &Reference) -> Result<Value, ToolFault> {
        self.result(reference.number)?.value(reference, true)
    }

    /// Drops a result, if there is one with this number.
    pub(crate) fn forget(&self, number: u64) {
        let mut table = self.table.lock();
        if let Some(at) = table.place(number) {
            table.take(at);
        }
    }

    /// The descriptions of all results, in the order of the calls.
    pub(crate) fn list(&self) -> Value {
        let mut results: Vec<Arc<HeldResult>> = self.table.lock().results.iter().cloned().collect();
        results.sort_by_key(|result| result.number);
        results.iter().map(|result| result.description()).collect()
    }

    fn result(&self, number: u64) -> Result<Arc<HeldResult>, ToolFault> {
        let mut table = self.table.lock();
        if let Some(at) = table.place(number)
            && let Some(found) = table.results.remove(at)
        {
            table.results.push_back(Arc::clone(&found));
            return Ok(found);
        }
        let was_there = (1..=table.made).contains(&number);
        Err(if was_there {
            let (most, mib) = (self.results_max, self.bytes_max >> 20);
            invalid(&format!("handle {number} is not kept any more")).hint(format!(
                "make its call again; kept are the {most} results that were used last, up to {mib} MiB of them"
            ))
        } else {
            invalid(&format!("there is no handle {number}"))
                .hint("handles go with the session that made them: make the call again")
        })
    }
}

impl HandleTable {
    fn place(&self, number: u64) -> Option<usize> {
        self.results.iter().position(|result| result.number == number)
    }

    fn take(&mut self, at: usize) {
        if let Some(gone) = self.results.remove(at) {
            self.bytes -= gone.bytes;
        }
    }
}

impl HeldResult {
    fn description(&self) -> Value {
        let Self { number, server, tool, wraps, bytes, told, .. } = self;
        let mut description =
            json!({"handle": number, "server": server.as_str(), "tool": tool, "bytes": bytes, "told": told});
        if *wraps {
            description["wraps"] = true.into();
        }
        description
    }

    fn read(&self) -> Result<Vec<u8>, ToolFault> {
        let mut file = self.file.lock();
        let mut bytes = Vec::with_capacity(usize::try_from(self.bytes).unwrap_or_default());
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| disk(&error))?;
        Ok(bytes)
    }

    fn value(&self, reference: &Reference, takes_files: bool) -> Result<Value, ToolFault> {
        let result = parsed(&self.read()?)?;
        let name = format!("handle {} ({}.{})", self.number, self.server, self.tool);
        if !takes_files && holds_files(&result) {
            return Err(invalid(&format!(
                "{name} holds binary content, which the server's entry keeps from it (sandbox_files = false)"
            ))
            .hint("the user decides that in the server's entry"));
        }
        let part = Part { path: &reference.path, json: reference.json };
        held_value(result, self.wraps, &part)
            .map_err(|why| invalid(&format!("{name} {why}")).hint(format!("it is {}", self.told)))
    }
}

/// Replaces the handles in arguments by results.
struct HandleFiller<'a> {
    handles: &'a Handles,
    takes_files: bool,
    bytes: u64,
}

impl HandleFiller<'_> {
    fn fill(&mut self, value: Value, depth: usize) -> Result<Value, ToolFault> {
        match value {
            Value::Object(mut fields) => match fields.remove(KEY) {
                Some(reference) if fields.is_empty() => self.value_of(reference, depth),
                Some(_) => Err(invalid(&format!("an object with the key '{KEY}' has others as well"))),
                None => {
                    let fill = |(key, value)| Ok((key, self.fill(value, depth + 1)?));
                    fields.into_iter().map(fill).collect::<Result<Map<_, _>, _>>().map(Value::Object)
                }
            },
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.fill(item, depth + 1))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            other => Ok(other),
        }
    }

    fn value_of(&mut self, reference: Value, depth: usize) -> Result<Value, ToolFault> {
        let reference: Reference = serde_json::from_value(reference)
            .map_err(|error| invalid(&format!("a handle cannot be read: {error}")))?;
        let result = self.handles.result(reference.number)?;
        let value = result.value(&reference, self.takes_files)?;
        // The size of a part is known only after the part was written as JSON. It is at most the size of the whole
        // result.
        let bytes = if reference.path.is_empty() { result.bytes } else { value.to_string().len() as u64 };
        self.bytes += bytes;
        if self.bytes > self.handles.arguments_bytes_max {
            let (is, most) = (self.bytes, self.handles.arguments_bytes_max >> 20);
            let message =
                format!("the handles in the arguments stand for {is} bytes or more, limit {most} MiB");
            return Err(ToolFault::new(FaultCode::TooLarge, message).hint("send a part: handle[...]"));
        }
        if depth + depth_of(&value) > self.handles.depth_max {
            let most = self.handles.depth_max;
            return Err(invalid(&format!(
                "with handle {} the arguments have nesting > {most}",
                result.number
            )));
        }
        Ok(value)
    }
}

/// The depth of a value. The recursion is bounded by the depth that a server's answer may have.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or_default(),
        _ => 0,
    }
}

fn parsed(json: &[u8]) -> Result<Value, ToolFault> {
    serde_json::from_slice(json).map_err(|error| broken(&error.to_string()))
}

fn broken(why: &str) -> ToolFault {
    ToolFault::new(
        FaultCode::ServerFailed,
        format!("the result cannot be kept: {}", text::inert_excerpt(why, MESSAGE_CHARS_MAX)),
    )
}

fn disk(error: &io::Error) -> ToolFault {
    ToolFault::new(FaultCode::Internal, format!("the result cannot be kept on the host: {error}"))
        .hint("large results lie in the host's folder for temporary files: it needs room")
}

fn invalid(message: &str) -> ToolFault {
    ToolFault::new(FaultCode::InvalidArguments, text::inert_excerpt(message, MESSAGE_CHARS_MAX))
}

#[cfg(test)]
#[path = "handles_tests.rs"]
mod tests;
