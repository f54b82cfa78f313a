# task: Which commits are about tickets of the priority urgent?
# servers: git, desk
# prints: T-123 mail: add part 38
# prints: T-175 mail: drop part 36
# prints: T-104 billing: drop part 30
# prints: T-130 mail: fix part 2

import re

log = runtime.call_tool_sync("git", "git_log", {"repo_path": "/world/repo", "max_count": 200})
for message, ticket in re.findall(r"Message: (.*) \((T-\d+)\)", log):
    if runtime.call_tool_sync("desk", "get_ticket", {"id": ticket})["priority"] == "urgent":
        print(ticket, message)
