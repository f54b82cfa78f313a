"""The official Python SDK in its automatic mode: what it hears of files over `subscriptions/listen`, as JSON."""

import asyncio
import json
import os
import sys

from mcp.client.subscriptions import ResourceUpdated

from mcp import Client, StdioServerParameters

WATCHED = "workspace:///out/a%20b.csv"
WRITES = "import os\nos.makedirs('out', exist_ok=True)\nopen({!r}, 'w').write({!r})"
PATIENCE_S = 60


async def main() -> None:
    # The SDK passes on few variables by itself.
    async with Client(StdioServerParameters(command=sys.argv[1], env=dict(os.environ))) as client:

        async def write(name: str, text: str) -> None:
            result = await client.call_tool("run_python", {"code": WRITES.format(name, text)})
            assert not result.is_error, result

        async def heard(subscription, count: int) -> list[str]:
            async with asyncio.timeout(PATIENCE_S):
                events = [await anext(subscription) for _ in range(count)]
            return [event.uri if isinstance(event, ResourceUpdated) else type(event).__name__ for event in events]

        said: dict[str, object] = {"version": client.session.protocol_version}
        async with client.listen(resources_list_changed=True, tools_list_changed=True) as every:
            async with client.listen(resource_subscriptions=[WATCHED, "file:///etc/passwd"]) as one:
                said["honored"] = [
                    subscription.honored.model_dump(by_alias=True, exclude_none=True) for subscription in (every, one)
                ]
                # Only the other stream reports another file.
                await write("other", "x")
                said["every"] = await heard(every, 1)
                await write("out/a b.csv", "x,y")
                said["one"] = await heard(one, 1)
            # What is given up hears nothing more, and keeps nothing else from being heard.
            await write("out/a b.csv", "z")
            said["every again"] = await heard(every, 1)
        listed = await client.list_resources()
        said["listed"] = [str(one.uri) for one in listed.resources if str(one.uri).startswith("workspace:")]
        read = await client.read_resource(WATCHED)
        said["read"] = read.contents[0].text
        print(json.dumps(said))


asyncio.run(main())
