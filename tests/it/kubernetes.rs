//! What `belljar kubernetes manifests` prints.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Home;
use crate::support::home::Output;
use crate::tidy::source::files_below;

const SERVE: [&str; 6] = [
    "kubernetes",
    "manifests",
    "--image",
    "r.example.com/belljar:1",
    "--sandbox-image",
    "r.example.com/s@sha256:0",
];
/// Rights that every user has by the default roles of Kubernetes.
const OF_ALL: [&str; 2] = ["selfsubjectaccessreviews", "/version"];

fn printed(arguments: &[&str]) -> String {
    let Output { code, stdout, stderr } = Home::new().run(arguments);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
    stdout
}

/// The kinds of the objects, in their order.
fn kinds(yaml: &str) -> Vec<&str> {
    yaml.lines().filter_map(|line| line.strip_prefix("kind: ")).collect()
}

/// The verbs of each resource for which the engine sends requests, by its source.
fn asked_by_engine() -> BTreeMap<String, BTreeSet<String>> {
    let mut asked = BTreeMap::<String, BTreeSet<String>>::new();
    for (_, text) in files_below("crates/belljar-engine/src/kubernetes", "rs") {
        let text = text.replace("..EXEC", "resource: \"pods/exec\"");
        for found in text.split("Asked {").filter_map(|part| part.split('}').next()) {
            let value = |key: &str| Some(found.split_once(key)?.1.split('"').nth(1)?.to_owned());
            if let (Some(verb), Some(resource)) = (value("verb: "), value("resource: ")) {
                asked.entry(resource).or_default().insert(verb);
            }
        }
    }
    OF_ALL.iter().for_each(|resource| assert!(asked.remove(*resource).is_some(), "{resource}"));
    asked
}

#[test]
fn the_role_has_exactly_the_rights_that_the_engine_uses() {
    let yaml = printed(&["kubernetes", "manifests"]);
    let lists = |key: &str| {
        let lists = yaml.lines().filter_map(|line| line.trim_start().strip_prefix(key)?.strip_suffix(']'));
        lists.map(|list| list.split(", ").map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
    };
    let resources = lists("resources: [").into_iter().map(|names| names.join(", "));
    let verbs = lists("verbs: [").into_iter().map(BTreeSet::from_iter);
    assert_eq!(resources.zip(verbs).collect::<BTreeMap<_, _>>(), asked_by_engine());
    assert_eq!(yaml.matches("rules:").count(), 1);
}

#[test]
fn a_deployment_is_printed_for_an_image_only_and_no_placeholder_stays() {
    let rights = ["Namespace", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ResourceQuota"];
    assert_eq!(kinds(&printed(&["kubernetes", "manifests"])), rights);
    let serve = ["ConfigMap", "PersistentVolumeClaim", "Deployment", "Service", "NetworkPolicy"];
    let yaml = printed(&SERVE);
    assert_eq!(kinds(&yaml), [&rights[..], &serve].concat());
    for line in [
        "          image: \"r.example.com/belljar:1\"",
        "    image = \"r.example.com/s@sha256:0\"",
        "            - \"belljar.belljar.svc\"",
    ] {
        assert!(yaml.lines().any(|printed| printed == line), "{line}: {yaml}");
    }
    let named = printed(&[&SERVE[..], &["--namespace", "1e3", "--host", "b.example.com:443"]].concat());
    assert!(!named.contains('$') && !yaml.contains('$'));
    assert!(named.contains("            - \"b.example.com:443\"\n"), "{named}");
    // In quotes, since YAML would read a number.
    let objects = kinds(&named).len();
    assert_eq!(named.matches("\n  namespace: \"1e3\"\n").count() + 1, objects);
    assert!(named.contains("\n  name: \"1e3\"\n"));
}

#[test]
fn the_printed_options_and_settings_are_those_of_belljar() {
    let yaml = printed(&SERVE);
    let settings: String = yaml
        .lines()
        .skip_while(|line| *line != "  config.toml: |")
        .skip(1)
        .map_while(|line| line.strip_prefix("    "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let home = Home::new().file(".config/belljar/config.toml", &settings);
    let shown: serde_json::Value = serde_json::from_str(&home.run(&["config", "--json"]).stdout).unwrap();
    assert_eq!(shown["problems"], serde_json::json!([]), "{shown}");
    let arguments = yaml.lines().skip_while(|line| *line != "          args:").skip(1);
    let mut arguments: Vec<&str> = arguments
        .map_while(|line| line.strip_prefix("            - "))
        .map(|word| word.trim_matches('"'))
        .collect();
    // Then it only says how it would be started.
    arguments.extend(["--unit", "systemd"]);
    let unit = home.run(&arguments);
    let words = "serve --http 0.0.0.0:8765 --allow-host belljar.belljar.svc --behind-proxy\n";
    assert!(unit.code == Some(0) && unit.stdout.contains(words), "{unit:?}");
}

#[test]
fn names_that_cannot_be_right_are_refused() {
    let long = "n".repeat(64);
    let manifests = |more: &[&str]| Home::new().run(&[&["kubernetes", "manifests"], more].concat());
    let a_namespace = "a namespace has at most 63 characters";
    for name in ["", "A", "a_b", "-a", "a-", "a.b", "a\nkind: x", &long] {
        let refused = manifests(&[&format!("--namespace={name}")]);
        assert!(refused.code == Some(2) && refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains(if name.is_empty() { "value" } else { a_namespace }), "{refused:?}");
    }
    for name in ["default", "kube-system"] {
        let refused = manifests(&["--namespace", name]);
        assert!(refused.code == Some(2) && refused.stderr.contains("the cluster itself uses"), "{refused:?}");
    }
    for (option, value, why) in [
        ("--image", "a b", "an image is REGISTRY/NAME"),
        ("--image", "a\"b", "an image is REGISTRY/NAME"),
        ("--image", "$HOST", "an image is REGISTRY/NAME"),
        ("--sandbox-image", "a\\b", "an image is REGISTRY/NAME"),
        ("--host", "http://a", "a host is HOST"),
        ("--host", "a\n", "a host is HOST"),
    ] {
        let whole = [("--image", "i"), ("--sandbox-image", "s"), ("--host", "h")];
        let given: Vec<String> = whole
            .map(|(name, usual)| format!("{name}={}", if name == option { value } else { usual }))
            .into();
        let refused = manifests(&given.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(refused.code == Some(2) && refused.stderr.contains(why), "{refused:?}");
    }
    let alone = manifests(&["--image", "i"]);
    assert!(alone.code == Some(2) && alone.stderr.contains("--sandbox-image <IMAGE>"), "{alone:?}");
}
