# task: Who has made how many commits?
# servers: git
# prints: [('Ann Berg', 12), ('Bo Lind', 10), ('Cy Rao', 9), ('Dee Otieno', 9)]

from collections import Counter

log = runtime.call_tool_sync("git", "git_log", {"repo_path": "/world/repo", "max_count": 200})
authors = Counter(line.removeprefix("Author: ") for line in log.splitlines() if line.startswith("Author: "))
print(authors.most_common())
