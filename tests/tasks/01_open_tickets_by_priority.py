# task: How many open tickets has the desk of each priority?
# servers: desk
# prints: {'high': 2, 'low': 7, 'normal': 17, 'urgent': 7}

counts = {}
page = 1
while True:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"state": "open", "page": page})
    for ticket in answer["tickets"]:
        counts[ticket["priority"]] = counts.get(ticket["priority"], 0) + 1
    if page >= answer["pages"]:
        break
    page += 1
print(dict(sorted(counts.items())))
