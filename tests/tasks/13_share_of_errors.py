# task: What share of each service's log lines are errors, in percent with one decimal?
# servers: files
# prints: billing 20.3
# prints: cart 21.2
# prints: mail 30.5
# prints: search 16.7
# prints: stock 23.8
# prints: web 19.7

from collections import Counter

paths = [f"/world/files/logs/app-{n}.log" for n in range(1, 6)]
text = runtime.call_tool_sync("files", "read_multiple_files", {"paths": paths})["content"]
lines, errors = Counter(), Counter()
for line in text.splitlines():
    parts = line.split()
    if len(parts) == 7:
        lines[parts[2]] += 1
        errors[parts[2]] += parts[1] == "ERROR"
for service in sorted(lines):
    print(f"{service} {100 * errors[service] / lines[service]:.1f}")
