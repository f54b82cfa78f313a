//! What a client's model reads before it has done anything: the whole of `tools/list`, in tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Bridge, Home};

/// In the encoding o200k, of OpenAI's newer models; those of others count within some ten percent of it.
pub fn tokens(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len()
}

/// belljar's own listing with these servers configured, as it came over the wire.
pub fn of_belljar<'a>(servers: impl IntoIterator<Item = &'a str>) -> Value {
    let entries: BTreeMap<&str, Value> =
        servers.into_iter().map(|name| (name, json!({"command": "true"}))).collect();
    let content = json!({"mcpServers": entries}).to_string();
    let home = Home::new().file("MCPs/servers.json", &content);
    Bridge::start(&home).request("tools/list", json!({})).unwrap()
}

/// The tools of a file of `make search-bench`, as their servers list them, and the names of the servers.
pub fn of_servers(file: &Path) -> (BTreeSet<String>, Vec<Value>) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (mut servers, mut tools) = (BTreeSet::new(), Vec::new());
    for line in text.lines() {
        let mut tool: Value = serde_json::from_str(line).expect("a line of JSON");
        let server = tool.as_object_mut().expect("a tool").remove("server").expect("its server");
        servers.insert(server.as_str().expect("a name").to_owned());
        tools.push(tool);
    }
    (servers, tools)
}
