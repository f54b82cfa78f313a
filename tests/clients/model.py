"""A language model whose every answer is scripted, behind the four APIs that agent programs speak.

A request that offers `run_python` is answered with the call that comes after those whose results it holds. One that
holds the results of all calls is answered with the last of them, word for word. Any other request gets a short text:
programs also ask for titles and summaries. It does not stream in pieces: a stream has all its events at once.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
TOOL = "run_python"
# A client's own tool, which runs code that has the tools of MCP servers as functions.
CODE_TOOL = "run_typescript"
CODE = "async function main() {{ return await tools.mcp_belljar.{tool}({arguments}); }}"
NAME = "scripted"
# What a reply says in which session the next call goes on, where the protocol has none. It may stand there as JSON.
NAMED = re.compile(r'pass session=\\*"(\w+)')
# The names of a tool's schema in the API of Gemini.
GEMINI_SCHEMA = ("parametersJsonSchema", "parameters_json_schema", "parameters")


class Model:
    """The server, which listens on the loopback interface until the process ends."""

    def __init__(self) -> None:
        # The arguments of its calls, one after the other.
        self.calls: list[Json] = []
        # The tool as the first request that offered it had it: name and schema.
        self.offered: Json | None = None
        # The last result of the tool.
        self.result: str | None = None
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send(*model.reply(self.path, json.loads(body or b"{}")))

            def do_GET(self) -> None:
                one = {"id": NAME, "slug": NAME, "object": "model", "created": 0, "owned_by": "tests"}
                self.send("application/json", json.dumps({"object": "list", "data": [one], "models": []}))

            def do_HEAD(self) -> None:
                self.send("text/plain", "")

            def send(self, kind: str, text: str) -> None:
                body = text.encode()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def reply(self, path: str, request: Json) -> tuple[str, str]:
        """The content type and the body of the response."""
        route = path.partition("?")[0]
        if route.endswith("count_tokens"):
            return "application/json", json.dumps({"input_tokens": 1})
        if route.endswith("/messages"):
            return self.anthropic(request)
        if route.endswith("/chat/completions"):
            return self.chat(request)
        if route.endswith("/responses"):
            return self.responses(request)
        if route.endswith(("generateContent", "streamGenerateContent")):
            return self.gemini(request, is_stream="streamGenerateContent" in route)
        return "application/json", "{}"

    def turn(self, tools: list[Json], results: list[Any]) -> tuple[Json | None, str]:
        """The tool to call now with its arguments and the call's id, or None with the text to say."""
        direct = next((tool for tool in tools if tool["name"].endswith(TOOL)), None)
        tool = direct or next((tool for tool in tools if tool["name"] == CODE_TOOL), None)
        if tool is None:
            return None, "Fine."
        self.offered = self.offered or direct
        made = len(results)
        if made < len(self.calls):
            named = NAMED.search(written(results[-1])) if results else None
            arguments = self.calls[made] | ({"session": named[1]} if named else {})
            if not direct:
                arguments = {"code": CODE.format(tool=TOOL, arguments=json.dumps(arguments))}
            return tool | {"arguments": arguments, "id": f"call_{made + 1}"}, ""
        self.result = written(results[-1])
        return None, f"The tool answered: {self.result}"

    def anthropic(self, request: Json) -> tuple[str, str]:
        parts = [part for message in request["messages"] for part in blocks(message["content"])]
        results = [part["content"] for part in parts if part.get("type") == "tool_result"]
        tools = [{"name": tool["name"], "schema": tool.get("input_schema")} for tool in request.get("tools", [])]
        tool, text = self.turn(tools, results)
        message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"]}
        message |= {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if tool:
            block = {"type": "tool_use", "id": tool["id"], "name": tool["name"]}
            whole, stop = block | {"input": tool["arguments"]}, "tool_use"
            start, delta = (
                block | {"input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(tool["arguments"])},
            )
        else:
            whole, stop = {"type": "text", "text": text}, "end_turn"
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        if not request.get("stream"):
            return "application/json", json.dumps(message | {"content": [whole], "stop_reason": stop})
        return named_events(
            [
                {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": start},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": stop, "stop_sequence": None},
                    "usage": {"output_tokens": 1},
                },
                {"type": "message_stop"},
            ]
        )

    def chat(self, request: Json) -> tuple[str, str]:
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        functions = [tool["function"] for tool in request.get("tools") or []]
        tools = [{"name": tool["name"], "schema": tool.get("parameters")} for tool in functions]
        tool, text = self.turn(tools, results)
        message: Json = {"role": "assistant", "content": text or None}
        if tool:
            call = {"name": tool["name"], "arguments": json.dumps(tool["arguments"])}
            message["tool_calls"] = [{"index": 0, "id": tool["id"], "type": "function", "function": call}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        head: Json = {"id": "chatcmpl-1", "created": 0, "model": NAME}
        stop = "tool_calls" if tool else "stop"
        if not request.get("stream"):
            choice: Json = {"index": 0, "message": message, "finish_reason": stop}
            body = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
            return "application/json", json.dumps(body)
        deltas: list[tuple[Json, str | None]] = [(message, None), ({}, stop)]
        chunks = [
            head
            | {
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
            for delta, finish in deltas
        ]
        # A program may take a chunk with figures for one that holds nothing else.
        chunks[-1]["usage"] = usage
        return "text/event-stream", "".join(f"data: {line}\n\n" for line in [*map(json.dumps, chunks), "[DONE]"])

    def responses(self, request: Json) -> tuple[str, str]:
        items = blocks(request["input"])
        results = [item["output"] for item in items if item.get("type") == "function_call_output"]
        # Tools of one server may stand together in a namespace.
        tools = [
            {"name": tool["name"], "schema": tool.get("parameters"), "namespace": group.get("name")}
            for group in request.get("tools") or []
            for tool in group.get("tools", [group])
            if "name" in tool
        ]
        tool, text = self.turn(tools, results)
        item: Json
        if tool:
            item = {"type": "function_call", "id": f"fc_{tool['id']}", "call_id": tool["id"], "name": tool["name"]}
            item |= {"arguments": json.dumps(tool["arguments"]), "status": "completed"}
            if tool["namespace"] not in (None, tool["name"]):
                item["namespace"] = tool["namespace"]
        else:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
            item["content"] = content
        usage: Json = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response: Json = {"id": "resp_1", "object": "response", "created_at": 0, "model": NAME, "tools": []}
        response |= {"parallel_tool_calls": False, "tool_choice": "auto", "status": "completed"}
        response |= {"output": [item], "usage": usage}
        if not request.get("stream"):
            return "application/json", json.dumps(response)
        begun = response | {"status": "in_progress", "output": [], "usage": None}
        return named_events(
            [
                {"type": "response.created", "response": begun, "sequence_number": 0},
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": item,
                    "sequence_number": 1,
                },
                {"type": "response.output_item.done", "output_index": 0, "item": item, "sequence_number": 2},
                {"type": "response.completed", "response": response, "sequence_number": 3},
            ]
        )

    def gemini(self, request: Json, is_stream: bool) -> tuple[str, str]:
        parts = [part for content in request["contents"] for part in content.get("parts", [])]
        results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        tools = [
            {"name": tool["name"], "schema": next((tool[key] for key in GEMINI_SCHEMA if key in tool), None)}
            for group in request.get("tools") or []
            for tool in group.get("functionDeclarations", [])
        ]
        tool, text = self.turn(tools, results)
        part: Json = {"text": text}
        if tool:
            part = {"functionCall": {"id": tool["id"], "name": tool["name"], "args": tool["arguments"]}}
        response = {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
            "modelVersion": NAME,
        }
        if is_stream:
            return "text/event-stream", f"data: {json.dumps(response)}\n\n"
        return "application/json", json.dumps(response)


def blocks(content: Any) -> list[Json]:
    return [] if isinstance(content, str) else list(content)


def written(result: Any) -> str:
    """A tool's result as text: some APIs have it as a list of parts, some as an object."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return "\n".join(part.get("text", "") for part in result)
    return json.dumps(result, ensure_ascii=False)


def named_events(events: list[Json]) -> tuple[str, str]:
    return "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
