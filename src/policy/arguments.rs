//! Whether the arguments of a call are what a rule says: every value that a path may mean counts.
//!
//! It does not know what a server makes of a value; where that is in doubt a rule fits that tightens, and none that loosens.

use serde_json::{Map, Value};

use super::pattern::Pattern;

/// What a rule does to a call that it fits, which decides what doubt is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It lets the call pass: in doubt it does not fit.
    Loosens,
    /// It asks or denies: in doubt it fits.
    Tightens,
}

/// Whether the values at a path are like the pattern: for a rule that tightens any of them, for one that loosens all, of
/// which there must be one.
pub(super) fn fit(arguments: &Map<String, Value>, path: &str, pattern: &Pattern, effect: Effect) -> bool {
    let mut found = Vec::new();
    find(arguments, path, &mut found);
    let fits = |value: &Option<&Value>| value.is_some_and(|value| value_fits(value, pattern, effect));
    match effect {
        Effect::Loosens => !found.is_empty() && found.iter().all(fits),
        Effect::Tightens => found.iter().any(fits),
    }
}

/// Adds every value that the path may mean: names may have dots themselves, and of an array each item counts. An item
/// without it is `None`. Each value is reached once, since the names above it make up the path in one way only.
fn find<'v>(arguments: &'v Map<String, Value>, path: &str, found: &mut Vec<Option<&'v Value>>) {
    found.extend(arguments.get(path).map(Some));
    for (at, _) in path.match_indices('.') {
        if let Some(value) = arguments.get(&path[..at]) {
            find_below(value, &path[at + 1..], found);
        }
    }
}

