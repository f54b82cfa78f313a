"""Looks at everything that the server of attacks says, from inside: as JSON, what came out otherwise than it should."""

import inspect
import json
import sys
import unicodedata

from mcp.runtime import InvalidCallError, MCPError, ToolError

DESCRIPTION_CHARACTERS_MAX = 4_000
SIGNATURE_CHARACTERS_MAX = 1_000
STUB_CHARACTERS_MAX = 64_000
FAULT_CHARACTERS_MAX = 2_100
# A longer text is no parameter of its tool.
PARAMETER_BYTES_MAX = 16 * 1024
# Of what may not be seen, these are allowed: line feed, tab, and the selectors of style behind a character.
SEEN = "\n\t\ufe0e\ufe0f"


def is_inert(text):
    hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in SEEN]
    return not hidden and "\u3164" not in text and "\u115f" not in text


def caught(call, **arguments):
    try:
        return call.sync(**arguments)
    except MCPError as error:
        return error


started = []
sys.addaudithook(
    lambda event, _: started.append(event) if event in ("os.system", "subprocess.Popen", "os.exec") else None
)
wrong = []


def check(name, what, holds):
    if not holds:
        wrong.append(f"{name}: {what}")


tools = {tool["name"]: tool for tool in runtime.list_tools_sync("fixture")}
docs = {doc["tool"]: doc for doc in runtime.query_tool_docs_sync("fixture", detail="full")}
for attack in json.loads(attacks):
    name, text = attack["name"], attack["text"] * attack.get("repeat", 1)
    tool = f"attack_{name}"
    call = getattr(mcp_fixture, tool)
    # The text names a parameter, which has to be there.
    needed = {text: "x"} if len(text.encode()) <= PARAMETER_BYTES_MAX else {}
    if needed:
        unsent = caught(call, how="text", fixed=1, plain=1)
        check(name, "refusal", type(unsent) is InvalidCallError and is_inert(str(unsent)))
        check(name, "length of the refusal", len(str(unsent)) <= FAULT_CHARACTERS_MAX)
    # What a tool answers is the code's own: as it came, and of its own type.
    structured = caught(call, how="structured", **needed)
    check(name, "result", structured == {"text": text, "keys": {text: 1}})
    plain = caught(call, how="text", **needed)
    check(name, "text", plain.raw["content"][0]["text"] == text if hasattr(plain, "raw") else plain == json.loads(text))
    failed = caught(call, how="fail", **needed)
    check(
        name, "error", type(failed) is ToolError and failed.message in (text, "the tool reported an error without text")
    )
    refused = caught(call, how="refuse", **needed)
    check(name, "fault", isinstance(refused, MCPError) and is_inert(str(refused)))
    check(name, "length of the fault", len(str(refused)) <= FAULT_CHARACTERS_MAX)
    # What is told of a tool is escaped and bounded.
    description = docs[tool].get("description", "")
    check(name, "description", is_inert(description) and (description == "") == (text.strip() == ""))
    check(name, "length of the description", len(description) <= DESCRIPTION_CHARACTERS_MAX)
    check(name, "title", is_inert(tools[tool].get("title", "")) and "\n" not in tools[tool].get("title", ""))
    told = call.__doc__
    check(name, "docstring", is_inert(told) and told.startswith(description) and len(told) <= STUB_CHARACTERS_MAX)
    parameters = inspect.signature(call).parameters.values()
    check(name, "parameters", all(p.name.isidentifier() and is_inert(p.annotation) for p in parameters))
    [hit] = runtime.search_tool_docs_sync(f"fixture/{tool}", limit=1)
    signature = hit["signature"]
    check(name, "found", hit["tool"] == tool)
    check(name, "signature", is_inert(signature) and "\n" not in signature and signature.startswith(f"{tool}("))
    check(name, "length of the signature", len(signature) <= SIGNATURE_CHARACTERS_MAX)
for name, tool in tools.items():
    check(name, "alias", tool["alias"].isidentifier() and tool["alias"].isascii())
    if not name.startswith("attack_"):
        check(name, "call by alias", getattr(mcp_fixture, tool["alias"]).sync(self=1) == f"{name} was called")
        check(name, "call by name", runtime.call_tool_sync("fixture", name, {"self": 1}) == f"{name} was called")
check("all", f"started {started}", not started)
print(
    json.dumps(
        {"wrong": wrong, "attacks": len(docs) > 100, "odd names": sum(1 for t in tools if not t.startswith("attack_"))}
    )
)
