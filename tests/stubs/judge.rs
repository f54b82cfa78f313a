//! Stubs before the judge: the real Python compiles each, finds nothing in it but classes, a function, types and plain
//! values, executes it with nothing but the names of `typing`, and resolves every annotation.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Answers a list of stubs, function names and what docstrings begin with by what is wrong.
const JUDGE: &str = r#"
import ast, json, sys, types, typing
PARTS = (
    ast.Module, ast.ClassDef, ast.AnnAssign, ast.Assign, ast.AsyncFunctionDef, ast.arguments, ast.arg, ast.Name, ast.Load,
    ast.Store, ast.Constant, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr, ast.Dict, ast.List, ast.UnaryOp, ast.USub,
    ast.Expr, ast.Call, ast.keyword,
)
BLOB = {"Blob": type("Blob", (), {})}
TYPING = {name: vars(typing)[name] for name in ("Any", "Literal", "Never", "NotRequired", "TypedDict", "Unpack")}
KNOWN = {*TYPING, *BLOB, "None", "bool", "int", "float", "str", "list", "tuple", "dict"}

def odd(source, name, beginning):
    """What is in it that may not be there; it is executed only without."""
    *classes, function = ast.parse(source).body
    nodes = [node for part in (*classes, function) for node in ast.walk(part)]
    faults = [type(node).__name__ for node in nodes if not isinstance(node, PARTS)]
    if faults:
        return faults
    own = {c.name if isinstance(c, ast.ClassDef) else c.targets[0].id for c in classes}
    if len(own) != len(classes) or own & {name, *KNOWN}:
        faults.append(f"classes {sorted(own)}")
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    faults += [ast.unparse(call) for call in calls if ast.unparse(call.func) != "TypedDict"]
    lines = [node.value for node in nodes if isinstance(node, ast.Expr)]
    faults += [ast.unparse(line) for line in lines if not isinstance(line, ast.Constant)]
    types = [node.annotation for node in nodes if isinstance(node, ast.AnnAssign | ast.arg)] + [function.returns]
    types += [value for call in calls if len(call.args) == 2 for value in call.args[1].values]
    used = {name for kind in types for name in names(kind)} | {n.id for n in nodes if type(n) is ast.Name and type(n.ctx) is ast.Load}
    faults += sorted(used - own - KNOWN)
    if type(function) is not ast.AsyncFunctionDef or function.name != name or len(function.body) != 1:
        return [*faults, f"no function {name}"]
    said = ast.get_docstring(function, clean=False) or ""
    if not said.replace("\n    ", "\n").startswith(beginning):
        faults.append(f"{said!r} does not begin with {beginning!r}")
    return faults or resolved(source, [*own, name])

def names(kind):
    """Those of a type, also where it is text; not what Literal lists."""
    match kind:
        case ast.Subscript(value=ast.Name(id="Literal")):
            pass
        case ast.Constant(value=str(text)):
            yield from names(ast.parse(text, mode="eval").body)
        case ast.Name(id=name):
            yield name
        case ast.AST():
            for part in ast.iter_child_nodes(kind):
                yield from names(part)

def resolved(source, things):
    # A module, since that is where classes look for what they name before it is there.
    module = sys.modules["stub"] = types.ModuleType("stub")
    space = vars(module)
    space.update(TYPING, **BLOB)
    exec(compile(source, "<stub>", "exec", dont_inherit=True), space)
    for thing in things:
        typing.get_type_hints(space[thing], space)
    return []

wrong = []
for source, name, beginning in json.load(sys.stdin):
    try:
        found = odd(source, name, beginning)
    except Exception as error:
        found = [repr(error)]
    if found:
        wrong.append([source, found])
print(json.dumps(wrong))
"#;

/// What is wrong with stubs; each with its function's name and what its docstring begins with.
pub fn judged<'s>(stubs: impl IntoIterator<Item = (&'s str, &'s str, &'s str)>) -> Value {
    let stubs: Vec<Value> = stubs.into_iter().map(|stub| json!(stub)).collect();
    let mut python = Command::new("python3")
        .args(["-I", "-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let input = Value::from(stubs).to_string();
    python.stdin.take().expect("it is a pipe").write_all(input.as_bytes()).expect("python3 reads it");
    let output = python.wait_with_output().expect("python3 ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("the judge answers with JSON")
}
