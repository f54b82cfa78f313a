# task: Fetch all tickets, and then, in a second run, say which three customers have the most.
# servers: desk
# prints: [('C12', 6), ('C13', 6), ('C15', 6)]

tickets, page, pages = [], 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page})
    tickets += answer["tickets"]
    page, pages = page + 1, answer["pages"]
len(tickets)
# --- the next run
from collections import Counter

print(sorted(Counter(t["customer"] for t in tickets).items(), key=lambda pair: (-pair[1], pair[0]))[:3])
