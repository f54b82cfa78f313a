"""Turns pip's report on what it would install into a lock: each package with its version and the hash of its file.

usage: lock-packages.py REPORT HAVE; HAVE is a lock whose packages are left out, or is not there.
"""

import json
import re
import sys
from pathlib import Path


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


report, have = (Path(argument) for argument in sys.argv[1:])
lines = have.read_text().splitlines() if have.exists() else []
present = {plain(line.partition("==")[0]) for line in lines if "==" in line}
found = {}
for item in json.loads(report.read_text())["install"]:
    archive = item["download_info"].get("archive_info", {})
    sha256 = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
    name = plain(item["metadata"]["name"])
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        sys.exit(f"lock-packages: pip tells no hash of {name}")
    if name not in present:
        found[name] = f"{name}=={item['metadata']['version']} --hash=sha256:{sha256}"
for name in sorted(found):
    print(found[name])
