"""Has one real client call belljar's tool, with a scripted model where the client is an agent program.

usage: run.py CLIENT

The client is started in a home of its own, and everything that it and belljar send each other is recorded. The outcome
is printed as one line of JSON. BELLJAR is the binary, BELLJAR_ENGINE the socket of the container engine. CLIENTS and
SERVERS are the folders into which scripts/setup.sh has installed clients and servers.
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from model import NAME, Json, Model

BELLJAR = os.environ["BELLJAR"]
CLIENTS = Path(os.environ["CLIENTS"])
SERVERS = Path(os.environ["SERVERS"])
HERE = Path(__file__).parent
MODULES = CLIENTS / "node/node_modules"
# As npm names machines; the packages of agent programs that are native binaries have it in their names.
MACHINE = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}[platform.machine()]
NODE = MODULES / f"node-{MACHINE}/bin/node"
PYTHON = CLIENTS / "python/bin/python"

PROMPT = "How far ahead of UTC is Tokyo?"
CODE = """
noon = await mcp_time.convert_time(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
print("Tokyo is ahead by", noon["time_difference"])
"""
# A machine that does other things besides takes long to start a sandbox and a server.
ARGUMENTS: Json = {"code": CODE, "timeout": 120}
ANSWER = "Tokyo is ahead by +9.0h"
# Long enough for a slow machine; only a hang takes it.
PATIENCE_S = 240
ENDING_S = 120
# The end of the client's output, which shows why it failed.
SAID_CHARS = 4000
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(frozen=True)
class Ends:
    """What a client is put between: the address of its model, and the program that is its MCP server."""

    model: str
    belljar: str


@dataclass
class Start:
    """How a client is started."""

    command: list[str | Path]
    env: dict[str, str] = field(default_factory=dict)
    # Paths below the home, with what is written there before `belljar install`.
    files: dict[str, Json | str] = field(default_factory=dict)
    # The name by which `belljar install` knows the client, where it does, and options.
    install: list[str] = field(default_factory=list)


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


def opencode(ends: Ends) -> Start:
    models = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{ends.model}/v1"}, "models": {NAME: {}}}
    return Start(
        [MODULES / f"opencode-{MACHINE}/bin/opencode", "run", "--model", f"{NAME}/{NAME}", PROMPT],
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {
            ".config/opencode/opencode.json": {
                "provider": {NAME: models},
                "autoupdate": False,
                "permission": "allow",
                "small_model": f"{NAME}/{NAME}",
            }
        },
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
    servers = [{"name": "belljar", "command": ends.belljar, "args": []}]
    # JSON is YAML too.
    config: Json = {"name": "test", "version": "1.0.0", "schema": "v1", "models": [model], "mcpServers": servers}
    return Start(
        [NODE, MODULES / "@continuedev/cli/dist/cn.js", "--config", "../.continue/config.yaml", "--auto", "-p", PROMPT],
        {"CONTINUE_TELEMETRY_ENABLED": "0"},
        {".continue/config.yaml": config},
    )


def script(name: str) -> Callable[[Ends], Start]:
    """An SDK, used by a script beside this one."""

    def start(ends: Ends) -> Start:
        interpreter = PYTHON if name.endswith(".py") else NODE
        # Node.js looks for packages above the file that imports them.
        text = (HERE / "sdk" / name).read_text()
        return Start(
            [interpreter, f"../{name}", ends.belljar, f"{ends.model}/v1", PROMPT, json.dumps(ARGUMENTS)],
            files={name: text},
        )

    return start


STARTS: dict[str, Callable[[Ends], Start]] = {
    "@anthropic-ai/claude-code": claude_code,
    "@continuedev/cli": continue_cli,
    "@github/copilot": copilot,
    "@google/gemini-cli": gemini,
    "@openai/codex": codex,
    "@qwen-code/qwen-code": qwen,
    "opencode": opencode,
    "@ai-sdk/mcp": script("ai_sdk.mjs"),
    "@modelcontextprotocol/client": script("typescript_2.mjs"),
    "@modelcontextprotocol/sdk": script("typescript_1.mjs"),
    "fastmcp-slim": script("fastmcp_client.py"),
    "mcp": script("python_sdk.py"),
    "openai-agents": script("openai_agents.py"),
    "pydantic-ai-slim": script("pydantic_agent.py"),
}


def main() -> int:
    # Gone with whatever the client leaves running in it.
    with tempfile.TemporaryDirectory(prefix="belljar-client-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        print(json.dumps(outcome(home, STARTS[sys.argv[1]])))
    return 0


def outcome(home: Path, made: Callable[[Ends], Start]) -> Json:
    model = Model(ARGUMENTS)
    bridge = home / "bridge"
    tap = bridge / "belljar"
    start = made(Ends(model.url, str(tap)))
    # A server refers to this variable. `belljar install` has clients pass it on; those that it does not know may not.
    needed = {"ZONE": "UTC"}
    write_tap(tap, {} if start.install else needed)
    work = home / "work"
    work.mkdir()
    (home / "node_modules").symlink_to(MODULES)
    for name, content in start.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    env = {"HOME": str(home), "PATH": f"{NODE.parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"} | needed
    if start.install:
        install(home, env | {"MCP_SERVERS_CONFIG": str(bridge / "mcp.json")}, start.install, tap)
    try:
        ended = subprocess.run(
            start.command,
            check=False,
            env=env | start.env,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        said, code = ended.stdout.decode(errors="replace"), ended.returncode
    except subprocess.TimeoutExpired as expired:
        said, code = (expired.stdout or b"").decode(errors="replace"), None
    text = ANSI.sub("", said)
    return conversation(home, model.offered) | {
        "exit_code": code,
        "has_answer": ANSWER in text,
        "has_asked_model": model.offered is not None,
        "warnings": [line for line in text.splitlines() if "schema" in line.lower()],
        "left": what_is_left(bridge),
        "said": text[-SAID_CHARS:],
    }


def write_tap(tap: Path, given: dict[str, str]) -> None:
    """Writes a script in place of belljar that records what goes in and out.

    Without `given`, the variable that a server needs is the one that the client has passed on.
    """
    bridge = tap.parent
    (bridge / "run").mkdir(parents=True, mode=0o700)
    servers = {
        "time": {"command": str(SERVERS / "python/bin/mcp-server-time"), "args": ["--local-timezone", "${ZONE}"]}
    }
    (bridge / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    env = {
        "HOME": str(bridge),
        "XDG_RUNTIME_DIR": str(bridge / "run"),
        "PATH": "/usr/bin:/bin",
        "MCP_BRIDGE_RUNTIME": os.environ["BELLJAR_ENGINE"],
        "MCP_BRIDGE_PREWARM": "0",
        "MCP_SERVERS_CONFIG": str(bridge / "mcp.json"),
    }
    words = ["env", "-i", *(f"{name}={value}" for name, value in (env | given).items())]
    passed = "" if given else '${ZONE+"ZONE=$ZONE"}'
    command = f'{shlex.join(words)} {passed} {shlex.quote(BELLJAR)} "$@" 2>>{bridge}/log.txt'
    tap.write_text(f"#!/bin/sh\ntee -a {bridge}/in.jsonl | {command} | tee -a {bridge}/out.jsonl\n")
    tap.chmod(0o700)


def install(home: Path, env: Mapping[str, str], client: list[str], tap: Path) -> None:
    """Puts belljar into the client's files as a user does, and the tap in its place."""
    subprocess.run([BELLJAR, "install", "--client", *client], env=env, check=True, stdout=sys.stderr)
    written = [path for path in home.rglob("*") if path.is_file() and path.suffix in (".json", ".toml")]
    holders = [path for path in written if BELLJAR in path.read_text()]
    assert len(holders) == 1, holders
    holders[0].write_text(holders[0].read_text().replace(BELLJAR, str(tap)))


def conversation(home: Path, offered: Json | None) -> Json:
    """What the client and belljar have agreed on, and what became of the tool's schema on its way to the model."""
    sent, received = (lines(home / "bridge" / name) for name in ("in.jsonl", "out.jsonl"))
    requests = {message["id"]: message for message in sent if "id" in message and "method" in message}
    refused = [requests[message["id"]]["method"] for message in received if "error" in message]
    params: list[Json] = [message.get("params") or {} for message in requests.values()]
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
        "methods": sorted({request["method"] for request in requests.values()}),
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
        left = [path.name for path in (bridge / "run").glob("belljar/*")]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
