//! What must hold of the readers of MCP clients' files, whatever one file holds: the input is the file, taken for one of
//! each client.
//!
//! - They do not panic, and say the same again when they are asked again.
//! - A remark is one harmless line, and its place is in the file.
//! - No value that could be a secret is repeated in a remark.
//! - A server that is given out is an entry of belljar's form: the reader of the configuration takes it, or names it.

use std::collections::BTreeSet;
use std::path::Path;

use belljar::clients::{Client, ClientServer, Surroundings, clients, servers_of_client_file};
use belljar::config::{Environment, servers_of_file};
use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem};
use serde_json::{Map, Value};

use crate::inert::is_inert_line;

/// Stands in the inputs where secrets may stand.
const SECRET: &str = "hunter2";

/// Checks one file's bytes.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for client in clients() {
        let (servers, problems) = read(client, text);
        assert_eq!((&servers, &problems), (&read(client, text).0, &read(client, text).1));
        for problem in &problems {
            check_problem(problem, text);
        }
        for server in &servers {
            check_server(server);
        }
    }
}

fn read(client: &'static Client, text: &str) -> (Vec<ClientServer>, Vec<Problem>) {
    let surroundings = Surroundings {
        home: "/home/ada".into(),
        config: "/home/ada/.config".into(),
        uid: 1000,
        project: Some("/work".into()),
        project_of_given: None,
        named: Vec::new(),
    };
    let path = Path::new("/home/ada/client/file");
    servers_of_client_file(client, path, text, &surroundings, &Limits::default())
}

fn check_problem(problem: &Problem, text: &str) {
    let line = problem.to_string();
    assert!(is_inert_line(&line), "{line:?}");
    assert!(!line.contains(SECRET), "{line}");
    if let Some(Position { line, column }) = problem.position {
        let lines: Vec<&str> = text.split('\n').collect();
        assert!((1..=lines.len()).contains(&line), "line {line} of {}", lines.len());
        assert!((1..=lines[line - 1].chars().count() + 1).contains(&column), "column {column}");
    }
}

fn check_server(server: &ClientServer) {
    let known: BTreeSet<&str> = [
        "type",
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "headers",
        "start_timeout",
        "timeout",
        "allow",
        "deny",
        "description",
        "disabled",
    ]
    .into();
    assert!(server.entry.keys().all(|key| known.contains(key.as_str())), "{:?}", server.entry.keys());
    assert_ne!(server.entry.contains_key("command"), server.entry.contains_key("url"));
    let is_off = server.entry.get("disabled") == Some(&Value::Bool(true));
    let mut servers = Map::new();
    servers.insert(server.name.clone(), Value::Object(server.entry.clone()));
    let file = serde_json::json!({"mcpServers": servers}).to_string();
    let environment = Environment {
        variables: Default::default(),
        home: Some("/home/ada".into()),
        uid: 1000,
        cwd: Some("/work".into()),
        executable: None,
        owner: None,
    };
    let path = Path::new("/home/ada/MCPs/client.json");
    let (read, problems) = servers_of_file(&environment, &Limits::default(), path, file.into_bytes());
    assert!(read.len() == 1 || is_off || !problems.is_empty(), "{:?} is lost", server.name);
}
