//! The shapes of the results of tools whose servers do not declare them: by server, tool and the hash of the tool's
//! schemas.
//!
//! It keeps shapes and counts, never a value; it reads and writes no file.

use std::collections::{BTreeMap, BTreeSet};

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::result_shape::shape_of_result;
use super::shape::Shape;
use super::signature::written;
use super::stub::stub;
use crate::catalog::alias::fnv1a;
use crate::catalog::tool::Tool;

/// The depths of a result's shape in a signature. The largest one that fits is used.
const DEPTHS: [usize; 5] = [6, 4, 2, 1, 0];
/// The longest shape of a result in a signature, in characters.
const WRITTEN_CHARS_MAX: usize = 500;

/// All learned shapes.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    limits: Limits,
    by_server: BTreeMap<ServerName, BTreeMap<ToolName, ToolShape>>,
    count: usize,
    /// The servers whose shapes are not shown.
    left_out: BTreeSet<ServerName>,
}

/// A call that a server has answered.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredCall<'a> {
    /// The server that was called.
    pub server: &'a ServerName,
    /// The tool that was called.
    pub tool: &'a Tool,
    /// The result as the server sent it.
    pub result: &'a str,
}

/// The effect of another result on the known shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The result has no effect: it is not understood, the server declares the type of the result, or there are too
    /// many tools.
    None,
    /// The result has the shape that is known.
    Known,
    /// The shape has changed, or the result is the 2nd, 4th, 8th ... of its kind, so the shape should be stored.
    New,
}

/// The shape of the results of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ToolShape {
    /// The hash of the schema of the tool that was called. A tool with the same name and another schema has other
    /// results.
    schema: u64,
    seen: u64,
    shape: Shape,
}

impl Shapes {
    /// An empty collection.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), ..Self::default() }
    }

    /// Learns from a tool's result. If `is_secret` says that a shape must not be stored, the shape is dropped with
    /// everything that was known about the tool's results.
    pub fn learn(&mut self, answered: &AnsweredCall<'_>, is_secret: &dyn Fn(&str) -> bool) -> Observation {
        let AnsweredCall { server, tool, result } = *answered;
        if tool.output_schema.is_some() || result.len() > self.limits.learned_result_bytes_max {
            return Observation::None;
        }
        let Some(shape) = shape_of_result(result) else { return Observation::None };
        let schema = tool.schema_hash;
        let of_server = self.by_server.entry(server.clone()).or_default();
        let before = of_server.remove(&tool.name);
        self.count -= usize::from(before.is_some());
        let before = before.filter(|learned| learned.schema == schema);
        if before.is_none() && self.count >= self.limits.learned_shapes_max {
            return Observation::None;
        }
        let mut now = before.clone().unwrap_or(ToolShape { schema, seen: 0, shape: Shape::default() });
        now.seen += 1;
        now.shape.merge(shape);
        now.shape.bound();
        let is_same = before.is_some_and(|before| before.shape.says_the_same(&now.shape));
        if !is_same && serde_json::to_string(&now.shape).is_ok_and(|shape| is_secret(&shape)) {
            return Observation::New;
        }
        let is_new = !is_same || now.seen.is_power_of_two();
        of_server.insert(tool.name.clone(), now);
        self.count += 1;
        if is_new { Observation::New } else { Observation::Known }
    }

    /// Leaves out the shapes of these servers, and of no others, from signatures and stubs.
    pub fn leave_out(&mut self, servers: BTreeSet<ServerName>) {
        self.left_out = servers;
    }

    /// The tool's signature, with the learned shape of its results if the server declares none:
    /// `list() -> {next: str | None}  # seen 12 times`.
    #[must_use]
    pub fn signature(&self, server: &ServerName, tool: &Tool) -> String {
        let Some(learned) = self.of(server, tool) else { return tool.signature.clone() };
        let typed = learned.shape.typed();
        let shapes = DEPTHS.iter().map(|depth| written(&typed, *depth));
        let lines = shapes
            .filter(|shape| shape.chars().count() <= WRITTEN_CHARS_MAX)
            .map(|shape| format!("{} -> {shape}  # {}", tool.signature, times(learned.seen)));
        let mut fitting = lines.filter(|line| line.chars().count() <= self.limits.signature_chars_max);
        fitting.next().unwrap_or_else(|| tool.signature.clone())
    }

    /// The tool's stub, with the learned shape of its results if the server declares none.
    #[must_use]
    pub fn stub(&self, server: &ServerName, tool: &Tool) -> String {
        let Some(learned) = self.of(server, tool) else { return stub(tool, None, &self.limits) };
        let note = format!("Returns what its results have looked like; {}.", times(learned.seen));
        stub(tool, Some((&learned.shape.typed(), note)), &self.limits)
    }

    /// The name of the file for one server's tools, without its extension.
    #[must_use]
    pub fn file_stem(server: &ServerName) -> String {
        format!("{:016x}", fnv1a(0, server.as_str().as_bytes()))
    }

    /// The shapes of one server's tools, for a file.
    #[must_use]
    pub fn to_json(&self, server: &ServerName) -> Value {
        let tools = self.by_server.get(server);
        serde_json::json!({"version": VERSION, "server": server, "tools": tools})
    }

    /// Adds the shapes in a file, except those that are not valid or exceed the bounds.
    ///
    /// # Errors
    /// The reason why nothing of the file can be used.
    pub fn add_json(&mut self, file: &[u8]) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct File {
            version: u64,
            server: ServerName,
            tools: BTreeMap<ToolName, ToolShape>,
        }
        let File { version, server, tools } = serde_json::from_slice(file)?;
        if version != VERSION {
            return Ok(());
        }
        let of_server = self.by_server.entry(server).or_default();
        for (tool, learned) in tools {
            if self.count < self.limits.learned_shapes_max && learned.seen > 0 && learned.shape.is_sound() {
                self.count += usize::from(of_server.insert(tool, learned).is_none());
            }
        }
        Ok(())
    }

    fn of(&self, server: &ServerName, tool: &Tool) -> Option<&ToolShape> {
        let learned = self.by_server.get(server)?.get(&tool.name)?;
        let is_shown = tool.output_schema.is_none() && !self.left_out.contains(server);
        (is_shown && learned.schema == tool.schema_hash).then_some(learned)
    }
}

