"""An agent of Google's Agent Development Kit, whose model is the scripted one."""

import asyncio
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams

from mcp import StdioServerParameters

BELLJAR, URL, PROMPT, _ = sys.argv[1:]


async def main() -> None:
    os.environ |= {"GOOGLE_GEMINI_BASE_URL": URL, "GOOGLE_API_KEY": "scripted"}
    server = StdioServerParameters(command=BELLJAR)
    # By default it waits for an answer no longer than 5 seconds, and the first run starts the sandbox.
    tools = McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=120))
    agent = LlmAgent(name="agent", model="gemini-2.5-flash", tools=[tools])
    async with InMemoryRunner(agent=agent) as runner:
        for event in await runner.run_debug(PROMPT, quiet=True):
            if event.is_final_response():
                print(event.content.parts[0].text)


asyncio.run(main())
