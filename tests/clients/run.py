"""Has one real client call belljar's tool, with a scripted model where the client is an agent program.

usage: run.py CLIENT [accept | decline | http [PROTOCOL]]

With `accept` or `decline`, belljar's policy asks before the call of the MCP server, and the client gives this answer.
With `http`, the client reaches `belljar serve --http` with a token, and speaks this version of the protocol if it has
a choice.

The client is started in a home of its own, and everything that it and belljar send each other is recorded. The outcome
is printed as one line of JSON. BELLJAR is the binary, BELLJAR_ENGINE the socket of the container engine. CLIENTS and
SERVERS are the folders into which scripts/setup.sh has installed clients and servers.
"""

import contextlib
import fcntl
import http.client
import json
import os
import platform
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from model import NAME, NAMED, Json, Model
from recording import Recording

BELLJAR = os.environ["BELLJAR"]
CLIENTS = Path(os.environ["CLIENTS"])
SERVERS = Path(os.environ["SERVERS"])
HERE = Path(__file__).parent
MODULES = CLIENTS / "node/node_modules"
INSPECTOR = CLIENTS / "inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
# As npm names machines; the packages of agent programs that are native binaries have it in their names.
MACHINE = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}[platform.machine()]
NODE = MODULES / f"node-{MACHINE}/bin/node"
PYTHON = "python"
# Has older packages, which some need.
OLDER_PYTHON = "python-older"

PROMPT = "How far ahead of UTC is Tokyo?"
# The second call has what the first one kept.
KEEPING = """
noon = await mcp_time.convert_time(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
"""
ANSWERING = 'print("Tokyo is ahead by", noon["time_difference"])'
# Longer than the 60 s after which some clients end a call unless their configuration says otherwise.
WAITING = "import asyncio\nawait asyncio.sleep(70)\n"
POLICY = '[[rule]]\ntool = "convert_time"\ndecision = "ask"\n'
# A machine that does other things besides takes long to start a sandbox and a server.
TIMEOUT_S = 120
ANSWER = "Tokyo is ahead by +9.0h"
# Long enough for a slow machine; only a hang takes it.
PATIENCE_S = 240
ENDING_S = 120
# The end of the client's output, which shows why it failed.
SAID_CHARS = 4000
# Two kinds of errors: the tool's own, and a session that the client could not end.
WARNED = ("schema", "session termination")
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(frozen=True)
class Ends:
    """What a client is put between: the address of its model, and its MCP server as a program or an address."""

    model: str
    belljar: str
    # Which version of the protocol the client is to speak, if it has a choice.
    protocol: str = ""


@dataclass
class Start:
    """How a client is started."""

    command: list[str | Path]
    env: dict[str, str] = field(default_factory=dict)
    # Paths below the home, with what is written there before `belljar install`.
    files: dict[str, Json | str] = field(default_factory=dict)
    # The name by which `belljar install` knows the client, where it does, and options.
    install: list[str] = field(default_factory=list)
    # What a user adds by hand: it is written at the end of the file in which `belljar install` has put belljar.
    addition: str = ""
    # Whether its calls would end after 60 s if `belljar install` set no other time. The second call then takes longer.
    has_long_call: bool = False


def calls(has_long_call: bool = False) -> list[Json]:
    """The arguments of the model's calls."""
    second = WAITING + ANSWERING if has_long_call else ANSWERING
    return [{"code": code, "timeout": TIMEOUT_S} for code in (KEEPING, second)]


