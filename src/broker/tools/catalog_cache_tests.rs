//! Claims about the cached lists: which parts are written, and which files are refused.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use belljar_base::cache_dir::CacheDir;
use nix::sys::stat::utimes;
use nix::sys::time::TimeVal;
use serde_json::json;

use super::*;
use crate::config::{ConfigFiles, Environment, servers_of_file};

fn keys(servers: Value) -> Vec<CacheKey> {
    let environment = Environment {
        variables: [("PATH".into(), "/bin".into())].into(),
        home: Some("/home/ada".into()),
        uid: 1000,
        cwd: Some("/".into()),
        executable: None,
        owner: None,
    };
    let file = json!({"mcpServers": servers}).to_string().into_bytes();
    let (servers, problems) =
        servers_of_file(&environment, &Limits::default(), Path::new("/etc/servers.json"), file);
    assert_eq!(problems, []);
    servers.iter().map(CacheKey::of).collect()
}

/// The key of a configuration that is different for each word.
pub(crate) fn key(word: &str) -> CacheKey {
    keys(json!({"s": {"command": "/bin/true", "args": [word]}})).remove(0)
}

fn cache(dir: &Path) -> CatalogCache {
    let dir = dir.join("belljar/catalog");
    CatalogCache(CacheDir { dir, entry_bytes_max: 500, entries_max: 3, bytes_max: 1_000 })
}

pub(crate) fn unchanged(text: String) -> String {
    text
}

/// A list of one tool.
pub(crate) fn listing(name: &str) -> Vec<Value> {
    vec![json!({"name": name, "inputSchema": {"type": "object"}})]
}

#[test]
fn servers_with_other_commands_for_their_values_are_configured_differently() {
    let home = tempfile::tempdir().unwrap();
    let entry = |command: &str| json!({"command": "/bin/true", "env": {"T": format!("${{cmd:{command}}}")}});
    let file = json!({"mcpServers": {"a": entry("one"), "b": entry("two"), "c": entry("one")}});
    fs::create_dir(home.path().join("MCPs")).unwrap();
    fs::write(home.path().join("MCPs/a.json"), file.to_string()).unwrap();
    let (config, _) = ConfigFiles::load(Environment {
        variables: [("MCP_BRIDGE_ALLOW_CMD".into(), "1".into())].into(),
        home: Some(home.path().into()),
        uid: nix::unistd::geteuid().as_raw(),
        cwd: None,
        executable: None,
        owner: None,
    });
    let keys: Vec<CacheKey> = config.servers.iter().map(CacheKey::of).collect();
    let [a, b, c] = keys.as_slice() else { panic!("{:?}", config.problems) };
    assert!(a != b && a == c);
}

#[test]
fn every_part_of_a_configuration_counts_but_its_name() {
    let base = json!({"command": "/bin/x", "args": ["a", "b"], "env": {"A": "1", "B": "2"}, "cwd": "/tmp"});
    let with = |key: &str, value: Value| {
        let mut entry = base.clone();
        entry[key] = value;
        entry
    };
    let found = keys(json!({
        "one": base,
        "same": with("env", json!({"B": "2", "A": "1"})),
        "described": with("description", json!("for files")),
        "command": with("command", json!("/bin/y")),
        "args": with("args", json!(["ab"])),
        "fewer_args": with("args", json!(["a"])),
        "value": with("env", json!({"A": "1", "B": "3"})),
        "variable": with("env", json!({"A": "1", "C": "2"})),
        "no_variables": with("env", json!({})),
        "cwd": with("cwd", json!("/var")),
    }));
    assert_eq!((&found[0], &found[0]), (&found[1], &found[2]));
    let different: std::collections::BTreeSet<_> = found.iter().collect();
    assert_eq!(different.len(), 8);
    assert!(found.iter().all(|key| key.0.len() == 64 && key.0.bytes().all(|byte| byte.is_ascii_hexdigit())));
}

#[test]
fn another_client_of_a_remote_server_is_another_configuration() {
    let entry = |id: &str, secret: &str| {
        let login = json!({"type": "client_credentials", "client_id": id, "client_secret": secret});
        json!({"url": "https://a.test/mcp", "login": login})
    };
    let found = keys(json!({"one": entry("a", "x"), "same": entry("a", "y"), "other": entry("b", "x")}));
    assert!(found[0] == found[1] && found[0] != found[2], "a new secret changes nothing");
}

