//! Claims about the index of tools: which list is used, which tools are left out, and which lists are cached.

use belljar_tools::policy::Pattern;

use super::*;
use crate::broker::tools::catalog_cache::tests::{key, listing, unchanged};

fn name(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

/// The servers a and b, each with a configuration named after it.
fn tool_index(dir: &std::path::Path) -> ToolIndex {
    let limits = Arc::new(Limits::default());
    let (catalog, servers) = configured(&[("a", "a"), ("b", "b")]);
    let cache = CatalogCache::new(dir.join("catalog"), &limits);
    ToolIndex::new(catalog, servers, Some(cache), limits)
}

fn configured(servers: &[(&str, &str)]) -> (Catalog, BTreeMap<ServerName, Configured>) {
    let names = servers.iter().map(|(server, _)| (name(server), None, None));
    let known = servers.iter().map(|(server, word)| (name(server), of_key(key(word))));
    (Catalog::new(names, &Limits::default()), known.collect())
}

/// A server that offers all its tools.
pub(crate) fn of_key(key: CacheKey) -> Configured {
    Configured { key, tools: ToolChoice::default(), place: ("mcpServers.x".into(), "/f.json".into()) }
}

/// The server a, of which only some tools are offered.
fn choosing(dir: &std::path::Path, allow: Option<&[&str]>, deny: &[&str]) -> ToolIndex {
    let limits = Arc::new(Limits::default());
    let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text).unwrap()).collect();
    let tools = ToolChoice::new(allow.map(patterns), patterns(deny));
    let servers = BTreeMap::from([(name("a"), Configured { tools, ..of_key(key("a")) })]);
    let catalog = Catalog::new([(name("a"), None, None)], &limits);
    let cache = CatalogCache::new(dir.join("catalog"), &limits);
    ToolIndex::new(catalog, servers, Some(cache), limits)
}

fn tools_named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| serde_json::json!({"name": name})).collect()
}

#[test]
fn what_an_entry_keeps_back_is_in_no_catalog_whether_it_was_listed_now_or_kept() {
    let dir = tempfile::tempdir().unwrap();
    let listing = tools_named(&["get-issue", "get_secret", "Delete-All"]);
    let live = choosing(dir.path(), Some(&["get*"]), &["*secret"]);
    live.learn(&name("a"), &key("a"), &listing.clone().into());
    assert_eq!(known(&live), ["get_issue"]);
    live.keep(&name("a"), &key("a"), &listing, &unchanged);
    let kept = choosing(dir.path(), Some(&["get*"]), &["*secret"]);
    kept.load(kept.unasked(&[name("a")]));
    assert_eq!(known(&kept), ["get_issue"]);
    // The whole list was cached: another choice finds more tools in it.
    let other = choosing(dir.path(), None, &["get*"]);
    other.load(other.unasked(&[name("a")]));
    assert_eq!(known(&other), ["Delete_All"]);
    for (asked, said) in [
        ("get_secret", "a.get_secret is not offered: mcpServers.x.deny of /f.json keeps it back"),
        ("GET_SECRET", "a.get_secret is not offered: mcpServers.x.deny of /f.json keeps it back"),
        ("Delete-All", "a.Delete-All is not offered: mcpServers.x.allow of /f.json keeps it back"),
        ("delete_all", "a.Delete-All is not offered: mcpServers.x.allow of /f.json keeps it back"),
    ] {
        for tool_index in [&live, &kept] {
            let fault = tool_index.kept_back(&name("a"), asked).unwrap();
            assert_eq!((fault.code, fault.message.as_str()), (FaultCode::Denied, said));
        }
    }
    assert_eq!(live.kept_back(&name("a"), "get-issue"), None);
    assert_eq!(live.kept_back(&name("a"), "none"), None);
}

#[test]
fn a_python_name_keeps_a_tool_back_too_and_its_own_name_alone_lets_it_in() {
    let dir = tempfile::tempdir().unwrap();
    let listing: Arc<[Value]> = tools_named(&["get-env", "a-b", "a_b"]).into();
    let of = |allow: Option<&[&str]>, deny: &[&str]| {
        let tool_index = choosing(dir.path(), allow, deny);
        tool_index.learn(&name("a"), &key("a"), &listing);
        let aliases: Vec<String> =
            tool_index.catalog().servers()[0].listed().iter().map(|tool| tool.alias.clone()).collect();
        (aliases, tool_index.kept_back(&name("a"), "get_env").is_some())
    };
    let all = of(None, &[]).0;
    let renamed = all.iter().find(|alias| alias.starts_with("a_b_")).unwrap();
    assert_eq!(all, [renamed, "a_b", "get_env"]);
    assert_eq!(of(None, &["get_env"]), (all[..2].to_vec(), true));
    assert_eq!(of(Some(&["get_env", "a?b"]), &[]), (all[..2].to_vec(), true));
    // An excluded tool's Python name is not given to another tool.
    assert_eq!(of(None, &["a_b"]).0, [renamed, "get_env"]);
}

