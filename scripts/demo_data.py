#!/usr/bin/env python3
"""Work that lasts, end to end: a CSV of 200 MB in a mounted folder is read in pieces, aggregated, plotted and saved; a
session of the next day goes on from the workspace.

It checks every figure against its own sums. Nothing of the user's configuration is changed: it has one of its own, in a
temporary folder.

usage: scripts/demo_data.py [BELLJAR]        (default: target/demo/belljar)
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from demo import PNG, Client, DemoError, check, program, run, say, start

BYTES = 200_000_000
ROWS_PER_BLOCK = 20_000
REGIONS = ("north", "east", "south", "west")

AGGREGATE = """\
import pandas as pd

revenue, rows = {}, 0
columns = {"region": "category", "units": "int32", "price": "float64"}
for part in pd.read_csv("/mnt/sales/sales.csv", usecols=list(columns), dtype=columns, chunksize=500_000):
    sums = (part["units"] * part["price"]).groupby(part["region"], observed=True).sum()
    for region, total in sums.items():
        revenue[region] = revenue.get(region, 0.0) + float(total)
    rows += len(part)
print(rows, "rows")
print(pd.Series(revenue).round(2).to_json())
"""

PLOT_AND_SAVE = """\
import matplotlib.pyplot as plt

by_region = pd.Series(revenue).sort_values()
by_region.plot.barh(title="Revenue by region", figsize=(6, 3))
plt.tight_layout()
plt.savefig("/tmp/revenue.png")
print(runtime.save("/tmp/revenue.png"))
by_region.rename("revenue").to_csv("revenue.csv", index_label="region")
runtime.state["rows"] = rows
"""

NEXT_DAY = """\
import pandas as pd
from pathlib import Path

again = pd.read_csv("revenue.csv", index_col="region")["revenue"]
print(runtime.state["rows"], "rows,", again.idxmax(), "leads")
print(again.round(2).to_json())
print(Path("revenue.png").stat().st_size)
"""


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="belljar-demo-data-") as folder:
            demonstrate(program(), Path(folder))
    except DemoError as failure:
        print(f"\ndemo-data: FAILED: {failure}", file=sys.stderr)
        return 1
    print("\ndemo-data: everything came back as it should")
    return 0


def demonstrate(belljar: Path, folder: Path) -> None:
    # For a rootless engine's user as well, who is another one in tests.
    folder.chmod(0o755)
    sales = folder / "sales"
    sales.mkdir()
    revenue, rows = write(sales / "sales.csv")
    say(f"{sales / 'sales.csv'}: {(sales / 'sales.csv').stat().st_size:,} bytes, {rows:,} rows")
    config = folder / "config" / "belljar" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[[mount]]\nhost = "{sales}"\nguest = "/mnt/sales"\n')
    say(f"{config}:", config.read_text())
    settings = {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "MCP_BRIDGE_STATE_DIR": str(folder / "state"),
        "MCP_BRIDGE_WORKSPACE": "revenue",
    }
    with start(belljar, settings) as client:
        text, _ = run(client, AGGREGATE)
        compare(text, rows, revenue)
        text, images = run(client, PLOT_AND_SAVE)
        check("'/workspace/revenue.png'" in text or "/workspace/revenue.png" in text, "the chart was not saved")
        check(len(images) == 1 and images[0].startswith(PNG), "the chart was not shown")
    say("the next day: another belljar, another sandbox, the same workspace")
    with start(belljar, settings) as client:
        text, _ = run(client, NEXT_DAY)
        best = max(revenue, key=lambda region: revenue[region])
        check(text.startswith(f"{rows} rows, {best} leads"), f"{rows} rows and {best} were expected")
        compare(text, rows, revenue)
        read(client)


def read(client: Client) -> None:
    answer, _ = client.request("resources/read", {"uri": "workspace:///revenue.csv"})
    say("resources/read workspace:///revenue.csv:", answer["contents"][0]["text"])
    check(answer["contents"][0]["text"].startswith("region,revenue"), "the resource is another file")


def compare(text: str, rows: int, revenue: dict[str, float]) -> None:
    lines = text.splitlines()
    check(lines[0].startswith(f"{rows} rows"), f"{rows} rows were expected, not {lines[0]!r}")
    got = json.loads(lines[1])
    for region, total in revenue.items():
        check(abs(got.get(region, 0) - total) < 1, f"{region} has {got.get(region)}, expected was {total}")


def write(path: Path) -> tuple[dict[str, float], int]:
    """One block of rows over and over; its sums are those of all but for a factor."""
    chance = random.Random(1)
    sums: dict[str, float] = defaultdict(float)
    lines = []
    for number in range(ROWS_PER_BLOCK):
        region, units, price = chance.choice(REGIONS), chance.randint(1, 9), chance.randint(100, 9_999) / 100
        sums[region] += units * price
        lines.append(f"2026-{number % 12 + 1:02}-{number % 28 + 1:02},{region},item {number % 500},{units},{price}\n")
    block = "".join(lines).encode()
    times = -(-BYTES // len(block))
    with path.open("wb") as file:
        file.write(b"date,region,product,units,price\n")
        for _ in range(times):
            file.write(block)
    path.chmod(0o644)
    return {region: total * times for region, total in sums.items()}, ROWS_PER_BLOCK * times


if __name__ == "__main__":
    sys.exit(main())
