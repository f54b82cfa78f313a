# task: What are the median and the longest wait for a first answer, for each priority?
# servers: desk
# prints: high 33 53
# prints: low 37 65
# prints: normal 34 70
# prints: urgent 34.5 62

import statistics

waits, page, pages = {}, 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page})
    for ticket in answer["tickets"]:
        waits.setdefault(ticket["priority"], []).append(ticket["hours"])
    page, pages = page + 1, answer["pages"]
for priority, hours in sorted(waits.items()):
    print(priority, statistics.median(hours), max(hours))