fn known(tool_index: &ToolIndex) -> Vec<String> {
    let shown = |tools: &Tools| match tools {
        Tools::Unasked => "unasked".to_owned(),
        Tools::Listed(tools) => tools.iter().map(|tool| tool.alias.clone()).collect(),
        Tools::Failed { reason } => format!("failed: {reason}"),
    };
    tool_index.catalog().servers().iter().map(|server| shown(&server.tools)).collect()
}

#[test]
fn what_was_kept_fills_in_for_servers_of_the_same_configuration_only() {
    let dir = tempfile::tempdir().unwrap();
    let before = tool_index(dir.path());
    before.keep(&name("a"), &key("a"), &listing("kept"), &unchanged);
    let after = tool_index(dir.path());
    after.load(after.unasked(&[name("a"), name("b"), name("gone")]));
    assert_eq!(known(&after), ["kept", "unasked"]);
    assert!(after.catalog().search_bytes() > 0, "it is ready for searches");
    assert_eq!(after.unlisted(&[name("a"), name("b")]), [(name("b"), key("b"))]);
    let (catalog, servers) = configured(&[("a", "other"), ("b", "a")]);
    after.replace(catalog, servers);
    after.load(after.unasked(&[name("a"), name("b")]));
    assert_eq!(known(&after), ["unasked", "kept"], "names do not count");
}

#[test]
fn what_a_server_lists_counts_more_than_what_was_kept_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let tool_index = tool_index(dir.path());
    tool_index.keep(&name("a"), &key("a"), &listing("kept"), &unchanged);
    let unasked = tool_index.unasked(&[name("a")]);
    let live: Arc<[Value]> = listing("live").into();
    assert_eq!(tool_index.learn(&name("a"), &key("a"), &live), ListingChange::New);
    assert_eq!(tool_index.learn(&name("a"), &key("a"), &live), ListingChange::Nothing);
    tool_index.load(unasked);
    assert_eq!(known(&tool_index), ["live", "unasked"]);
}

#[test]
fn answers_to_an_earlier_configuration_are_not_taken_in() {
    let dir = tempfile::tempdir().unwrap();
    let tool_index = tool_index(dir.path());
    let late: Arc<[Value]> = listing("late").into();
    assert_eq!(tool_index.learn(&name("a"), &key("earlier"), &late), ListingChange::Nothing);
    assert_eq!(tool_index.learn(&name("gone"), &key("a"), &late), ListingChange::Nothing);
    tool_index.learn_failure(&name("a"), &key("earlier"), "exited 1");
    assert_eq!(known(&tool_index), ["unasked", "unasked"]);
}

#[test]
fn a_failure_hides_no_tools_that_the_server_itself_has_listed() {
    let dir = tempfile::tempdir().unwrap();
    let tool_index = tool_index(dir.path());
    tool_index.learn_failure(&name("a"), &key("a"), "server 'a' did not start: \u{1b}no");
    assert_eq!(known(&tool_index), ["failed: did not start: \\x1bno", "unasked"]);
    assert_eq!(tool_index.unasked(&[name("a")]), []);
    assert_eq!(tool_index.unlisted(&[name("a")]), [(name("a"), key("a"))]);
    tool_index.learn(&name("a"), &key("a"), &listing("live").into());
    tool_index.learn_failure(&name("a"), &key("a"), "exited 1");
    assert_eq!(known(&tool_index), ["live", "unasked"]);
}

#[test]
fn each_session_hears_of_the_changes_since_its_last_reply() {
    let dir = tempfile::tempdir().unwrap();
    let tool_index = tool_index(dir.path());
    let learn = |names: &[&str]| {
        let listing: Arc<[Value]> = tools_named(names).into();
        tool_index.learn(&name("a"), &key("a"), &listing);
    };
    learn(&["one"]);
    let (first, second) = (tool_index.news_count(), tool_index.news_count());
    learn(&["one", "two"]);
    let (news, first) = tool_index.news_since(first);
    assert!(news.len() == 1 && news[0].contains("two"), "{news:?}");
    assert_eq!(tool_index.news_since(second), (news, first));
    assert_eq!(tool_index.news_since(first).0, [""; 0]);
    (0..3 * NEWS_MAX).for_each(|number| learn(&[&format!("t{number}")]));
    let (news, _) = tool_index.news_since(first);
    assert!(news.len() == NEWS_MAX && news[NEWS_MAX - 1].contains("t29"), "{news:?}");
}
