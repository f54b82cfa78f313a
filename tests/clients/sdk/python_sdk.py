"""The official Python SDK: lists the tools, and calls the one that is there. A word more is its answer to forms."""

import asyncio
import json
import sys

from mcp.types import ElicitRequestParams, ElicitResult

from mcp import Client, StdioServerParameters

BELLJAR, _, _, CALLS, *ACTION = sys.argv[1:]


async def answer(_: object, form: ElicitRequestParams) -> ElicitResult:
    if ACTION != ["accept"]:
        return ElicitResult(action=ACTION[0])
    fields = form.requested_schema["properties"].items()
    return ElicitResult(action="accept", content={name: field["default"] for name, field in fields})


async def main() -> None:
    async with Client(
        StdioServerParameters(command=BELLJAR), elicitation_callback=answer if ACTION else None
    ) as client:
        [tool] = (await client.list_tools()).tools
        for arguments in json.loads(CALLS):
            result = await client.call_tool(tool.name, arguments)
            print(result.content[0].text)


asyncio.run(main())
