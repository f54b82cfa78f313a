"""An agent of OpenAI's Agents SDK, whose model is the scripted one."""

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI

BELLJAR, URL, PROMPT, _ = sys.argv[1:]


async def main() -> None:
    set_tracing_disabled(True)
    model = OpenAIResponsesModel("scripted", AsyncOpenAI(base_url=URL, api_key="scripted"))
    # By default it waits for an answer no longer than 5 seconds, and the first run starts the sandbox.
    async with MCPServerStdio({"command": BELLJAR}, client_session_timeout_seconds=120) as server:
        agent = Agent(name="agent", model=model, mcp_servers=[server])
        print((await Runner.run(agent, PROMPT)).final_output)


asyncio.run(main())
