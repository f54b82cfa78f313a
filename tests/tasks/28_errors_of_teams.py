# task: How many errors in the logs are of services of which team?
# servers: files, memory
# prints: {'billing': 37, 'orders': 29, 'product': 24}

from collections import Counter

paths = [f"/world/files/logs/app-{n}.log" for n in range(1, 6)]
logs = runtime.call_tool_sync("files", "read_multiple_files", {"paths": paths})["content"]
errors = Counter(line.split()[2] for line in logs.splitlines() if " ERROR " in line)
teams = Counter()
for service, number in errors.items():
    node = runtime.call_tool_sync("memory", "open_nodes", {"names": [service]})["entities"][0]
    owner = next(said for said in node["observations"] if said.startswith("owned by "))
    teams[owner.removeprefix("owned by ")] += number
print(dict(sorted(teams.items())))
