# task: How many commits has each month, and how many of them are fixes?
# servers: git
# prints: [('2026-03', 30, 11), ('2026-04', 10, 2)]

import re
from collections import Counter

log = runtime.call_tool_sync("git", "git_log", {"repo_path": "/world/repo", "max_count": 200})
commits, fixes = Counter(), Counter()
for month, message in re.findall(r"Date: (\d{4}-\d\d)\S* .*\nMessage: (.*)", log):
    commits[month] += 1
    fixes[month] += ": fix " in message
print([(month, commits[month], fixes[month]) for month in sorted(commits)])
