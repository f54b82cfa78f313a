"""Plays an editor that uses Codex's app server: asks one thing, and answers the forms of MCP servers.

usage: codex_app_server.py ACTION PROMPT COMMAND...

ACTION is `accept` or `decline`. It prints what the model says.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
FORM = "mcpServer/elicitation/request"


class AppServer:
    """The program, to which messages go in lines."""

    def __init__(self, command: list[str], action: str) -> None:
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.action = action
        self.requests = 0

    def send(self, message: Json) -> None:
        assert self.program.stdin
        self.program.stdin.write(json.dumps(message) + "\n")
        self.program.stdin.flush()

    def request(self, method: str, params: Json) -> Json:
        self.requests += 1
        number = self.requests
        self.send({"id": number, "method": method, "params": params})
        response = self.until(lambda message: message.get("id") == number and "method" not in message)
        result: Json = response["result"]
        return result

    def until(self, is_wanted: Callable[[Json], bool]) -> Json:
        """Reads on up to this message, and answers what the program asks."""
        assert self.program.stdout
        for line in self.program.stdout:
            message: Json = json.loads(line)
            if is_wanted(message):
                return message
            if "id" in message and "method" in message:
                self.send({"id": message["id"], "result": self.answer(message)})
        raise EOFError("the app server has ended")

    def answer(self, request: Json) -> Json:
        if request["method"] != FORM:
            raise ValueError(f"an unexpected request: {request}")
        if self.action != "accept":
            return {"action": self.action, "content": None}
        return {"action": self.action, "content": filled(request["params"]["requestedSchema"])}


def filled(form: Json) -> Json:
    """What the form has when a person changes nothing in it."""
    return {name: field["default"] for name, field in form["properties"].items() if "default" in field}


def main() -> int:
    action, prompt, *command = sys.argv[1:]
    server = AppServer(command, action)
    server.request("initialize", {"clientInfo": {"name": "tests", "version": "1"}})
    server.send({"method": "initialized"})
    # With "never", Codex itself declines every form.
    thread = server.request("thread/start", {"approvalPolicy": "on-request"})["thread"]
    server.request("turn/start", {"threadId": thread["id"], "input": [{"type": "text", "text": prompt}]})
    said = server.until(lambda message: is_of_model(message) or message.get("method") == "turn/completed")
    print(json.dumps(said, ensure_ascii=False))
    assert server.program.stdin
    server.program.stdin.close()
    return server.program.wait()


def is_of_model(message: Json) -> bool:
    is_item = message.get("method") == "item/completed"
    return is_item and message["params"]["item"]["type"] == "agentMessage"


if __name__ == "__main__":
    sys.exit(main())
