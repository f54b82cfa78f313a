//! Checks whether the arguments of a call match a rule.
//!
//! Every value that a path can match is checked. Servers differ in how they read a value. A rule that asks or denies
//! matches each spelling that some server may read as the value in the rule (see `spelling`). A rule that allows
//! matches the exact spelling only.

use belljar_base::text;
use serde_json::{Map, Value};

use super::literal_meaning::LiteralMeaning;
use super::pattern::Pattern;
use super::readings::{DecodingDepth, decodings, inner};
use super::spelling::{climbs, fits};
use super::verdict::Effect;

/// Whether the values at a path match the pattern. For a rule that tightens, one matching value is enough, which may be an
/// implied one. For a rule that loosens, all given values must match, and there must be at least one.
pub(super) fn fit(
    [given, implied]: [&Map<String, Value>; 2],
    (path, pattern): (&str, &Pattern),
    effect: Effect,
) -> bool {
    match effect {
        Effect::Loosens => {
            let (mut is_given, mut all_fit) = (false, true);
            find(given, path, NameMatch::Exactly, &mut |value, name_match| {
                is_given |= name_match == NameMatch::Exactly;
                all_fit &= value.is_some_and(|value| fits_exactly(value, pattern));
            });
            is_given && all_fit
        }
        Effect::Tightens => {
            let mut is_like = false;
            find(given, path, NameMatch::Exactly, &mut |value, name_match| {
                is_like |=
                    name_match == NameMatch::Unreadably || value.is_some_and(|value| fits(value, pattern));
            });
            // The pattern `*` does not match an argument that was not given.
            if !is_like && !pattern.is_any() {
                find(implied, path, NameMatch::Exactly, &mut |value, _| {
                    is_like |= value.is_some_and(|value| implied_fits(value, pattern));
                });
            }
            is_like
        }
    }
}

/// The precision with which the names on the path to a value match those of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameMatch {
    /// The names are those of the rule.
    Exactly,
    /// A lenient server might read the names as those of the rule, or they are in JSON inside a text.
    Loosely,
    /// The names are in a text that cannot be parsed, so they may be any names.
    Unreadably,
}

/// Visits every value that the path can match. Names may contain dots themselves, and each item of an array counts. For
/// an item without the value, `visit` gets `None`.
fn find(
    fields: &Map<String, Value>,
    path: &str,
    above: NameMatch,
    visit: &mut dyn FnMut(Option<&Value>, NameMatch),
) {
    for (name, value) in fields {
        if let Some(name_match) = named(name, path) {
            visit(Some(value), name_match.max(above));
        }
        for (at, _) in path.match_indices('.') {
            if let Some(name_match) = named(name, &path[..at]) {
                find_below(value, &path[at + 1..], (name_match.max(above), DecodingDepth::OUTERMOST), visit);
            }
        }
    }
}

/// Whether a path can lead to an argument of this name, or below it.
pub(super) fn may_lead_to(name: &str, path: &str) -> bool {
    named(name, path).is_some() || path.match_indices('.').any(|(at, _)| named(name, &path[..at]).is_some())
}