/// The version of the files' format. Files of other versions are not read.
const VERSION: u64 = 1;

fn times(seen: u64) -> String {
    if seen == 1 { "seen once".to_owned() } else { format!("seen {seen} times") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server() -> ServerName {
        ServerName::new("s").unwrap()
    }

    fn tool(item: Value) -> Tool {
        let limits = Limits::default();
        let catalog = crate::catalog::Catalog::new([(server(), None, None)], &limits);
        let tools = vec![Tool::from_json(&item, &limits).unwrap()];
        catalog.with_tools(&server(), Ok(tools), &limits).servers()[0].listed()[0].clone()
    }

    fn learn(shapes: &mut Shapes, tool: &Tool, structured: Value) -> Observation {
        let result = json!({"content": [], "structuredContent": structured}).to_string();
        let answered = AnsweredCall { server: &server(), tool, result: &result };
        shapes.learn(&answered, &|shape| shape.contains("hunter2"))
    }

    #[test]
    fn what_was_seen_is_shown_with_its_count_until_the_tool_changes() {
        let list = tool(json!({"name": "list", "inputSchema": {"properties": {"n": {"type": "integer"}}}}));
        let mut shapes = Shapes::default();
        assert_eq!(shapes.signature(&server(), &list), "list(*, n: int = ...)");
        let observations: Vec<Observation> =
            (0..4).map(|n| learn(&mut shapes, &list, json!({"id": n, "title": "x"}))).collect();
        assert_eq!(observations, [Observation::New, Observation::New, Observation::Known, Observation::New]);
        assert_eq!(
            shapes.signature(&server(), &list),
            "list(*, n: int = ...) -> {id: int, title: str}  # seen 4 times"
        );
        assert_eq!(
            shapes.stub(&server(), &list),
            "class ListResult(TypedDict):\n    id: int\n    title: str\n\n\
             async def list(*, n: int = ...) -> ListResult:\n    \
             \"\"\"Returns what its results have looked like; seen 4 times.\"\"\"\n"
        );
        let changed = tool(json!({"name": "list", "inputSchema": {"properties": {"n": {"type": "string"}}}}));
        assert_eq!(shapes.signature(&server(), &changed), "list(*, n: str = ...)");
        assert_eq!(learn(&mut shapes, &changed, json!({"x": 1})), Observation::New);
        assert_eq!(shapes.signature(&server(), &changed), "list(*, n: str = ...) -> {x: int}  # seen once");
    }

    #[test]
    fn shapes_of_a_server_that_is_left_out_are_not_shown() {
        let list = tool(json!({"name": "list"}));
        let mut shapes = Shapes::default();
        learn(&mut shapes, &list, json!({"id": 1}));
        shapes.leave_out([server()].into());
        assert_eq!(shapes.signature(&server(), &list), "list()");
        assert!(!shapes.stub(&server(), &list).contains("id"));
        shapes.leave_out([].into());
        assert_eq!(shapes.signature(&server(), &list), "list() -> {id: int}  # seen once");
    }

    #[test]
    fn what_a_server_says_itself_is_not_learned() {
        let told = tool(
            json!({"name": "t", "outputSchema": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}),
        );
        let mut shapes = Shapes::default();
        assert_eq!(learn(&mut shapes, &told, json!({"a": 1})), Observation::None);
        assert_eq!(shapes.signature(&server(), &told), "t() -> {a: str}");
    }

    #[test]
    fn a_large_shape_is_shown_as_far_as_it_has_room() {
        let tool = tool(json!({"name": "t"}));
        let mut shapes = Shapes::default();
        let inner: serde_json::Map<_, _> = (0..20)
            .map(|n| (format!("a_name_that_is_rather_long_{n}"), json!({format!("inner_{n}"): [n]})))
            .collect();
        learn(&mut shapes, &tool, json!({"id": 1, "several": inner, "rows": [inner]}));
        assert_eq!(
            shapes.signature(&server(), &tool),
            "t() -> {id: int, several: dict, rows: list}  # seen once"
        );
    }

    #[test]
    fn a_secret_is_never_kept_not_even_as_a_key() {
        let tool = tool(json!({"name": "t"}));
        let mut shapes = Shapes::default();
        learn(&mut shapes, &tool, json!({"a": 1}));
        assert_eq!(learn(&mut shapes, &tool, json!({"a": {"hunter2": 1}})), Observation::New);
        assert_eq!(shapes.to_json(&server())["tools"], json!({}));
    }

    #[test]
    fn a_file_gives_back_what_was_learned_and_nothing_unsound() {
        let tool = tool(json!({"name": "t"}));
        let mut shapes = Shapes::default();
        learn(&mut shapes, &tool, json!({"rows": [{"id": 1}], "next": null}));
        let mut file = shapes.to_json(&server());
        let read = |file: &Value| {
            let mut shapes = Shapes::default();
            shapes.add_json(file.to_string().as_bytes()).map(|()| shapes.signature(&server(), &tool))
        };
        assert_eq!(read(&file).unwrap(), "t() -> {rows: list[{id: int}], next: None}  # seen once");
        let mut full = Shapes::new(&Limits { learned_shapes_max: 0, ..Limits::default() });
        full.add_json(file.to_string().as_bytes()).unwrap();
        assert_eq!(full.count, 0);
        file["tools"]["t"]["shape"]["record"]["fields"][0]["name"] = json!("a@b.example");
        assert_eq!(read(&file).unwrap(), "t()");
        file["version"] = json!(2);
        assert_eq!(read(&file).unwrap(), "t()");
        assert!(read(&json!({"version": 1})).is_err());
    }

    #[test]
    fn no_more_tools_are_kept_than_allowed_and_no_long_result_is_read() {
        let limits = Limits { learned_shapes_max: 1, learned_result_bytes_max: 100, ..Limits::default() };
        let mut shapes = Shapes::new(&limits);
        let mut learn = |name: &str, result: &str| {
            let tool = tool(json!({"name": name}));
            shapes.learn(&AnsweredCall { server: &server(), tool: &tool, result }, &|_| false)
        };
        let long = json!({"content": [{"type": "text", "text": "x".repeat(100)}]}).to_string();
        assert_eq!(learn("a", &long), Observation::None);
        assert_eq!(learn("a", r#"{"content":[]}"#), Observation::New);
        assert_eq!(learn("b", r#"{"content":[]}"#), Observation::None);
        assert_eq!(learn("a", r#"{"content":[]}"#), Observation::New);
    }
}
