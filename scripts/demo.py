#!/usr/bin/env python3
"""The main job, end to end: an MCP client session over stdio with belljar, in which Python in a container reads a CSV
through a real MCP server, groups it with pandas, and draws a chart.

It checks every figure that comes back against its own reading of the file. Nothing of the user's configuration is
changed: the servers stand in a file of their own, in a temporary folder.

usage: scripts/demo.py [BELLJAR]        (default: target/demo/belljar)
"""

from __future__ import annotations

import base64
import csv
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
SALES = REPOSITORY / "tests" / "fixtures" / "demo" / "sales.csv"
ANSWER_S = 120.0
PNG = b"\x89PNG\r\n\x1a\n"

FIND = """\
print(runtime.search_tool_docs_sync("what a text file says", limit=3))
"""

WRONG = """\
print("about to read")
answer = await mcp_demo_files.read_text_file(file={path!r}, head="2")
"""

READ_AND_DRAW = """\
import io
import pandas as pd
import matplotlib.pyplot as plt

answer = await mcp_demo_files.read_text_file(path={path!r})
sales = pd.read_csv(io.StringIO(answer["content"]), parse_dates=["date"])
sales["revenue"] = sales["units"] * sales["price"]
by_region = sales.groupby("region")["revenue"].sum()

by_region.plot.barh(title="Revenue by region", figsize=(6, 3))
plt.tight_layout()
print(len(sales), "rows")
print(by_region.to_json(double_precision=2))
"""

STILL_THERE = """\
best = sales.groupby("product")["revenue"].sum().idxmax()
print(by_region.idxmax(), best)
"""

TWO_SERVERS = """\
import asyncio

zones = ["UTC", "Asia/Tokyo", "America/New_York"]
*clocks, folder = await asyncio.gather(
    *(mcp_demo_time.convert_time(source_timezone="UTC", time="12:00", target_timezone=zone) for zone in zones),
    mcp_demo_files.list_directory(path={folder!r}),
)
for zone, clock in zip(zones, clocks):
    print(zone, clock["target"]["datetime"][11:16])
print(folder["content"])
"""


class DemoError(Exception):
    """What is wrong, for the person who runs the demonstration."""


def main() -> int:
    try:
        # The chart outlives the rest, for whoever wants to look at it, until the next one takes its place.
        TARGET.mkdir(parents=True, exist_ok=True)
        chart = TARGET / "demo-revenue.png"
        with tempfile.TemporaryDirectory(prefix="belljar-demo-") as folder:
            demonstrate(program(), Path(folder), chart)
    except DemoError as failure:
        print(f"\ndemo: FAILED: {failure}", file=sys.stderr)
        return 1
    print("\ndemo: everything came back as it should")
    return 0


def program() -> Path:
    """belljar, as the command line names it."""
    default = TARGET / "demo" / "belljar"
    belljar = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if not belljar.is_file():
        raise DemoError(f"{belljar} is missing; build it with: cargo build --release")
    return belljar.resolve()


def demonstrate(belljar: Path, folder: Path, chart: Path) -> None:
    data = folder / "data"
    data.mkdir()
    shutil.copy(SALES, data / "sales.csv")
    config = folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers(data)}, indent=2))
    say(f"servers, in {config}:", config.read_text())

    settings = {"MCP_SERVERS_CONFIG": str(config), "MCP_BRIDGE_STATE_DIR": str(folder / "state")}
    with start(belljar, settings) as client:
        session(client, data, chart)


@contextmanager
def start(belljar: Path, settings: dict[str, str]) -> Iterator[Client]:
    """A client with its session, to the end of both."""
    client = Client(belljar, settings)
    try:
        initialize(client)
        yield client
    except BaseException:
        client.close()
        raise
    began = time.perf_counter()
    code = client.close()
    say(f"the client hung up; belljar ended with {code} after {millis(began)}")
    check(code == 0, f"belljar ended with {code}")


def initialize(client: Client) -> None:
    answer, took = client.request(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}},
    )
    client.notify("notifications/initialized")
    say(f"initialize ({took}): {answer['serverInfo']['name']} {answer['serverInfo']['version']}")


