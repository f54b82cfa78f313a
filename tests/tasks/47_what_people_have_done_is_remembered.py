# task: Remember of each person how many comments they have written at the desk: "wrote N comments".
# servers: desk, memory
# prints: [22, 20, 26, 24, 27]
# changes: memory

import json
from collections import Counter

exported = runtime.call_tool_sync("desk", "export")
wrote = Counter(comment["by"] for line in exported.splitlines() for comment in json.loads(line)["comments"])
people = [a["name"] for a in runtime.call_tool_sync("desk", "list_agents")["agents"]]
added = [{"entityName": name, "contents": [f"wrote {wrote[name]} comments"]} for name in people]
runtime.call_tool_sync("memory", "add_observations", {"observations": added})
print([wrote[name] for name in people])
