# task: In how many tickets does anybody speak of a strap, and which ticket is the longest?
# servers: desk
# prints: 9
# prints: T-163

import json

text = runtime.call_tool_sync("desk", "export")
tickets = [json.loads(line) for line in text.splitlines()]
said = {ticket["id"]: ticket["body"] + "".join(c["text"] for c in ticket["comments"]) for ticket in tickets}
print(sum("strap" in words for words in said.values()))
print(max(said, key=lambda id: len(said[id])))
