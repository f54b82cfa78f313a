"""FastMCP's client: lists the tools, and calls the one that is there."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

BELLJAR, _, _, CALLS = sys.argv[1:]


async def main() -> None:
    async with Client(StdioTransport(command=BELLJAR, args=[])) as client:
        [tool] = await client.list_tools()
        for arguments in json.loads(CALLS):
            result = await client.call_tool(tool.name, arguments)
            print(result.content[0].text)


asyncio.run(main())
