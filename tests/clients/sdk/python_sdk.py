"""The official Python SDK: lists the tools, and calls the one that is there."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters

BELLJAR, _, _, ARGUMENTS = sys.argv[1:]


async def main() -> None:
    async with Client(StdioServerParameters(command=BELLJAR)) as client:
        [tool] = (await client.list_tools()).tools
        result = await client.call_tool(tool.name, json.loads(ARGUMENTS))
        print(result.content[0].text)


asyncio.run(main())
