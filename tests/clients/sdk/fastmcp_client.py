"""FastMCP's client: lists the tools, and calls the one that is there."""

import asyncio
import json
import os
import re
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

BELLJAR, _, _, CALLS = sys.argv[1:]


async def main() -> None:
    if BELLJAR.startswith("http"):
        transport = StreamableHttpTransport(BELLJAR, auth=os.environ["BELLJAR_TOKEN"])
    else:
        transport = StdioTransport(command=BELLJAR, args=[])
    session = {}
    async with Client(transport) as client:
        [tool] = await client.list_tools()
        for arguments in json.loads(CALLS):
            result = await client.call_tool(tool.name, arguments | session)
            text = "\n".join(part.text for part in result.content)
            print(text)
            if named := re.search(r'pass session="(\w+)"', text):
                session = {"session": named[1]}


asyncio.run(main())
