"""Has a server say its token on every path to code, and looks for it there in any spelling.

`word` is the token. What was found where, and on which paths not even its name was seen, is in `found` and `silent`.
"""

import inspect
import re

TOKEN = "@token@"
found, silent = [], []


def read(text):
    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", lambda m: chr(int(m[1], 16)) if m[1] else m[2], text)


def look(where, thing):
    text = thing if isinstance(thing, str) else repr(thing)
    if "[API_TOKEN]" not in text:
        silent.append(where)
    for _ in range(6):
        if word in text:
            found.append(where)
        text = read(text)


async def tried(awaitable):
    try:
        return await awaitable
    except Exception as error:
        return f"{error} {error!r}"


async def look_everywhere(speaking, describing):
    async def call(tool, **arguments):
        return await tried(runtime.call_tool(speaking, tool, arguments))

    async def odd(result):
        return await call("odd", result=result)

    look("text", await call("echo", text=TOKEN))
    look("structured", await odd('{"content":[],"structuredContent":{"a":["@token@"]}}'))
    look("key", await odd('{"content":[],"structuredContent":{"@token@":{"@token@":1}}}'))
    meta = await odd('{"content":[],"_meta":{"@token@":"@token@"}}')
    look("meta", "[API_TOKEN]" + repr(getattr(meta, "raw", meta)))
    look("link", await odd('{"content":[{"type":"resource_link","uri":"x://@token@","name":"@token@"}]}'))
    embedded = '{"content":[{"type":"resource","resource":{"uri":"x://@token@","text":"@token@"}}]}'
    look("embedded resource", await odd(embedded))
    look("tool error", await call("fail", message=TOKEN))
    look("error text in a result", await odd('{"content":[{"type":"text","text":"@token@"}],"isError":true}'))
    look("resources", await runtime.list_resources(speaking))
    look("templates", await runtime.list_resource_templates(speaking))
    look("resource", await runtime.read_resource("fixture://@token@/text", speaking))
    blob = await runtime.read_resource("fixture://@token@/blob", speaking)
    look("blob", repr(vars(blob)) if hasattr(blob, "__dict__") else repr(blob))
    look("prompts", await runtime.list_prompts(speaking))
    look("prompt", await runtime.get_prompt(speaking, "greet", {"who": TOKEN}))
    look("tools", await runtime.list_tools(describing))
    look("docs", await runtime.query_tool_docs(describing, detail="full"))
    look("search", await runtime.search_tool_docs("attack"))
    look("server", "[API_TOKEN]" + repr(runtime.describe_server(speaking)))
    tool = mcp_servers[describing].attack_a
    look("docstring", tool.__doc__)
    look("signature", "[API_TOKEN]" + str(inspect.signature(tool)))
    for how in ("text", "structured", "fail", "refuse"):
        answer = await tried(runtime.call_tool(describing, "attack_a", {"how": how, "[API_TOKEN]": "x"}))
        look(f"attack: {how}", answer)
