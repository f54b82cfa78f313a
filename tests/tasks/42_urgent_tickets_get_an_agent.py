# task: Give each open ticket of priority urgent or high without an agent to the agents of the team orders, in turn.
# servers: desk
# prints: ['T-104', 'T-167', 'T-175']
# changes: tickets

from itertools import cycle

agents = [a["name"] for a in runtime.call_tool_sync("desk", "list_agents")["agents"] if a["team"] == "orders"]
waiting, page, pages = [], 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page, "state": "open"})
    waiting += [t["id"] for t in answer["tickets"] if t["priority"] in ("urgent", "high") and not t["agent"]]
    page, pages = page + 1, answer["pages"]
for id, agent in zip(waiting, cycle(agents)):
    runtime.call_tool_sync("desk", "assign", {"id": id, "agent": agent})
print(waiting)