def claude_code(ends: Ends) -> Start:
    binary = MODULES / f"@anthropic-ai/claude-code-{MACHINE}/claude"
    return Start(
        [binary, "-p", PROMPT, "--allowedTools", "mcp__belljar__run_python", "--model", "claude-sonnet-4-5"],
        {
            "ANTHROPIC_BASE_URL": ends.model,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        install=["claude-code"],
    )


def claude_code_asking(ends: Ends, action: str) -> Start:
    """Without a terminal, Claude Code has a hook answer."""
    start = claude_code(ends)
    reply: Json = {"hookEventName": "Elicitation", "action": action}
    if action == "accept":
        reply["content"] = {"decision": "allow this call"}
    command = f"echo {shlex.quote(json.dumps({'hookSpecificOutput': reply}))}"
    hooks: Json = {"Elicitation": [{"hooks": [{"type": "command", "command": command}]}]}
    start.files[".claude/settings.json"] = {"hooks": hooks}
    return start


def codex(ends: Ends) -> Start:
    binary = MODULES / "@openai/codex/bin/codex.js"
    provider = {"name": NAME, "base_url": f"{ends.model}/v1", "wire_api": "responses", "env_key": "SCRIPTED_KEY"}
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in provider.items())
    return Start(
        [NODE, binary, "exec", "--skip-git-repo-check", PROMPT],
        {"SCRIPTED_KEY": "scripted"},
        {".codex/config.toml": f'model = "{NAME}"\nmodel_provider = "{NAME}"\n[model_providers.{NAME}]\n{settings}'},
        # Otherwise it refuses each call, since nobody is there to ask.
        install=["codex", "--approve-calls"],
    )


def codex_asking(ends: Ends, action: str) -> Start:
    """Without a terminal, Codex has an editor answer, which a script plays."""
    start = codex(ends)
    start.command = [sys.executable, HERE / "codex_app_server.py", action, PROMPT, *start.command[:2], "app-server"]
    return start


