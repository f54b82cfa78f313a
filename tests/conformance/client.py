"""The client that the official conformance suite drives: belljar with one remote server, used by code in a sandbox.

The suite starts a server for each scenario and appends its address to this command. The scenario's name and what it
gives the client stand in MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT. BELLJAR is the binary, and
BELLJAR_ENGINE the socket of the container engine. SLOTS is a folder: the suite starts all scenarios at once, and only a
few of them have a sandbox at a time.
"""

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
BINARY = os.environ["BELLJAR"]
# How many scenarios have a sandbox at a time.
SLOTS_MAX = 4
# How often a login that belljar asks for is made.
LOGINS_MAX = 3
# The document by which a client is known to authorization servers that take one; the suite expects this address.
CLIENT_ID_DOCUMENT = "https://conformance-test.local/client-metadata.json"

# What a model would write: it calls every tool, with arguments after its schema, or those that the scenario names.
CODE = """
import json

context = json.loads({context!r})


def value(schema, name=""):
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kinds = schema.get("type", "string")
    match kinds if isinstance(kinds, str) else kinds[0]:
        case "integer" | "number":
            return 3
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return required(schema)
    return "test"


def required(schema):
    properties = schema.get("properties", {{}})
    return {{name: value(properties[name], name) for name in schema.get("required", []) if name in properties}}


tools = {{tool["name"]: tool for tool in await mcp_server.list_tools()}}
calls = context.get("toolCalls") or [
    {{"name": name, "arguments": required(tool["inputSchema"])}} for name, tool in tools.items()
]
for call in calls:
    if call["name"] == "json_schema_echo":
        call["arguments"]["schema"] = tools["json_schema_2020_12_tool"]["inputSchema"]
    try:
        print(call["name"], await getattr(mcp_server, call["name"].replace("-", "_"))(**call["arguments"]))
    except Exception as error:
        print(call["name"], type(error).__name__, error)
"""


def main() -> int:
    with slot(Path(os.environ["SLOTS"])), tempfile.TemporaryDirectory() as home:
        config = Path(home, "mcp.json")
        entry = {"url": sys.argv[-1]} | service_login(Path(home))
        config.write_text(json.dumps({"mcpServers": {"server": entry}}))
        variables = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        variables |= {
            "HOME": home,
            "MCP_BRIDGE_RUNTIME": os.environ["BELLJAR_ENGINE"],
            "MCP_BRIDGE_PREWARM": "0",
            "MCP_SERVERS_CONFIG": str(config),
            "CLIENT_SECRET": CONTEXT.get("client_secret", ""),
            "PRIVATE_KEY": CONTEXT.get("private_key_pem", ""),
            "ID_TOKEN": CONTEXT.get("idp_id_token", ""),
        }
        for _ in range(LOGINS_MAX):
            said = run(variables)
            log(said)
            wanted = re.search(r"belljar login server(?: --scope ([^\n`]*))?", said)
            if wanted is None:
                return 0
            scope = [] if wanted[1] is None else ["--scope", wanted[1].strip("'\"")]
            if login(variables, scope) != 0:
                return 1
        return 0


@contextlib.contextmanager
def slot(folder: Path) -> Iterator[None]:
    """Waits until fewer than SLOTS_MAX others are at work."""
    with contextlib.ExitStack() as files:
        slots = [files.enter_context(open(folder / str(number), "w")) for number in range(SLOTS_MAX)]
        while not any(is_taken(slot.fileno()) for slot in slots):
            time.sleep(0.05)
        yield


def is_taken(slot: int) -> bool:
    try:
        fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def service_login(home: Path) -> dict[str, object]:
    """What the entry says where the scenario has no user."""
    match SCENARIO:
        case "auth/client-credentials-basic":
            login = {"type": "client_credentials", "client_secret": "${CLIENT_SECRET}"}
        case "auth/client-credentials-jwt":
            login = {"type": "client_credentials", "private_key": "${PRIVATE_KEY}"}
        case "auth/wif-jwt-bearer":
            assertion = home / "assertion"
            assertion.write_text(CONTEXT["valid_jwt"])
            login = {"type": "workload_identity", "assertion_file": str(assertion)}
        case "auth/enterprise-managed-authorization":
            provider = {"issuer": CONTEXT["idp_issuer"], "client_id": CONTEXT["idp_client_id"]}
            login = {
                "type": "enterprise",
                "client_secret": "${CLIENT_SECRET}",
                "id_token": "${ID_TOKEN}",
                "idp": provider,
            }
        case _:
            return {}
    return {"login": login | {"client_id": CONTEXT["client_id"]}}


def run(variables: dict[str, str]) -> str:
    """The reply to one run, of a client that fills in every form."""
    process = subprocess.Popen([BINARY], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None

    def send(message: dict[str, object]) -> None:
        assert process.stdin is not None
        print(json.dumps({"jsonrpc": "2.0"} | message), file=process.stdin, flush=True)

    capabilities = {"elicitation": {"form": {}}, "sampling": {}}
    about = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "conformance", "version": "1"}}
    send({"id": 0, "method": "initialize", "params": about | {"capabilities": capabilities}})
    code = CODE.format(context=json.dumps(CONTEXT))
    text = ""
    for line in process.stdout:
        message = json.loads(line)
        match message.get("method"), message.get("id"):
            case None, 0:
                send({"method": "notifications/initialized"})
                call = {"name": "run_python", "arguments": {"code": code}}
                send({"id": 1, "method": "tools/call", "params": call})
            case None, 1:
                text = "\n".join(part.get("text", "") for part in message["result"]["content"])
                break
            case "elicitation/create", number:
                form = message["params"].get("requestedSchema", {}).get("properties", {})
                content = {name: filled(schema) for name, schema in form.items()}
                send({"id": number, "result": {"action": "accept", "content": content}})
            case _:
                pass
    process.stdin.close()
    process.wait()
    return text


def filled(schema: dict[str, object]) -> object:
    """What the human puts into one place of a form."""
    examples = {"boolean": True, "integer": 3, "number": 3, "array": []}
    return schema.get("default", examples.get(str(schema.get("type")), "test"))


def login(variables: dict[str, str], more: list[str]) -> int:
    """Follows the address that `belljar login` prints, as the user's browser would."""
    if SCENARIO == "auth/basic-cimd":
        more = [*more, "--client-id", CLIENT_ID_DOCUMENT]
    if "client_id" in CONTEXT:
        more = [*more, "--client-id", CONTEXT["client_id"], "--client-secret-env", "CLIENT_SECRET"]
    command = [BINARY, "login", "server", "--no-browser", *more]
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        log(line.rstrip())
        if address := re.match(r"\s+(https?://\S+)", line):
            threading.Thread(target=visit, args=(address[1],), daemon=True).start()
    return process.wait()


def visit(address: str) -> None:
    try:
        urllib.request.urlopen(address, timeout=10).read()
    except OSError as error:
        log(f"the browser got {error}")


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
