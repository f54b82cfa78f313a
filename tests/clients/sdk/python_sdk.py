"""The official Python SDK: lists the tools, and calls the one that is there. A word more is its answer to forms."""

import asyncio
import json
import os
import re
import sys

import mcp.client.session
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from mcp import Client, StdioServerParameters

BELLJAR, _, _, CALLS, *ACTION = sys.argv[1:]


async def answer(_: object, form: ElicitRequestParams) -> ElicitResult:
    if ACTION != ["accept"]:
        return ElicitResult(action=ACTION[0])
    fields = form.requested_schema["properties"].items()
    return ElicitResult(action="accept", content={name: field["default"] for name, field in fields})


async def main() -> None:
    if not BELLJAR.startswith("http"):
        await use(Client(StdioServerParameters(command=BELLJAR), elicitation_callback=answer if ACTION else None))
        return
    protocol = os.environ["PROTOCOL"] or "auto"
    mode = protocol
    if protocol in mcp.client.session.HANDSHAKE_PROTOCOL_VERSIONS:
        # The SDK always offers the latest version with a handshake, and speaks each one that the server may answer.
        mcp.client.session.LATEST_HANDSHAKE_VERSION = protocol
        mode = "legacy"
    headers = {"Authorization": f"Bearer {os.environ['BELLJAR_TOKEN']}"}
    async with create_mcp_http_client(headers=headers) as http_client:
        await use(Client(streamable_http_client(BELLJAR, http_client=http_client), mode=mode))


async def use(connected: Client) -> None:
    session = {}
    async with connected as client:
        [tool] = (await client.list_tools()).tools
        for arguments in json.loads(CALLS):
            result = await client.call_tool(tool.name, arguments | session)
            text = "\n".join(part.text for part in result.content)
            print(text)
            if named := re.search(r'pass session="(\w+)"', text):
                session = {"session": named[1]}


asyncio.run(main())
