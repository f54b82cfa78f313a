# task: Make a branch "mend-SERVICE" for each service whose last commit drops a part.
# servers: git
# prints: ['billing', 'search']
# changes: branches

import re

log = runtime.call_tool_sync("git", "git_log", {"repo_path": "/world/repo", "max_count": 200})
last = {}
for service, kind in re.findall(r"Message: (\w+): (\w+) part", log):
    last.setdefault(service, kind)
made = sorted(service for service, kind in last.items() if kind == "drop")
for service in made:
    given = {"repo_path": "/world/repo", "branch_name": f"mend-{service}", "base_branch": "main"}
    runtime.call_tool_sync("git", "git_create_branch", given)
print(made)
