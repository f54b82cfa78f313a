//! What must hold of the reader of configuration files, whatever one file holds: the input is the file.
//!
//! - It does not panic, opens nothing, and says the same again when it is asked again.
//! - What is no JSON, not even with comments and last commas, by other parsers, gives no server and one error; what is JSON
//!   with `mcpServers` gives each entry as a server or names it in a problem: nothing is lost in silence.
//! - A server that is given out can be started or asked: names once, no NUL in any part, variables and headers with names.
//! - A problem is one harmless line, and its place is in the file.
//! - No value of `env`, `args` or `headers` is repeated in a problem, since it may be a secret.

use std::collections::BTreeSet;
use std::path::Path;

use belljar::config::{Endpoint, Environment, Launch, ServerConfig, Transport, servers_of_file};
use belljar_base::limits::Limits;
use belljar_base::problem::{Position, Problem, Severity};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

use crate::inert::is_inert_line;

const FILE: &str = "/home/ada/MCPs/servers.json";
/// Values shorter than this stand in many a sentence.
const SECRET_BYTES_MIN: usize = 8;

/// JSON, and the comments and last commas that clients accept.
const WITH_COMMENTS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Checks one file's bytes.
pub fn check(bytes: &[u8]) {
    let (servers, problems) = read(bytes);
    assert_eq!((&servers, &problems), (&read(bytes).0, &read(bytes).1));
    let text = String::from_utf8_lossy(bytes);
    for problem in &problems {
        check_problem(problem, &text);
    }
    for server in &servers {
        check_server(server);
    }
    let names: BTreeSet<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names.len(), servers.len(), "each name once");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match serde_json::from_str(text) {
        // Files with comments are read, and have no second reader here.
        Err(_) if parse_to_ast(text, &CollectOptions::default(), &WITH_COMMENTS).is_ok() => {}
        Err(_) => {
            let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
            assert!(servers.is_empty() && errors.count() == 1, "{problems:?}");
        }
        Ok(Value::Object(file)) => check_entries(bytes, &file, &names, &problems),
        Ok(_) => assert!(servers.is_empty() && !problems.is_empty()),
    }
}

fn read(bytes: &[u8]) -> (Vec<ServerConfig>, Vec<Problem>) {
    let limits = Limits { json_depth_max: 100, ..Limits::default() };
    servers_of_file(&environment(), &limits, Path::new(FILE), bytes.to_vec())
}

fn environment() -> Environment {
    Environment {
        variables: [("TOKEN".into(), "from-the-environment".into())].into(),
        home: Some("/home/ada".into()),
        uid: 1000,
        cwd: Some("/work".into()),
        executable: None,
        owner: None,
    }
}

fn check_entries(bytes: &[u8], file: &Map<String, Value>, names: &BTreeSet<&str>, problems: &[Problem]) {
    let Some(Value::Object(entries)) = file.get("mcpServers") else {
        assert!(names.is_empty() && !problems.is_empty());
        return;
    };
    assert!(names.iter().all(|name| entries.contains_key(*name)), "{names:?}");
    let told: Vec<&str> = problems.iter().filter_map(|problem| problem.key.as_deref()).collect();
    let of_all = told.contains(&"mcpServers");
    for (name, entry) in entries {
        let key = format!("mcpServers.{name}");
        let is_told = of_all || told.iter().any(|told| told.starts_with(&key));
        let of_file = problems.iter().any(|problem| problem.key.is_none());
        assert!(names.contains(name.as_str()) || is_told || of_file, "{name:?} is lost: {problems:?}");
        let parts = ["args", "env", "headers"].into_iter().filter_map(|part| entry.get(part));
        for secret in parts.flat_map(strings).filter(|secret| is_only_a_value(secret, bytes)) {
            let is_told_in = |problems: &[Problem]| {
                problems
                    .iter()
                    .any(|problem| problem.message.contains(secret) || problem.hint.contains(secret))
            };
            // Words of a problem that stands there with another value as well are not the value's.
            assert!(
                !is_told_in(problems) || is_told_in(&read(&with_another(bytes, secret)).1),
                "{secret:?} is told in {problems:?}"
            );
        }
    }
}

/// The file with another value in this one's place.
fn with_another(bytes: &[u8], value: &str) -> Vec<u8> {
    let at = memchr::memmem::find(bytes, value.as_bytes()).expect("it stands there");
    let other = "Q".repeat(value.len());
    [&bytes[..at], other.as_bytes(), &bytes[at + value.len()..]].concat()
}

/// The strings of an array or of an object's values.
fn strings(part: &Value) -> Vec<&str> {
    match part {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Object(members) => members.values().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Long enough to be found, without references, which are told by name, and nowhere else in the file.
fn is_only_a_value(value: &str, bytes: &[u8]) -> bool {
    value.len() >= SECRET_BYTES_MIN
        && !value.contains("${")
        && memchr::memmem::find_iter(bytes, value.as_bytes()).count() == 1
}

fn check_server(server: &ServerConfig) {
    assert_eq!(server.source, Path::new(FILE));
    match &server.transport {
        Transport::Launch(launch) => check_launch(launch),
        Transport::Endpoint(endpoint) => check_endpoint(endpoint),
    }
}

fn check_launch(launch: &Launch) {
    let program = launch.program.to_str().expect("it was text");
    assert!(!program.trim().is_empty() && !program.contains('\0'), "{program:?}");
    assert!(launch.args.iter().all(|argument| !argument.contains(['\0', '\r'])), "{:?}", launch.args);
    let mut names = BTreeSet::new();
    for (name, value) in launch.env.iter() {
        assert!(!name.is_empty() && !name.contains(['=', '\0', '\n', '\r']), "{name:?}");
        assert!(!value.contains(['\0', '\r']), "{value:?}");
        assert!(names.insert(name), "{name:?} twice");
    }
    assert!(launch.cwd.as_ref().is_none_or(|cwd| cwd.is_absolute()), "{:?}", launch.cwd);
}

fn check_endpoint(endpoint: &Endpoint) {
    let url = &endpoint.url;
    assert!(matches!(url.scheme(), "http" | "https") && url.host().is_some(), "{url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none(), "{url}");
    let mut names = BTreeSet::new();
    for (name, value) in endpoint.headers.iter() {
        assert!(
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'),
            "{name:?}"
        );
        assert!(value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)), "{value:?}");
        assert!(names.insert(name.to_ascii_lowercase()), "{name:?} twice");
    }
}

fn check_problem(problem: &Problem, text: &str) {
    let line = problem.to_string();
    assert!(is_inert_line(&line), "{line:?}");
    if let Some(Position { line, column }) = problem.position {
        let lines: Vec<&str> = text.split('\n').collect();
        assert!((1..=lines.len()).contains(&line), "line {line} of {}", lines.len());
        // One more than there are characters is the end; bytes that are no UTF-8 are more characters, not fewer.
        assert!((1..=lines[line - 1].chars().count() + 1).contains(&column), "column {column}");
    }
}
