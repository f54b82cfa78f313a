# task: Which services are down, and who works in the teams that own them?
# servers: web, memory
# prints: mail billing ['cy', 'dee']
# prints: search product ['eli']

import json

page = runtime.call_tool_sync("web", "fetch", {"url": "http://world/status.json", "raw": True})
states = json.loads(page[page.index("{") :])
graph = runtime.call_tool_sync("memory", "read_graph")
about = {entity["name"]: entity["observations"] for entity in graph["entities"]}
for service in sorted(name for name, state in states.items() if state == "down"):
    team = next(said.removeprefix("owned by ") for said in about[service] if said.startswith("owned by "))
    print(service, team, sorted(name for name, said in about.items() if f"works in {team}" in said))
