//! What must hold of Python names, whatever servers and tools are called: the input is one name on each line.
//!
//! - An alias is an ASCII identifier, no keyword, no name that Python keeps for itself, and within the bound.
//! - No two names share an alias, and no alias is the raw name of another: each leads back to its own.
//! - A name that is a fit alias keeps itself.
//! - Order and repetition change nothing.
//! - In the catalog every tool is found by its raw name and by its alias, every server too; and no alias is one that the
//!   proxies in the sandbox have for themselves.

use std::collections::{BTreeMap, BTreeSet};

use belljar_base::limits::Limits;
use belljar_base::names::{ServerName, ToolName};
use belljar_tools::catalog::{Catalog, Tool, server_aliases, tool_aliases};
use serde_json::json;

/// The words that Python 3.11 to 3.14 reserve.
const KEYWORDS: &str = "False None True and as assert async await break class continue def del elif else except finally \
                        for from global if import in is lambda nonlocal not or pass raise return try while with yield";
/// What an attribute of a server's proxy or module is, or what notebooks ask of every object, so no tool can be.
const OF_PROXIES: [&str; 7] = ["list_tools", "mro", "TOOLS", "TOOL_MAP", "_calls", "_server", "_tool_map"];
/// Names that one input has at most; a server has no more tools than a bound either.
const NAMES_MAX: usize = 300;

/// Checks one set of names, as tools and as servers.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let names: Vec<&str> = text.split('\n').take(NAMES_MAX).collect();
    let limits = Limits::default();
    check_aliases(&names, |names| tool_aliases(names.iter().copied(), limits.alias_bytes_max), is_fit_tool);
    check_aliases(
        &names,
        |names| server_aliases(names.iter().copied(), limits.alias_bytes_max),
        is_fit_server,
    );
    check_catalog(&names, &limits);
}

type Aliases<'n> = BTreeMap<&'n str, String>;

fn check_aliases<'n>(
    names: &[&'n str],
    aliases_of: impl Fn(&[&'n str]) -> Aliases<'n>,
    is_fit: impl Fn(&str) -> bool,
) {
    let aliases = aliases_of(names);
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(aliases.keys().copied().collect::<BTreeSet<_>>(), distinct, "each name has an alias");
    assert_eq!(aliases.values().collect::<BTreeSet<_>>().len(), distinct.len(), "each a different one");
    for (name, alias) in &aliases {
        assert!(is_fit(alias), "{name:?} becomes {alias:?}");
        assert!(alias == name || !distinct.contains(alias.as_str()), "{alias:?} is another's name");
        assert!(alias == name || !is_fit(name), "{name:?} could keep itself, and becomes {alias:?}");
    }
    let mut other_order: Vec<&str> = names.iter().rev().copied().collect();
    other_order.extend(names.first());
    assert_eq!(aliases_of(&other_order), aliases, "order and repetition");
}

fn check_catalog(names: &[&str], limits: &Limits) {
    let tools: Vec<Tool> =
        names.iter().filter_map(|name| Tool::from_json(&json!({ "name": name }), limits).ok()).collect();
    let raw: BTreeSet<ToolName> = tools.iter().map(|tool| tool.name.clone()).collect();
    let server_names: BTreeSet<ServerName> =
        names.iter().filter_map(|name| ServerName::new(name).ok()).collect();
    let own = ServerName::new("own").unwrap();
    let servers = server_names.iter().cloned().chain([own.clone()]);
    let catalog = Catalog::new(servers.map(|name| (name, None, None)), limits);
    let catalog = catalog.with_tools(&own, Ok(tools), limits);
    for name in &server_names {
        let known = catalog.server(name.as_str()).expect("a server is found by its name");
        assert_eq!(known.name, *name);
        assert_eq!(catalog.server(&known.alias).map(|known| &known.name), Some(name), "by {:?}", known.alias);
    }
    let server = catalog.server("own").unwrap();
    assert_eq!(server.listed().len(), raw.len());
    for tool in server.listed() {
        assert!(raw.contains(&tool.name));
        for asked in [tool.name.as_str(), tool.alias.as_str()] {
            assert_eq!(server.resolve(asked).map(|found| &found.name), Ok(&tool.name), "by {asked:?}");
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=Limits::default().alias_bytes_max).contains(&bytes.len())
        && !bytes[0].is_ascii_digit()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && !KEYWORDS.split_whitespace().any(|keyword| keyword == text)
        && !text.starts_with("__")
        && bytes.iter().any(u8::is_ascii_alphanumeric)
}

fn is_fit_tool(alias: &str) -> bool {
    let is_probed = alias.starts_with("_ipython") || alias.starts_with("_repr_");
    is_identifier(alias) && !OF_PROXIES.contains(&alias) && !is_probed
}

/// `mcp_servers` is the table of all servers.
fn is_fit_server(alias: &str) -> bool {
    is_identifier(alias) && !alias.contains(|c: char| c.is_ascii_uppercase()) && alias != "servers"
}
