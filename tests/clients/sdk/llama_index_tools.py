"""LlamaIndex: takes the tools as its agents get them, and calls the one that is there."""

import asyncio
import json
import sys

from llama_index.tools.mcp import McpToolSpec
from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters

BELLJAR, _, _, CALLS = sys.argv[1:]


async def main() -> None:
    # `BasicMCPClient` would start the server anew for each call, and no variable would be kept.
    async with stdio_client(StdioServerParameters(command=BELLJAR)) as streams, ClientSession(*streams) as session:
        await session.initialize()
        [tool] = await McpToolSpec(session).to_tool_list_async()
        for arguments in json.loads(CALLS):
            print(await tool.acall(**arguments))


asyncio.run(main())
