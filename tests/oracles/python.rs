//! Signatures and stubs before the judge: the real Python's parser reads each as the head of a function, finds nothing in it but
//! names, types and plain values, and reads every quoted text as what the schema says.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_tools::catalog::{Catalog, ServerTools, Shapes, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties;
use crate::schema_to_python::{Token, spoken, tokens};

/// Answers each line, a list of sources and texts, by what is wrong.
const JUDGE: &str = r#"
import ast, json, sys
ALLOWED = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Name, ast.Load, ast.Constant, ast.Subscript, ast.Slice, ast.Tuple,
    ast.BinOp, ast.BitOr, ast.Dict, ast.List, ast.UnaryOp, ast.USub, ast.Expr, ast.Pass,
)
wrong = []
for source, name, texts in json.load(sys.stdin):
    try:
        [function] = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        wrong.append((source, str(error)))
        continue
    odd = [type(node).__name__ for node in ast.walk(function) if not isinstance(node, ALLOWED)]
    if odd or function.name != name or len(function.body) != 1:
        wrong.append((source, odd))
    found = [node.value for node in ast.walk(function) if isinstance(node, ast.Constant) and type(node.value) is str]
    if sorted(found) != sorted(texts):
        wrong.append((source, found, texts))
print(json.dumps(wrong))
"#;

#[path = "../stubs/judge.rs"]
mod judge;
#[allow(dead_code)]
#[path = "../search/quality.rs"]
mod quality;

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn python_takes_every_stub(tools in prop::collection::vec(properties::tool(), 40)) {
        prop_assert_eq!(judged_stubs(&catalog(&tools)), json!([]));
    }

    #[test]
    fn python_reads_every_signature_as_a_signature(tools in prop::collection::vec(properties::tool(), 40)) {
        let wrong = judged(&tools);
        prop_assert_eq!(wrong, json!([]));
    }
}

#[test]
fn python_reads_the_signatures_of_attacks_as_signatures() {
    let tools: Vec<Value> = crate::injection::attacks().iter().map(|attack| spoken(&attack.text)).collect();
    assert_eq!(judged(&tools), json!([]));
}

#[test]
fn python_takes_the_stubs_of_attacks() {
    let tools: Vec<Value> = crate::injection::attacks().iter().map(|attack| spoken(&attack.text)).collect();
    assert_eq!(judged_stubs(&catalog(&tools)), json!([]));
}

#[test]
fn python_takes_the_signatures_and_stubs_of_published_tools() {
    let published = quality::catalog(Path::new(quality::TOOLS));
    assert_eq!(judged_stubs(&published), json!([]));
    assert_eq!(answer(&sources(&published)), json!([]));
}

#[test]
fn python_would_see_an_attack_in_a_stub() {
    for (source, faults) in [
        ("import os\nasync def f(): ...", json!(["Import", "alias"])),
        ("async def f(*, a: int = open('x')): ...", json!(["open('x')", "open"])),
        ("async def f(*, a: 'list[open]'): ...", json!(["open"])),
        ("class A(TypedDict):\n    a: 'B'\nasync def f(): ...", json!(["B"])),
        ("async def f():\n    'x'; print()", json!(["print()", "print()", "print", "no function f"])),
        ("async def f():\n    \"\"\"other\"\"\"", json!(["'other' does not begin with 'said'"])),
        (
            "async def f(*, a: 'None[1]'): ...",
            json!(["TypeError(\"'NoneType' object is not subscriptable\")"]),
        ),
    ] {
        let said = if source.contains("other") { "said" } else { "" };
        let wrong = judge::judged([(source, "f", said)]);
        assert_eq!(wrong, json!([[source, faults]]));
    }
    assert_eq!(judge::judged([("async def f() -> Any: ...", "f", "")]), json!([]));
}

