//! The rules in OpenCode's file about tools of servers, outside of the servers' entries: `tools` switches tools, and
//! `permission` and single agents have further rules.
//!
//! It uses OpenCode's names of tools: the server's name, an underscore, and the tool's own name.

use serde_json::Value as Json;

use super::formats::spanned::{Member, Node, Value};
use super::known_clients::ClientServer;

/// A note about a server, with its byte and key in the file.
pub(super) struct SwitchNote {
    pub(super) at: usize,
    pub(super) key: String,
    pub(super) message: String,
}

/// Copies the file's rules about the tools of this server, as far as an entry can express them.
pub(super) fn take_over(root: &Value, server: &mut ClientServer) -> Vec<SwitchNote> {
    let prefix = prefix(&server.name);
    let mut said = Vec::new();
    let (mut denied, mut allowed) = (Vec::new(), Vec::new());
    let mut first = None;
    for member in root.get("tools").map(Value::members).unwrap_or_default() {
        let Some(own) = own_tools(&member.key, &prefix) else { continue };
        let key = format!("tools.{}", member.key);
        match (own, &member.value.node) {
            (Some(own), Node::Bool(false)) => denied.push(own),
            (Some(own), Node::Bool(true)) => allowed.push((own, key, member.at)),
            _ => said.push(not_taken(server, key, member.at, "name the tools as allow or deny of its entry")),
        }
        first.get_or_insert(member.at);
    }
    let is_all_denied = denied.iter().any(|own| own == "*");
    // All tools are denied except these.
    if is_all_denied && !allowed.is_empty() && !server.entry.contains_key("allow") {
        let allowed: Vec<String> = allowed.into_iter().map(|(own, ..)| own).collect();
        said.extend(first.map(|at| taken(server, at, "allow", &allowed)));
        server.entry.insert("allow".to_owned(), allowed.into());
        denied.retain(|own| own != "*");
    } else if !denied.is_empty() {
        for (_, key, at) in allowed {
            said.push(not_taken(server, key, at, "name the tools as allow of its entry"));
        }
    }
    if !denied.is_empty() {
        said.extend(first.map(|at| taken(server, at, "deny", &denied)));
        // OpenCode adds a project's rules to the user's.
        let all = server.entry.entry("deny").or_insert_with(|| Json::Array(vec![]));
        match all {
            Json::Array(all) => all.extend(denied.into_iter().map(Json::from)),
            other => *other = denied.into(),
        }
    }
    for (key, member) in rules_elsewhere(root) {
        if own_tools(&member.key, &prefix).is_some() {
            said.push(not_taken(server, key, member.at, "belljar's policy decides on calls"));
        }
    }
    said
}

/// The prefix of the names of a server's tools.
fn prefix(server: &str) -> String {
    let name: String =
        server.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    format!("{name}_")
}

/// The pattern for the server's own names of tools. The inner `None`: the pattern may match tools of the server, but no
/// pattern of own names expresses that.
fn own_tools(pattern: &str, prefix: &str) -> Option<Option<String>> {
    if let Some(own) = pattern.strip_prefix(prefix) {
        return (!own.is_empty()).then(|| Some(own.to_owned()));
    }
    let (literal, wild) = pattern.split_at(pattern.find(['*', '?'])?);
    prefix.starts_with(literal).then(|| (wild == "*").then(|| "*".to_owned()))
}

/// The rules about tools in `permission` and in single agents, with their keys.
fn rules_elsewhere(root: &Value) -> Vec<(String, &Member)> {
    let mut rules = members_below("permission", root.get("permission"));
    for agent in root.get("agent").map(Value::members).unwrap_or_default() {
        for kind in ["tools", "permission"] {
            rules.extend(members_below(&format!("agent.{}.{kind}", agent.key), agent.value.get(kind)));
        }
    }
    rules
}

fn members_below<'v>(path: &str, table: Option<&'v Value>) -> Vec<(String, &'v Member)> {
    let members = table.map(Value::members).unwrap_or_default();
    members.iter().map(|member| (format!("{path}.{}", member.key), member)).collect()
}

fn taken(server: &ClientServer, at: usize, key: &str, patterns: &[String]) -> SwitchNote {
    let patterns = Json::from(patterns.to_vec());
    let message = format!("is taken over for {} as {key}: {patterns}", server.name);
    SwitchNote { at, key: "tools".to_owned(), message }
}

fn not_taken(server: &ClientServer, key: String, at: usize, instead: &str) -> SwitchNote {
    SwitchNote { at, key, message: format!("is not taken over for {}; {instead}", server.name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_all_tools_become_those_of_one_server() {
        let own = |pattern: &str| own_tools(pattern, "my-mcp_");
        for (pattern, expected) in [
            ("my-mcp_*", Some(Some("*"))),
            ("my-mcp*", Some(Some("*"))),
            ("*", Some(Some("*"))),
            ("my-mcp_get_*", Some(Some("get_*"))),
            ("my-mcp_read", Some(Some("read"))),
            ("*_read", Some(None)),
            ("my?mcp_read", Some(None)),
            ("my-mcp_", None),
            ("bash", None),
            ("other_*", None),
        ] {
            assert_eq!(own(pattern), expected.map(|own| own.map(str::to_owned)), "{pattern}");
        }
        assert_eq!(prefix("my mcp.x"), "my_mcp_x_");
    }
}