#[test]
fn what_is_kept_is_read_again_and_is_for_the_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let one = key("one");
    assert_eq!(cache.read(&one), None);
    let tool = json!({"name": "t", "description": "Does.", "_meta": {"x": 1}, "icons": ["y"], "annotations": {"readOnlyHint": true}});
    cache.write(&one, &[tool, json!("no tool")], &unchanged, &[]).unwrap();
    let kept = json!({"name": "t", "description": "Does.", "annotations": {"readOnlyHint": true}});
    assert_eq!(cache.read(&one), Some(vec![kept]));
    cache.write(&one, &listing("u"), &unchanged, &[]).unwrap();
    assert_eq!(cache.read(&one), Some(listing("u")));
    assert_eq!(cache.read(&key("other")), None);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&cache.0.dir), mode(&cache.0.path(&one.file()))), (0o700, 0o600));
}

#[test]
fn secrets_of_the_configuration_are_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let one = key("one");
    let redacted = |text: String| text.replace("s3cret\"7", "[TOKEN]").replace("123456", "[PIN]");
    let tool =
        json!({"name": "t", "description": "Uses s3cret\"7.", "inputSchema": {"default": ["s3cret\"7"]}});
    cache.write(&one, &[tool], &redacted, &[]).unwrap();
    let kept = json!({"name": "t", "description": "Uses [TOKEN].", "inputSchema": {"default": ["[TOKEN]"]}});
    assert_eq!(cache.read(&one), Some(vec![kept]));
    for hidden in [json!({"123456": {}}), json!({"maximum": 123456})] {
        let refused = cache.write(&one, &[json!({"name": "t", "inputSchema": hidden})], &redacted, &[]);
        assert!(matches!(refused, Err(CatalogCacheError::Secret)), "{hidden}");
    }
}

#[test]
fn large_listings_are_not_kept_and_of_many_the_oldest_unused_go() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let large = cache.write(&key("one"), &listing(&"x".repeat(500)), &unchanged, &[]);
    assert!(matches!(large, Err(CatalogCacheError::TooLarge { bytes_max: 500, .. })), "{large:?}");
    let kept_of = |listings: [Vec<Value>; 5]| {
        let words = ["first", "second", "third", "fourth", "fifth"];
        for ((second, word), listing) in (1..).zip(words).zip(listings) {
            cache.write(&key(word), &listing, &unchanged, &[key("first"), key(word)]).unwrap();
            let at = TimeVal::new(second, 0);
            utimes(&cache.0.path(&key(word).file()), &at, &at).unwrap();
        }
        words.into_iter().filter(|word| cache.read(&key(word)).is_some()).collect::<Vec<_>>()
    };
    let small = || listing("small");
    assert_eq!(kept_of([small(), small(), small(), small(), small()]), ["first", "fourth", "fifth"]);
    let half = || listing(&"x".repeat(400));
    assert_eq!(kept_of([half(), small(), small(), small(), half()]), ["first", "fifth"]);
}

#[test]
fn files_that_are_broken_or_that_others_could_have_written_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let one = key("one");
    cache.write(&one, &listing("t"), &unchanged, &[]).unwrap();
    let path = cache.0.path(&one.file());
    let good = fs::read(&path).unwrap();
    let ignored = |what: &str| assert_eq!(cache.read(&one), None, "{what}");
    let replaced = |content: &[u8]| {
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    };
    for content in
        ["", "{", "[]", "{\"version\":1}", "{\"version\":2,\"tools\":[]}", "{\"version\":1,\"tools\":{}}"]
    {
        replaced(content.as_bytes());
        ignored(content);
    }
    replaced("[".repeat(400).as_bytes());
    ignored("nested");
    replaced(&[&good[..], &[b' '; 500]].concat());
    ignored("too large");
    replaced(&good);
    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    ignored("writable by others");
    replaced(&good);
    assert!(cache.read(&one).is_some());
    fs::set_permissions(&cache.0.dir, Permissions::from_mode(0o770)).unwrap();
    ignored("in a folder that others can write");
    fs::set_permissions(&cache.0.dir, Permissions::from_mode(0o700)).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    ignored("a link");
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    ignored("a pipe");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    ignored("a folder");
}

#[test]
fn a_folder_that_others_may_read_is_closed_and_one_that_they_may_write_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path());
    let one = key("one");
    DirBuilder::new().recursive(true).mode(0o755).create(&cache.0.dir).unwrap();
    cache.write(&one, &listing("t"), &unchanged, &[]).unwrap();
    assert_eq!(fs::metadata(&cache.0.dir).unwrap().mode() & 0o777, 0o700);
    fs::set_permissions(&cache.0.dir, Permissions::from_mode(0o777)).unwrap();
    let refused = cache.write(&one, &listing("u"), &unchanged, &[]);
    assert!(matches!(refused, Err(CatalogCacheError::Folder(_))), "{refused:?}");
}
