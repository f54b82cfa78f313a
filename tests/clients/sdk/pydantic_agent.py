"""An agent of Pydantic AI, whose model is the scripted one."""

import asyncio
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

BELLJAR, URL, PROMPT, _ = sys.argv[1:]


async def main() -> None:
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=URL, api_key="scripted"))
    tools = MCPToolset(StdioTransport(command=BELLJAR, args=[]))
    async with Agent(model, toolsets=[tools]) as agent:
        print((await agent.run(PROMPT)).output)


asyncio.run(main())