/// Visits the values below one value. Returns whether there were any.
fn find_below(
    value: &Value,
    path: &str,
    (above, depth): (NameMatch, DecodingDepth),
    visit: &mut dyn FnMut(Option<&Value>, NameMatch),
) -> bool {
    let mut has_visited = false;
    match value {
        Value::Object(fields) => find(fields, path, above, &mut |value, name_match| {
            has_visited = true;
            visit(value, name_match);
        }),
        Value::Array(items) => {
            for item in items {
                if !find_below(item, path, (above, depth), visit) {
                    visit(None, above);
                }
                has_visited = true;
            }
        }
        Value::String(text) => {
            let inner = inner(text, depth);
            for (value, depth) in &inner.readings {
                has_visited |= find_below(value, path, (above.max(NameMatch::Loosely), *depth), visit);
            }
            if inner.may_hold_anything() {
                has_visited = true;
                visit(None, NameMatch::Unreadably);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    has_visited
}

/// Whether an argument's name matches the rule's: some servers treat `dry_run`, `dryRun`, `DRY-RUN` and `dry%5Frun`
/// alike.
fn named(name: &str, wanted: &str) -> Option<NameMatch> {
    if name == wanted {
        return Some(NameMatch::Exactly);
    }
    let is_like = is_like_name(name, wanted)
        || decodings(name, DecodingDepth::OUTERMOST).iter().any(|(name, _)| is_like_name(name, wanted));
    is_like.then_some(NameMatch::Loosely)
}

fn is_like_name(name: &str, wanted: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = char> {
        text.chars().filter(|one| !matches!(one, '_' | '-' | ' ') && !text::is_unseen(*one))
    }
    if name.is_ascii() && wanted.is_ascii() {
        return letters(name)
            .map(|one| one.to_ascii_lowercase())
            .eq(letters(wanted).map(|one| one.to_ascii_lowercase()));
    }
    letters(&text::folded(name)).eq(letters(&text::folded(wanted)))
}

fn fits_exactly(value: &Value, pattern: &Pattern) -> bool {
    let fits = |text: &str| pattern.matches(text) == Some(true) && (pattern.is_any() || !climbs(text));
    match value {
        Value::String(text) => fits(text),
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| fits_exactly(item, pattern)),
        other => fits(&other.to_string()),
    }
}

/// Whether an implied value matches. Null, for an argument without a default, matches only a pattern without wildcards.
fn implied_fits(value: &Value, pattern: &Pattern) -> bool {
    match value {
        Value::Null => pattern.named().is_some_and(LiteralMeaning::is_nothing),
        Value::Array(items) => items.iter().any(|item| implied_fits(item, pattern)),
        other => fits(other, pattern),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Effect, Pattern, Value, fit};

    fn fits(arguments: &Value, path: &str, pattern: &str) -> [bool; 2] {
        fits_with(arguments, &json!({}), path, pattern)
    }

    fn fits_with(arguments: &Value, implied: &Value, path: &str, pattern: &str) -> [bool; 2] {
        let values = [arguments, implied].map(|values| values.as_object().unwrap());
        let pattern = Pattern::new(pattern).unwrap();
        [Effect::Tightens, Effect::Loosens].map(|effect| fit(values, (path, &pattern), effect))
    }

    #[test]
    fn a_name_counts_in_every_spelling_to_tighten() {
        for name in [
            "dry_run",
            "dryRun",
            "DRY-RUN",
            "Dry_Run",
            "dry run",
            "ｄｒｙ_run",
            "dry_run\t",
            "dry\u{7}_run",
            "dry_\u{e000}run\u{2800}",
            "dry%5Frun",
        ] {
            assert_eq!(fits(&json!({name: true}), "dry_run", "true"), [true, name == "dry_run"], "{name}");
            let both = json!({"dry_run": false, name: true});
            assert!(fits(&both, "dry_run", "true")[0], "{name}");
        }
        // Only one of the two names is allowed, and the server may read the other one.
        assert_eq!(fits(&json!({"path": "/data/a", "Path": "/etc/a"}), "path", "/data/*"), [true, false]);
        assert_eq!(fits(&json!({"path": "/data/a", "Path": "/data/b"}), "path", "/data/*"), [true, true]);
    }

    #[test]
    fn a_text_that_begins_as_json_and_cannot_be_read_is_in_doubt() {
        let long = format!(r#"{{"x": "{}", "force": true}}"#, "a".repeat(70_000));
        let deep = format!(r#"{{"x": {}{}, "force": true}}"#, "[".repeat(200), "]".repeat(200));
        for text in [r#"{"force": true, "x": NaN}"#, r#"{"force": true, "x": "\ud800"}"#, &long, &deep] {
            assert_eq!(fits(&json!({"options": text}), "options.force", "true"), [true, false]);
            assert_eq!(fits(&json!({"options": [text]}), "options.force", "true"), [true, false]);
        }
        for arguments in [json!({"options": "force: true"}), json!({"other": "{"})] {
            assert_eq!(fits(&arguments, "options.force", "true"), [false, false], "{arguments}");
        }
    }

    #[test]
    fn every_reading_of_a_text_with_json_counts() {
        for (text, tightens) in [
            (r#"{"%66orce": true}"#, true),
            (r#"{"%2566orce": true}"#, true),
            (r#"{"\u002566orce": true}"#, true),
            (r#"{"a": "%22,%22force%22:true,%22b%22:%22"}"#, true),
            (r#"[{"force": false}, "{\"%66orce\": true}"]"#, true),
            (r#"{"a": "%22,%22force%22:true,b:%22"}"#, true),
            (r#"{"force": true, "force": false}"#, true),
            (r#"{"force": false, "force": true}"#, true),
            (r#"{"force": false, "force": true, "force": false}"#, true),
            (r#"{"force": false, "force": false}"#, false),
            (r#"{"a": "say %22hi%22", "force": false}"#, false),
            (r#"{"a": "100%25", "%66orce": false}"#, false),
        ] {
            for options in [json!(text), json!([text]), json!(json!(text).to_string())] {
                let found = fits(&json!({"options": options}), "options.force", "true");
                assert_eq!(found, [tightens, false], "{options}");
            }
        }
        let repeated = r#"{"options": {"force": true}, "options": {"force": false}}"#;
        assert_eq!(fits(&json!({"all": repeated}), "all.options.force", "true"), [true, false]);
        // Each repetition adds a value, but no level of depth.
        let often = format!("{{{}}}", vec![r#""force":1"#; 5_000].join(","));
        assert_eq!(fits(&json!({"options": often}), "options.force", "2"), [false, false]);
        assert_eq!(fits(&json!({"options": often}), "options.force", "1"), [true, false]);
    }

    #[test]
    fn json_in_a_text_is_read_to_tighten() {
        for options in [
            json!("{\"force\": true}"),
            json!(" [{\"force\": 1}]"),
            json!("\"{\\\"force\\\": \\\"yes\\\"}\""),
            json!("%7B%22force%22%3Atrue%7D"),
            json!("%257B%2522force%2522%253Atrue%257D"),
        ] {
            assert_eq!(
                fits(&json!({ "options": options }), "options.force", "true"),
                [true, false],
                "{options}"
            );
        }
        let twice = json!({"options": "{\"force\": false}", "options.force": "true"});
        assert_eq!(fits(&twice, "options.force", "true"), [true, false]);
    }

    #[test]
    fn what_is_left_out_counts_as_its_default_to_tighten() {
        let (none, implied) =
            (json!({}), json!({"mode": "delete", "options": {"force": [true, "x"]}, "to": null}));
        for (path, pattern, tightens) in [
            ("mode", "delete", true),
            ("mode", "del*", true),
            ("mode", "*", false),
            ("options.force", "true", true),
            ("to", "null", true),
            ("to", "false", true),
            ("to", "n*", false),
            ("to", "0", false),
        ] {
            assert_eq!(fits_with(&none, &implied, path, pattern), [tightens, false], "{path} {pattern}");
        }
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
            ("../data/a", true, false),
            ("a/../../data/a", true, false),
            ("../tmp/data/a", false, false),
        ] {
            assert_eq!(of(path), [tightens, loosens], "{path}");
        }
        let uri = json!({"uri": "file:///home/../etc/passwd"});
        assert_eq!(fits(&uri, "uri", "file:///etc/*"), [true, false]);
        assert_eq!(fits(&uri, "uri", "*"), [true, true]);
    }

    /// JSON with few different names, so that paths match often.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!("here")), Just(json!("there")), Just(json!(1))];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let names = prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("b.a")];
            let object = prop::collection::btree_map(names, inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
                object.prop_map(|fields| json!(fields)),
            ]
        })
    }

    /// Collects all values in a value, each with the path of names to it.
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
            let [tightens, loosens] = fits(&arguments, &path, "here");
            prop_assert_eq!(tightens, at_path.iter().any(|value| **value == "here"));
            prop_assert!(!loosens || at_path.iter().all(|value| **value == "here"));
        }
    }
}