def gemini(ends: Ends) -> Start:
    binary = MODULES / "@google/gemini-cli/bundle/gemini.js"
    return Start(
        # With a model named, none is asked first which one suits the prompt.
        [NODE, binary, "--model", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", PROMPT],
        {"GOOGLE_GEMINI_BASE_URL": ends.model, "GEMINI_API_KEY": "scripted"},
        {
            ".gemini/settings.json": {
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
            }
        },
        install=["gemini"],
    )


def qwen(ends: Ends) -> Start:
    return Start(
        [NODE, MODULES / "@qwen-code/qwen-code/cli-entry.js", "-p", PROMPT, "--approval-mode", "yolo"],
        {"OPENAI_BASE_URL": f"{ends.model}/v1", "OPENAI_API_KEY": "scripted", "OPENAI_MODEL": NAME},
        {
            ".qwen/settings.json": {
                "security": {"auth": {"selectedType": "openai"}},
                # Otherwise the model has to look for the tool first.
                "tools": {"toolSearch": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
            }
        },
        install=["qwen"],
    )


def opencode_settings(ends: Ends) -> Json:
    """Of OpenCode, and of Kilo Code, which is made from it."""
    models = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{ends.model}/v1"}, "models": {NAME: {}}}
    return {
        "provider": {NAME: models},
        "autoupdate": False,
        "permission": "allow",
        "small_model": f"{NAME}/{NAME}",
    }


def opencode(ends: Ends) -> Start:
    return Start(
        [MODULES / f"opencode-{MACHINE}/bin/opencode", "run", "--model", f"{NAME}/{NAME}", PROMPT],
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {".config/opencode/opencode.json": opencode_settings(ends)},
        install=["opencode"],
    )


def copilot(ends: Ends) -> Start:
    return Start(
        [MODULES / f"@github/copilot-{MACHINE}/copilot", "-p", PROMPT, "--allow-all-tools"],
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{ends.model}/v1",
            "COPILOT_PROVIDER_API_KEY": "scripted",
            "COPILOT_MODEL": NAME,
        },
        install=["copilot"],
    )


def continue_cli(ends: Ends) -> Start:
    model: Json = {"name": NAME, "provider": "openai", "model": NAME, "apiKey": "scripted"}
    model |= {"apiBase": f"{ends.model}/v1", "roles": ["chat"], "capabilities": ["tool_use"]}
    # JSON is YAML too. `belljar install` adds nothing to a file that is one line of JSON.
    config = f"name: test\nversion: 1.0.0\nschema: v1\nmodels:\n  - {json.dumps(model)}\n"
    return Start(
        [NODE, MODULES / "@continuedev/cli/dist/cn.js", "--config", "../.continue/config.yaml", "--auto", "-p", PROMPT],
        {"CONTINUE_TELEMETRY_ENABLED": "0"},
        {".continue/config.yaml": config},
        install=["continue"],
    )


def cline(ends: Ends) -> Start:
    provider = "openai-compatible"
    settings = {"provider": provider, "apiKey": "scripted", "model": NAME, "baseUrl": f"{ends.model}/v1"}
    one = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    return Start(
        [MODULES / f"@cline/cli-{MACHINE}/bin/cline", "--provider", provider, PROMPT],
        files={
            ".cline/data/settings/providers.json": {
                "version": 1,
                "lastUsedProvider": provider,
                "modes": {},
                "providers": {provider: one},
            }
        },
        install=["cline"],
        has_long_call=True,
    )


def kilo(ends: Ends) -> Start:
    return Start(
        [MODULES / f"@kilocode/cli-{MACHINE}/bin/kilo", "run", "--model", f"{NAME}/{NAME}", PROMPT],
        {"KILO_DISABLE_MODELS_FETCH": "1", "KILO_DISABLE_AUTOUPDATE": "1"},
        {".config/kilo/kilo.json": opencode_settings(ends)},
        install=["kilo"],
    )


def vibe(ends: Ends) -> Start:
    settings = f"""
active_model = "{NAME}"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false

[[providers]]
name = "{NAME}"
api_base = "{ends.model}/v1"
api_key_env_var = "SCRIPTED_KEY"

[[models]]
name = "{NAME}"
provider = "{NAME}"
alias = "{NAME}"
"""
    return Start(
        [CLIENTS / "vibe/bin/vibe", "--auto-approve", "--trust", "-p", PROMPT],
        {"SCRIPTED_KEY": "scripted"},
        {".vibe/config.toml": settings},
        install=["vibe"],
        # It passes no variables on and knows no references, so `belljar install` says to write the values.
        addition='env = { ZONE = "UTC" }\n',
        has_long_call=True,
    )


def nanocoder(ends: Ends) -> Start:
    provider = {"name": NAME, "baseUrl": f"{ends.model}/v1", "apiKey": "scripted", "models": [NAME]}
    servers = {"belljar": {"transport": "stdio", "command": ends.belljar, "args": []}}
    return Start(
        [NODE, MODULES / "@nanocollective/nanocoder/dist/cli.js", "--trust-directory", "--mode", "yolo", "run", PROMPT],
        files={
            ".config/nanocoder/agents.config.json": {"nanocoder": {"providers": [provider]}},
            ".config/nanocoder/.mcp.json": {"mcpServers": servers},
        },
    )


def script(name: str, packages: str = PYTHON) -> Callable[[Ends], Start]:
    """An SDK, used by a script beside this one."""

    def start(ends: Ends) -> Start:
        interpreter = CLIENTS / packages / "bin/python" if name.endswith(".py") else NODE
        # Node.js looks for packages above the file that imports them.
        text = (HERE / "sdk" / name).read_text()
        return Start(
            [interpreter, f"../{name}", ends.belljar, f"{ends.model}/v1", PROMPT, json.dumps(calls())],
            {"PROTOCOL": ends.protocol},
            {name: text},
        )

    return start


def python_sdk_asking(ends: Ends, action: str) -> Start:
    start = STARTS["mcp"](ends)
    start.command.append(action)
    return start


STARTS: dict[str, Callable[[Ends], Start]] = {
    "@anthropic-ai/claude-code": claude_code,
    "@cline/cli": cline,
    "@continuedev/cli": continue_cli,
    "@github/copilot": copilot,
    "@google/gemini-cli": gemini,
    "@kilocode/cli": kilo,
    "@nanocollective/nanocoder": nanocoder,
    "@openai/codex": codex,
    "@qwen-code/qwen-code": qwen,
    "opencode": opencode,
    "@ai-sdk/mcp": script("ai_sdk.mjs"),
    "@modelcontextprotocol/client": script("typescript_2.mjs"),
    "@modelcontextprotocol/sdk": script("typescript_1.mjs"),
    "fastmcp-slim": script("fastmcp_client.py"),
    "google-adk": script("google_adk.py", OLDER_PYTHON),
    "langchain-mcp-adapters": script("langchain_agent.py", OLDER_PYTHON),
    "llama-index-tools-mcp": script("llama_index_tools.py"),
    "mcp": script("python_sdk.py"),
    "mistral-vibe": vibe,
    "openai-agents": script("openai_agents.py"),
    "pydantic-ai-slim": script("pydantic_agent.py"),
}

# Those that can be made to answer a form without a person.
ASKING: dict[str, Callable[[Ends, str], Start]] = {
    "@anthropic-ai/claude-code": claude_code_asking,
    "@openai/codex": codex_asking,
    "mcp": python_sdk_asking,
}


# The variable with the token, to which the clients' entries refer.
TOKEN = "BELLJAR_TOKEN"


def over_http(of_program: Callable[[Ends], Start]) -> Callable[[Ends], Start]:
    """The client with an entry that has the address, as `belljar install --http` writes it."""

    def start(ends: Ends) -> Start:
        start = of_program(ends)
        start.install += ["--http", ends.belljar]
        return start

    return start


def inspector_http(ends: Ends) -> Start:
    """A program for people, which makes one call each time."""
    command: list[str | Path] = [sys.executable, HERE / "inspector.py", json.dumps(calls()), NAMED.pattern]
    command += [NODE, INSPECTOR, "--cli", ends.belljar, "--transport", "http", "--protocol-era", "modern"]
    command += ["--method", "tools/call", "--tool-name", "run_python"]
    return Start(command, {"MCP_INSPECTOR_SECRET_STORE": "memory"})


HTTP: dict[str, Callable[[Ends], Start]] = {
    "@anthropic-ai/claude-code": over_http(claude_code),
    "@google/gemini-cli": over_http(gemini),
    "@modelcontextprotocol/client": script("typescript_2.mjs"),
    "@modelcontextprotocol/inspector": inspector_http,
    "@modelcontextprotocol/sdk": script("typescript_1.mjs"),
    "@openai/codex": over_http(codex),
    "fastmcp-slim": script("fastmcp_client.py"),
    "mcp": script("python_sdk.py"),
    "opencode": over_http(opencode),
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="belljar-client-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        try:
            print(json.dumps(outcome(home, *sys.argv[1:])))
        finally:
            end_processes(home)
    return 0


def end_processes(home: Path) -> None:
    """Ends what the client has left running, such as Cline's daemon. It is known by its home."""
    for process in Path("/proc").glob("[0-9]*"):
        # Another process may have ended meanwhile, or is of another user.
        with contextlib.suppress(OSError):
            if f"HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def outcome(home: Path, client: str, action: str | None = None, protocol: str = "") -> Json:
    model = Model()
    bridge = home / "bridge"
    # A server refers to this variable. `belljar install` has clients pass it on; those that it does not know may not.
    needed = {"ZONE": "UTC"}
    (home / "work").mkdir()
    (home / "node_modules").symlink_to(MODULES)
    env = {"HOME": str(home), "PATH": f"{NODE.parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"} | needed
    write_servers(bridge)
    if action == "http":
        with serving(bridge, needed) as (recording, token):
            start = HTTP[client](Ends(model.url, recording.url, protocol))
            write_files(home, start)
            if start.install:
                add_belljar(env, start)
            # It has no long call: how a client reaches belljar does not change for how long it waits.
            model.calls = calls()
            said = run(home, start, env | {TOKEN: token})
        said |= {"refused_http": sorted(set(recording.refused)), "ended": recording.ended}
    else:
        tap = bridge / "belljar"
        ends = Ends(model.url, str(tap))
        start = ASKING[client](ends, action) if action else STARTS[client](ends)
        model.calls = calls(start.has_long_call)
        write_tap(tap, {} if start.install else needed)
        if action:
            policy = bridge / ".config/belljar/policy.toml"
            policy.parent.mkdir(parents=True)
            policy.write_text(POLICY)
        write_files(home, start)
        if start.install:
            install(home, env | {"MCP_SERVERS_CONFIG": str(bridge / "mcp.json")}, start, tap)
        said = run(home, start, env)
    return (
        conversation(home, model.offered)
        | said
        | {"has_asked_model": model.result is not None, "left": what_is_left(bridge)}
    )


def run(home: Path, start: Start, env: Mapping[str, str]) -> Json:
    """Runs the client to its end."""
    try:
        ended = subprocess.run(
            start.command,
            check=False,
            env={**env, **start.env},
            cwd=home / "work",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        said, code = ended.stdout.decode(errors="replace"), ended.returncode
    except subprocess.TimeoutExpired as expired:
        said, code = (expired.stdout or b"").decode(errors="replace"), None
    text = ANSI.sub("", said)
    return {
        "exit_code": code,
        "has_answer": ANSWER in text,
        "warnings": [line for line in text.splitlines() if any(word in line.lower() for word in WARNED)],
        "said": text[-SAID_CHARS:],
    }


def write_files(home: Path, start: Start) -> None:
    for name, content in start.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def write_servers(bridge: Path) -> None:
    (bridge / "run").mkdir(parents=True, mode=0o700)
    servers = {
        "time": {"command": str(SERVERS / "python/bin/mcp-server-time"), "args": ["--local-timezone", "${ZONE}"]}
    }
    (bridge / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def bridge_env(bridge: Path) -> dict[str, str]:
    return {
        "HOME": str(bridge),
        "XDG_RUNTIME_DIR": str(bridge / "run"),
        "PATH": "/usr/bin:/bin",
        "MCP_BRIDGE_RUNTIME": os.environ["BELLJAR_ENGINE"],
        "MCP_BRIDGE_PREWARM": "0",
        "MCP_SERVERS_CONFIG": str(bridge / "mcp.json"),
    }


@contextlib.contextmanager
def serving(bridge: Path, needed: dict[str, str]) -> Iterator[tuple[Recording, str]]:
    """`belljar serve --http` behind a proxy that records, and a token for it."""
    env = bridge_env(bridge) | needed
    made = subprocess.run([BELLJAR, "token", "add", "client", "--quiet"], env=env, check=True, capture_output=True)
    with (bridge / "log.txt").open("ab") as log:
        serve = subprocess.Popen([BELLJAR, "serve", "--http", "127.0.0.1:0"], env=env, stderr=log)
    try:
        yield Recording(port_of(bridge / "log.txt", serve), bridge), made.stdout.decode().strip()
    finally:
        serve.terminate()
        serve.wait(ENDING_S)


def port_of(log: Path, serve: subprocess.Popen[bytes]) -> int:
    """The port that belljar has got, which it says once it listens."""
    until = time.monotonic() + ENDING_S
    while not (said := re.search(r"MCP is at http://127\.0\.0\.1:(\d+)/mcp", log.read_text())):
        assert serve.poll() is None and time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    return int(said[1])


def write_tap(tap: Path, given: dict[str, str]) -> None:
    """Writes a script in place of belljar that records what goes in and out.

    Without `given`, the variable that a server needs is the one that the client has passed on.
    """
    bridge = tap.parent
    words = ["env", "-i", *(f"{name}={value}" for name, value in (bridge_env(bridge) | given).items())]
    passed = "" if given else '${ZONE+"ZONE=$ZONE"}'
    command = f'{shlex.join(words)} {passed} {shlex.quote(BELLJAR)} "$@" 2>>{bridge}/log.txt'
    # A client may start belljar more than once. Each time has its own files.
    tap.write_text(f"#!/bin/sh\ntee {bridge}/$$.in.jsonl | {command} | tee {bridge}/$$.out.jsonl\n")
    tap.chmod(0o700)


def add_belljar(env: Mapping[str, str], start: Start) -> None:
    subprocess.run([BELLJAR, "install", "--client", *start.install], env=env, check=True, stdout=sys.stderr)


def install(home: Path, env: Mapping[str, str], start: Start, tap: Path) -> None:
    """Puts belljar into the client's files as a user does, and the tap in its place."""
    add_belljar(env, start)
    written = [path for path in home.rglob("*") if path.is_file() and path.suffix in (".json", ".toml", ".yaml")]
    holders = [path for path in written if BELLJAR in path.read_text()]
    assert len(holders) == 1, holders
    holders[0].write_text(holders[0].read_text().replace(BELLJAR, str(tap)) + start.addition)


def conversation(home: Path, offered: Json | None) -> Json:
    """What the client and belljar have agreed on, and what became of the tool's schema on its way to the model."""
    requests: list[Json] = []
    received: list[Json] = []
    refused: list[str] = []
    answers: list[str] = []
    for path in sorted((home / "bridge").glob("*.in.jsonl")):
        sent = lines(path)
        of_one = {message["id"]: message for message in sent if "id" in message and "method" in message}
        replies = lines(path.with_name(path.name.replace(".in.", ".out.")))
        refused += [of_one[message["id"]]["method"] for message in replies if "error" in message]
        requests += of_one.values()
        received += replies
        # Answers to requests of belljar, and those that repeated requests hold.
        given = [message.get("result") for message in sent]
        for request in of_one.values():
            given += ((request.get("params") or {}).get("inputResponses") or {}).values()
        answers += [answer["action"] for answer in given if answer and "action" in answer]
    params: list[Json] = [message.get("params") or {} for message in requests]
    # Clients with a handshake send it once, the others with each request.
    about = [*params, *(each.get("_meta", {}) for each in params)]
    names = [info["name"] for each in about for key in INFO if (info := each.get(key))]
    results = [message["result"] for message in received if "result" in message]
    agreed = [result["protocolVersion"] for result in results if "protocolVersion" in result]
    claimed = [version for each in about if (version := each.get(VERSION))]
    tools = [tool for result in results for tool in result.get("tools", [])]
    return {
        "name": names[0] if names else "",
        "protocol": (agreed or claimed)[-1] if agreed or claimed else None,
        "is_denied": any("was not called" in json.dumps(result) for result in results),
        "methods": sorted({request["method"] for request in requests}),
        "answers": answers,
        "refused": sorted(set(refused)),
        "schema": differences(tools[0]["inputSchema"], offered["schema"]) if tools and offered else None,
    }


INFO = ("clientInfo", "io.modelcontextprotocol/clientInfo")
VERSION = "io.modelcontextprotocol/protocolVersion"


def differences(ours: Json, theirs: Json) -> list[str]:
    """What the model gets of the tool's schema, against what belljar has sent."""
    told, shown = ours["properties"], theirs.get("properties", {})
    added = [f"adds `{name}`" for name in shown if name not in told]
    dropped = [f"drops `{name}`" for name in told if name not in shown]
    changed = [f"changes `{name}`" for name in told if name in shown and told[name] != shown[name]]
    rest = [
        f"changes `{key}`"
        for key in ours.keys() | theirs.keys()
        if key != "properties" and ours.get(key) != theirs.get(key)
    ]
    return added + dropped + changed + sorted(rest)


def what_is_left(bridge: Path) -> list[str]:
    """The bridge's own files, which go last: after its sandbox and its servers."""
    until = time.monotonic() + ENDING_S
    while True:
        left = [path.name for path in (bridge / "run").glob("belljar/*") if is_used(path)]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)


def is_used(path: Path) -> bool:
    """Whether a bridge still has this file, or has left a sandbox: one that is killed cannot remove its lock."""
    if path.suffix != ".lock":
        return True
    with contextlib.suppress(FileNotFoundError), path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return has_sandbox(path.stem)
    return False


def has_sandbox(owner: str) -> bool:
    """Whether the container engine has one of this bridge. Those without an engine end together with their bridge."""
    address = os.environ["BELLJAR_ENGINE"]
    if not address.startswith("unix://"):
        return False
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(address.removeprefix("unix://"))
        connection = http.client.HTTPConnection("engine")
        connection.sock = connected
        filters = json.dumps({"label": [f"belljar.owner={owner}"]})
        connection.request("GET", f"/containers/json?all=1&filters={urllib.parse.quote(filters)}")
        return bool(json.loads(connection.getresponse().read()))


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
