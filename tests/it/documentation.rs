//! The documents and the tree agree: links lead somewhere, the book has every page, settings and commands are described, and what
//! is named as a test, a probe or a function exists.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::Home;

/// The documents at the root, and the protocol, which has a page in the book.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "crates/belljar-protocol/src/PROTOCOL.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below a folder, relative to the root.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<String> {
    files("docs").into_iter().filter(|file| file.ends_with(".md")).collect()
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the links in a text, without those in code.
fn links(text: &str) -> Vec<String> {
    let without_code: Vec<String> = prose(text)
        .map(|line| {
            line.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect()
        })
        .collect();
    let joined = without_code.join("\n");
    let targets =
        joined.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.map(str::to_owned).collect()
}

/// The anchors of the headings, as code hosts and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let titles = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let anchor = |title: String| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(anchor).collect()
}

/// The parts of a text in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn anchors_are_made_of_titles() {
    let text = "# A page\n## Threads, and `tasks`\n```text\n# not a title\n```\n";
    assert_eq!(anchors(text), ["a-page", "threads-and-tasks"].map(str::to_owned).into());
    assert_eq!(links("[a](b.md#c) `[x](y)`\n```\n[p](q)\n```\n[d\ne](f)"), ["b.md#c", "f"]);
}

#[test]
fn links_lead_to_files_and_titles() {
    let mut wrong = Vec::new();
    let documents = DOCUMENTS.iter().map(|&file| file.to_owned());
    for file in documents.chain(pages()).chain(["docs/llms.txt".to_owned()]) {
        let text = read(&file);
        for link in links(&text) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => root().join(&file),
                path => root().join(&file).parent().map(|folder| folder.join(path)).unwrap(),
            };
            let is_there = target.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor));
            if !is_there {
                wrong.push(format!("{file}: {link}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn the_book_lists_every_page_once() {
    let mut listed = links(&read("docs/SUMMARY.md"));
    listed.sort();
    let mut pages: Vec<String> =
        pages().iter().map(|page| page.trim_start_matches("docs/").to_owned()).collect();
    pages.retain(|page| page != "SUMMARY.md");
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn included_pages_name_files_that_exist() {
    for page in pages() {
        for line in read(&page).lines() {
            if let Some(file) = line.strip_prefix("<!-- page: ").and_then(|rest| rest.strip_suffix(" -->")) {
                let path = root().join(&page).parent().unwrap().join(file);
                assert!(path.is_file(), "{page}: {file}");
            }
        }
    }
}

#[test]
fn every_setting_is_described_with_its_default() {
    let settings: serde_json::Value = serde_json::from_str(&read("config/defaults.json")).unwrap();
    let page = read("docs/reference/settings.md");
    let described: Vec<[String; 3]> = page
        .lines()
        .filter(|line| line.starts_with("| `MCP_"))
        .map(|line| {
            let cell = |at: usize| line.split('|').nth(at).unwrap().trim().trim_matches('`').to_owned();
            [cell(1), cell(2), cell(3)]
        })
        .collect();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let defined = settings.as_object().unwrap().iter();
    let defined: BTreeSet<_> = defined
        .map(|(name, setting)| [name.clone(), text(&setting["key"]), text(&setting["default"])])
        .collect();
    assert_eq!(described.len(), defined.len(), "each once");
    assert_eq!(described.into_iter().collect::<BTreeSet<_>>(), defined);
}

#[test]
fn plugin_for_claude_code_has_the_version_of_the_crate() {
    let manifest = read("packaging/claude-plugin/.claude-plugin/plugin.json");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_command_is_described() {
    let help = Home::new().run(&["--help"]).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10, "{help}");
    let page = read("docs/reference/cli.md");
    let missing = commands.into_iter().filter(|command| *command != "help");
    let missing: Vec<&str> =
        missing.filter(|command| !page.contains(&format!("`belljar {command}`"))).collect();
    assert_eq!(missing, [""; 0]);
}

/// The path from the checkout of a source file or folder that a document names: `belljar-NAME/…` in `crates`, others in
/// the tree or in `src`.
fn sources_of(name: &str) -> [String; 2] {
    match name.split_once('/').filter(|_| name.starts_with("belljar-")) {
        Some((of, inside)) => [format!("crates/{of}/src/{inside}"), format!("crates/{name}")],
        None => [name.to_owned(), format!("src/{name}")],
    }
}

/// Whether a path is a file or a folder of the sources, perhaps with further folders before its last part.
fn is_below(name: &str) -> bool {
    let is_deeper = |(first, rest): (&str, &str)| {
        let last = format!("/{}", rest.rsplit('/').next().unwrap());
        let folders = ["", "src/", "crates/"].map(|above| format!("{above}{first}"));
        folders.iter().any(|folder| {
            root().join(folder).is_dir() && files(folder).iter().any(|file| file.ends_with(&last))
        })
    };
    let is_there = |path: &String| root().join(path).exists();
    sources_of(name).iter().any(is_there) || name.split_once('/').is_some_and(is_deeper)
}

#[test]
fn promises_name_tests_that_exist() {
    let probes: String = files("tests/probes").iter().map(|file| read(file)).collect();
    let makefile = read("Makefile");
    let is_there = |name: &str| {
        if let Some(target) = name.strip_prefix("make ") {
            return makefile.contains(&format!("\n{}:", target.split(' ').next().unwrap()));
        }
        if is_below(name) {
            return true;
        }
        let probe = name.trim_end_matches('*');
        let is_probe = name.contains('.') && !name.ends_with(".rs") && !name.ends_with(".py");
        is_probe && probes.contains(&format!("\"{probe}{}", if probe == name { "\"" } else { "" }))
    };
    let text = read("SECURITY.md");
    let mut rows = 0;
    let mut wrong = Vec::new();
    let mut is_promise = false;
    for line in text.lines() {
        is_promise = line.starts_with("| promise |") || (is_promise && line.starts_with('|'));
        if !is_promise || line.starts_with("|---") || line.starts_with("| promise |") {
            continue;
        }
        rows += 1;
        let test = line.trim_end_matches('|').rsplit('|').next().unwrap();
        let named: Vec<&str> = quoted(test).collect();
        if named.is_empty() {
            wrong.push(format!("no test: {line}"));
        }
        wrong.extend(named.into_iter().filter(|name| !is_there(name)).map(|name| format!("{name}: {line}")));
    }
    assert!(rows > 60, "{rows}");
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn walks_name_functions_that_exist() {
    let mut wrong = Vec::new();
    let mut steps = 0;
    for name in quoted(&read("ARCHITECTURE.md")) {
        let Some((path, function)) = name.rsplit_once(':') else { continue };
        if !path.ends_with(".rs") && !path.ends_with(".py") {
            continue;
        }
        steps += 1;
        let [first, second] = sources_of(path);
        let text = [first, second, format!("entrypoint/belljar_sandbox/{path}")]
            .iter()
            .find_map(|path| std::fs::read_to_string(root().join(path)).ok())
            .unwrap_or_default();
        let is_defined = ["fn ", "def "].iter().any(|word| {
            text.match_indices(&format!("{word}{function}"))
                .any(|(at, found)| text[at + found.len()..].starts_with(['(', '<', '[']))
        });
        if !is_defined {
            wrong.push(name.to_owned());
        }
    }
    assert!(steps > 50, "{steps}");
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn shown_replies_are_those_of_transcripts() {
    let transcripts: Vec<String> = files("tests/ux/transcripts").iter().map(|file| read(file)).collect();
    let page = read("docs/reference/run-python.md");
    let shown: Vec<&str> = page
        .split("```text\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"))
        .map(|(text, _)| text)
        .collect();
    assert!(shown.len() >= 3, "{shown:?}");
    let is_replied = |reply: &str| transcripts.iter().any(|transcript| transcript.contains(reply));
    let stale: Vec<&str> = shown.into_iter().filter(|reply| !is_replied(reply)).collect();
    assert_eq!(stale, [""; 0]);
}

#[test]
fn the_book_has_the_pages_of_the_root() {
    let chapter = |path: &str| {
        let content = read(&format!("docs/{path}"));
        json!({"Chapter": {"name": path, "content": content, "path": path, "sub_items": []}})
    };
    let items =
        ["explanations/architecture.md", "explanations/security.md", "glossary.md", "reference/protocol.md"];
    let context = json!({"root": root().join("docs"), "config": {"book": {"src": "."}}});
    let input = json!([context, {"items": items.map(chapter)}]).to_string();
    let mut preprocessor = Command::new("python3")
        .arg(root().join("scripts/book.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    preprocessor.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = preprocessor.wait_with_output().unwrap();
    let book: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let content = book["items"][0]["Chapter"]["content"].as_str().unwrap();
    assert!(content.starts_with("# Architecture\n"), "{content}");
    let links: BTreeSet<String> = links(content).into_iter().collect();
    let expected = ["security.md", "../glossary.md", "../reference/protocol.md"].map(str::to_owned);
    assert!(expected.iter().all(|link| links.contains(link)), "{links:?}");
    // Links to pages that this small book does not have are plain text.
    assert!(links.iter().all(|link| expected.contains(link)), "{links:?}");
}