/// The judge sees what an unescaped text would do: it is not one that says yes to everything.
#[test]
fn python_would_see_an_attack() {
    let heads = [
        (r"def f(*, a: Literal['\'); import os #']): ...", json!([])),
        ("def f(*, a: Literal['x'] = __import__('os')): ...", json!(["Call"])),
        ("def f(*, a: Literal['x']): import os #']): ...", json!(["Import", "alias"])),
    ];
    for (source, odd) in heads {
        let texts = if odd == json!([]) { vec!["'); import os #"] } else { vec!["x"] };
        let wrong = answer(&json!([[source, "f", texts]]));
        assert_eq!(wrong.as_array().is_some_and(Vec::is_empty), odd == json!([]), "{wrong}");
        assert!(odd == json!([]) || wrong[0][1] == odd, "{wrong}");
    }
}

fn judged(items: &[Value]) -> Value {
    answer(&sources(&catalog(items)))
}

fn judged_stubs(catalog: &Catalog) -> Value {
    let shapes = Shapes::default();
    let of_server = |server: &ServerTools| {
        let tools = server.listed().iter();
        tools.map(|tool| (shapes.stub(&server.name, tool), tool.clone())).collect::<Vec<_>>()
    };
    let stubs: Vec<(String, Tool)> = catalog.servers().iter().flat_map(|server| of_server(server)).collect();
    judge::judged(
        stubs.iter().map(|(stub, tool)| (stub.as_str(), tool.alias.as_str(), tool.description.as_str())),
    )
}

fn catalog(items: &[Value]) -> Catalog {
    let limits = Limits::default();
    let name = ServerName::new("own").unwrap();
    let tools: Vec<Tool> = items.iter().filter_map(|item| Tool::from_json(item, &limits).ok()).collect();
    Catalog::new([(name.clone(), None, None)], &limits).with_tools(&name, Ok(tools), &limits)
}

fn sources(catalog: &Catalog) -> Value {
    let chars_max = Limits::default().signature_chars_max;
    // What is cut off at the bound is no whole signature any more.
    let tools = catalog.servers().iter().flat_map(|server| server.listed());
    tools.filter(|tool| tool.signature.chars().count() < chars_max).map(source).collect()
}

fn answer(sources: &Value) -> Value {
    let mut python = Command::new("python3")
        .args(["-I", "-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    python.stdin.take().unwrap().write_all(sources.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The head of a function that has the tool's signature, its name, and the texts in it.
///
/// Three things of a signature are no Python, and are written as the nearest that is: `?` behind a key, `**{...}` for
/// parameters that are no names, and the ellipsis for what was left out.
fn source(tool: &Tool) -> Value {
    let (tokens, rest) = tokens(&tool.signature);
    assert_eq!(rest, "", "{}", tool.signature);
    let mut source = "def ".to_owned();
    let mut brackets = Vec::new();
    let mut texts = Vec::new();
    let mut cut_names = 0;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            // Python wants a name that no parameter has.
            Token::Name(..) if index > 0 && tokens[index - 1] == Token::Mark("**") => {}
            Token::Name(name, is_cut) => {
                source.push_str(name);
                if *is_cut {
                    cut_names += 1;
                    source.push_str(&format!("_{cut_names}"));
                }
            }
            Token::Number(number) => source.push_str(number),
            Token::Text { said, written } => {
                source.push_str(written);
                texts.push(said);
            }
            Token::Mark("?") => {}
            Token::Mark("…") if brackets.last() == Some(&"{") => source.push_str("...: ..."),
            Token::Mark("…") => source.push_str("..."),
            Token::Mark("**") => {
                source.push_str("**rest_of_them");
                if tokens.get(index + 1) == Some(&Token::Mark("{")) {
                    source.push(':');
                }
            }
            Token::Mark(mark) => {
                match *mark {
                    "(" | "[" | "{" => brackets.push(mark),
                    ")" | "]" | "}" => {
                        brackets.pop();
                    }
                    _ => {}
                }
                source.push_str(mark);
            }
        }
        source.push(' ');
    }
    json!([format!("{source}: pass"), tool.alias, texts])
}
