"""An agent of LangChain, whose model is the scripted one."""

import asyncio
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI

BELLJAR, URL, PROMPT, _ = sys.argv[1:]


async def main() -> None:
    model = ChatOpenAI(model="scripted", base_url=URL, api_key="scripted")
    client = MultiServerMCPClient({"belljar": {"transport": "stdio", "command": BELLJAR, "args": []}})
    # `client.get_tools()` would start the server anew for each call, and no variable would be kept.
    async with client.session("belljar") as session:
        agent = create_agent(model, await load_mcp_tools(session))
        reply = await agent.ainvoke({"messages": [("user", PROMPT)]})
        print(reply["messages"][-1].text)


asyncio.run(main())
