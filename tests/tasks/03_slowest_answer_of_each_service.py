# task: What was the slowest answer of each service, in all logs?
# servers: files
# prints: billing 901
# prints: cart 853
# prints: mail 902
# prints: search 894
# prints: stock 888
# prints: web 884

import re

slowest = {}
listed = runtime.call_tool_sync("files", "list_directory", {"path": "/world/files/logs"})
for name in re.findall(r"\[FILE\] (\S+)", listed["content"]):
    text = runtime.call_tool_sync("files", "read_text_file", {"path": f"/world/files/logs/{name}"})["content"]
    for line in text.splitlines():
        _, _, service, *_, ms, _ = line.split()
        slowest[service] = max(slowest.get(service, 0), int(ms))
for service in sorted(slowest):
    print(service, slowest[service])
