"""Makes calls with the MCP inspector's CLI, which makes one call each time that it is started.

usage: inspector.py CALLS PATTERN COMMAND...
"""

import json
import os
import re
import subprocess
import sys

CALLS, PATTERN, *COMMAND = sys.argv[1:]


def main() -> None:
    command = [*COMMAND, "--header", f"Authorization: Bearer {os.environ['BELLJAR_TOKEN']}"]
    session: dict[str, str] = {}
    for arguments in json.loads(CALLS):
        words = [f"{name}={value}" for name, value in (arguments | session).items()]
        done = subprocess.run([*command, "--tool-arg", *words], check=True, stdout=subprocess.PIPE)
        text = "\n".join(part["text"] for part in json.loads(done.stdout)["content"])
        print(text)
        if named := re.search(PATTERN, text):
            session = {"session": named[1]}


main()