def session(client: Client, data: Path, chart: Path) -> None:
    revenue_by_region, best_product, rows = expected()
    listed, took = client.request("tools/list", {})
    say(f"tools/list ({took}):", listed["tools"][0]["description"])

    text, _ = run(client, FIND)
    patience = time.monotonic() + ANSWER_S
    while "not searched yet" in text and time.monotonic() < patience:
        time.sleep(1)  # as a model takes to ask again: no server was ever asked for its tools
        text, _ = run(client, FIND)
    check("mcp_demo_files.read_text_file(*, path: str" in text, "the tool that reads files was not found")
    text, _ = run(client, WRONG.format(path=str(data / "sales.csv")), succeeds=False)
    is_refused = "unknown parameter 'file'" in text and "about to read" not in text.splitlines()
    check(is_refused, "the wrong call was not refused before the run began")

    text, images = run(client, READ_AND_DRAW.format(path=str(data / "sales.csv")))
    lines = text.splitlines()
    check(lines[0] == f"{rows} rows", f"{rows} rows were expected, not {lines[0]!r}")
    got = json.loads(lines[1])
    for region, revenue in revenue_by_region.items():
        check(abs(got.get(region, 0) - revenue) < 0.01, f"{region} has {got.get(region)}, expected was {revenue}")
    check(len(images) == 1, f"one chart was expected, {len(images)} came")
    chart.write_bytes(images[0])
    check(images[0].startswith(PNG), "the chart is no PNG")
    say(f"the chart, {len(images[0]):,} bytes, is in {chart}")

    text, _ = run(client, STILL_THERE)
    best_region = max(revenue_by_region, key=lambda region: revenue_by_region[region])
    check(text.split() == [best_region, best_product], f"expected was: {best_region} {best_product}")

    text, _ = run(client, TWO_SERVERS.format(folder=str(data)))
    expected_text = ["UTC 12:00", "Asia/Tokyo 21:00"]
    check(text.splitlines()[:2] == expected_text, f"expected was: {expected_text}")
    check("[FILE] sales.csv" in text, "the folder's listing is missing")


def servers(data: Path) -> dict[str, Any]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "belljar"
    cache = Path(os.environ.get("BELLJAR_CACHE") or cache) / "servers"
    files = cache / "node" / "node_modules" / ".bin" / "mcp-server-filesystem"
    clock = cache / "python" / "bin" / "mcp-server-time"
    for command in (files, clock):
        if not command.exists():
            raise DemoError(f"{command} is missing; install it with: scripts/setup.sh demo")
    return {
        "demo-files": {"command": str(files), "args": [str(data)], "description": "the folder with sales.csv"},
        "demo-time": {"command": str(clock), "args": ["--local-timezone", "UTC"], "description": "time zones"},
    }


def expected() -> tuple[dict[str, float], str, int]:
    """The same figures without belljar and pandas."""
    by_region: dict[str, float] = defaultdict(float)
    by_product: dict[str, float] = defaultdict(float)
    rows = 0
    with SALES.open(newline="") as file:
        for row in csv.DictReader(file):
            revenue = int(row["units"]) * float(row["price"])
            by_region[row["region"]] += revenue
            by_product[row["product"]] += revenue
            rows += 1
    return dict(by_region), max(by_product, key=lambda product: by_product[product]), rows


def run(client: Client, code: str, succeeds: bool = True) -> tuple[str, list[bytes]]:
    say("run_python:", code)
    result, took = client.request("tools/call", {"name": "run_python", "arguments": {"code": code, "timeout": 60}})
    text = "".join(block["text"] for block in result["content"] if block["type"] == "text")
    images = [base64.b64decode(block["data"]) for block in result["content"] if block["type"] == "image"]
    say(f"reply ({took}):", text)
    if bool(result.get("isError")) == succeeds:
        raise DemoError(f"the run {'did not succeed' if succeeds else 'succeeded'}; its reply is above")
    return text, images


class Client:
    """The least that is an MCP client."""

    def __init__(self, belljar: Path, settings: dict[str, str]) -> None:
        environment = {**os.environ, **settings}
        environment.setdefault("MCP_BRIDGE_LOG_LEVEL", "WARNING")
        for variable in ("MCP_BRIDGE_OUTPUT_MODE", "MCP_BRIDGE_STRUCTURED", "MCP_BRIDGE_PREWARM"):
            environment.pop(variable, None)
        self._process = subprocess.Popen(
            [str(belljar)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._last = 0
        threading.Thread(target=self._read, daemon=True).start()

    def request(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], str]:
        self._last += 1
        began = time.perf_counter()
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        while True:
            try:
                line = self._lines.get(timeout=ANSWER_S)
            except queue.Empty:
                raise DemoError(f"{method} was not answered within {ANSWER_S:.0f} s") from None
            if not line:
                raise DemoError(f"belljar ended before it answered {method}; its last words are on stderr")
            message = json.loads(line)
            if message.get("id") != self._last:
                continue
            if "error" in message:
                raise DemoError(f"{method}: {message['error']}")
            result: dict[str, Any] = message["result"]
            return result, millis(began)

    def notify(self, method: str) -> None:
        self._send({"jsonrpc": "2.0", "method": method})

    def close(self) -> int:
        """Hangs up, as clients do, and waits for the end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise DemoError("belljar was still there 10 s after its client had gone") from None

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise DemoError("belljar has ended; its last words are on stderr") from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


def check(holds: bool, wrong: str) -> None:
    if not holds:
        raise DemoError(wrong)


def millis(began: float) -> str:
    return f"{(time.perf_counter() - began) * 1000:,.1f} ms"


def say(title: str, text: str = "") -> None:
    print(f"\n--- {title}", flush=True)
    for line in text.splitlines():
        print(f"    {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
