# task: Comment, as "release", on each ticket that a commit says to fix: "fixed by part N".
# servers: git, desk
# prints: 8 ['T-108', 'T-109', 'T-117', 'T-127', 'T-130', 'T-138', 'T-141', 'T-143']
# changes: tickets

import re

log = runtime.call_tool_sync("git", "git_log", {"repo_path": "/world/repo", "max_count": 200})
fixes = re.findall(r"Message: \w+: fix (part \d+) \((T-\d+)\)", log)
for part, ticket in reversed(fixes):
    runtime.call_tool_sync("desk", "comment", {"id": ticket, "by": "release", "text": f"fixed by {part}"})
print(len(fixes), sorted({ticket for _, ticket in fixes}))