fn find_below<'v>(value: &'v Value, path: &str, found: &mut Vec<Option<&'v Value>>) {
    match value {
        Value::Object(fields) => find(fields, path, found),
        Value::Array(items) => {
            for item in items {
                let before = found.len();
                find_below(item, path, found);
                if found.len() == before {
                    found.push(None);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn value_fits(value: &Value, pattern: &Pattern, effect: Effect) -> bool {
    let fits = |item: &Value| value_fits(item, pattern, effect);
    match (value, effect) {
        (Value::String(text), _) => text_fits(text, pattern, effect),
        (Value::Array(items), Effect::Loosens) => !items.is_empty() && items.iter().all(fits),
        (Value::Array(items), Effect::Tightens) => items.iter().any(fits),
        (other, _) => text_fits(&other.to_string(), pattern, effect),
    }
}

fn text_fits(text: &str, pattern: &Pattern, effect: Effect) -> bool {
    match effect {
        Effect::Loosens => pattern.matches(text) == Some(true) && (pattern.is_any() || !climbs(text)),
        Effect::Tightens => {
            let is_like = |text: &str| pattern.matches(text) != Some(false);
            is_like(text) || plain(text).is_some_and(|plain| is_like(&plain))
        }
    }
}

/// Whether a path goes up anywhere: then its beginning does not say where it leads.
fn climbs(text: &str) -> bool {
    unescaped(text).split(['/', '\\']).any(|segment| segment == "..")
}

/// Where a path leads that goes up, stays or has empty segments on its way; `None`: it says so itself.
fn plain(text: &str) -> Option<String> {
    let text = unescaped(text);
    let (before, path) = match text.split_once("://") {
        Some((scheme, path)) => (format!("{scheme}://"), path),
        None => (String::new(), &text[..]),
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." if segments.last().is_some_and(|last| *last != "..") => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_absolute = path.starts_with(['/', '\\']);
    let above = segments.iter().take_while(|segment| is_absolute && **segment == "..").count();
    let root = if is_absolute { "/" } else { "" };
    let plain = format!("{before}{root}{}", segments[above..].join("/"));
    (plain != text).then_some(plain)
}

/// Dots and separators as addresses may write them.
fn unescaped(text: &str) -> String {
    let escapes = [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fits(arguments: &Value, path: &str, pattern: &str) -> [bool; 2] {
        let (arguments, pattern) = (arguments.as_object().unwrap(), Pattern::new(pattern).unwrap());
        [Effect::Tightens, Effect::Loosens].map(|effect| fit(arguments, path, &pattern, effect))
    }

    #[test]
    fn every_value_that_a_path_may_mean_counts() {
        for (arguments, tightens, loosens) in [
            (json!({"options.force": "x", "options": {"force": true}}), true, false),
            (json!({"options.force": true, "options": {"force": "x"}}), true, false),
            (json!({"options.force": true, "options": {"force": true}}), true, true),
            (json!({"options": [{"force": false}, {"force": true}]}), true, false),
            (json!({"options": [[{"force": true}]]}), true, true),
            (json!({"options": [{"force": true}, {}]}), true, false),
            (json!({"options": [{"force": true}, "force"]}), true, false),
            (json!({"options": []}), false, false),
            (json!({"options": {"force": []}}), false, false),
            (json!({"options": {"force": [true, [true]]}}), true, true),
            (json!({"options": {"force": [false, true]}}), true, false),
            (json!({"options": "force"}), false, false),
            (json!({}), false, false),
        ] {
            assert_eq!(fits(&arguments, "options.force", "true"), [tightens, loosens], "{arguments}");
        }
        let split = json!({"a": {"b.c": "1"}, "a.b": {"c": "2"}});
        assert_eq!(fits(&split, "a.b.c", "1"), [true, false]);
        assert_eq!(fits(&split, "a.b.c", "2"), [true, false]);
        assert_eq!(fits(&split, "a.b.c", "?"), [true, true]);
    }

    #[test]
    fn a_path_that_goes_up_is_let_pass_by_no_pattern_and_does_not_get_around_one() {
        let of = |path: &str| fits(&json!({ "path": path }), "path", "/data/*");
        for (path, tightens, loosens) in [
            ("/data/a..b/...", true, true),
            ("/data//a", true, true),
            ("/data/../etc/passwd", true, false),
            ("/data/a/..", true, false),
            ("/data/%2E%2e/etc", true, false),
            ("/data/..%2fetc", true, false),
            ("/data/..\\etc", true, false),
            ("/tmp/../data/a", true, false),
            ("/../../data/a", true, false),
            ("//data/./a", true, false),
            ("/%2e/data/a", true, false),
            ("/tmp/data/a", false, false),
            ("../data/a", false, false),
        ] {
            assert_eq!(of(path), [tightens, loosens], "{path}");
        }
        let uri = json!({"uri": "file:///home/../etc/passwd"});
        assert_eq!(fits(&uri, "uri", "file:///etc/*"), [true, false]);
        assert_eq!(fits(&uri, "uri", "*"), [true, true]);
    }

    /// JSON with few names, so that paths meet.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!("yes")), Just(json!("no")), Just(json!(1))];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let names = prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("b.a")];
            let object = prop::collection::btree_map(names, inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
                object.prop_map(|fields| json!(fields)),
            ]
        })
    }

    /// All values below, each with the names above it.
    fn walk(value: &Value, above: &str, seen: &mut Vec<(String, Value)>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(item, above, seen)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
                    walk(field, &path, seen);
                }
            }
            leaf => seen.push((above.to_owned(), leaf.clone())),
        }
    }

    proptest! {
        #[test]
        fn no_shape_of_arguments_hides_a_value_from_a_rule(value in values(), path in "[ab](\\.[ab]){0,3}") {
            let arguments = json!({"a": value.clone(), "a.b": value.clone(), "b": value});
            let mut seen = Vec::new();
            walk(&arguments, "", &mut seen);
            let at_path: Vec<&Value> =
                seen.iter().filter(|(place, _)| *place == path).map(|(_, value)| value).collect();
            let [tightens, loosens] = fits(&arguments, &path, "yes");
            prop_assert_eq!(tightens, at_path.iter().any(|value| **value == "yes"));
            prop_assert!(!loosens || at_path.iter().all(|value| **value == "yes"));
        }
    }
}
