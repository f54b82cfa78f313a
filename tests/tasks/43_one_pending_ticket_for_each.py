# task: Close every pending ticket of a customer who has an earlier pending one, as merged into that one.
# servers: desk
# prints: ['T-116', 'T-121', 'T-150', 'T-151', 'T-154', 'T-164', 'T-166']
# changes: tickets

pending, page, pages = [], 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page, "state": "pending"})
    pending += answer["tickets"]
    page, pages = page + 1, answer["pages"]
first, closed = {}, []
for ticket in pending:
    earlier = first.setdefault(ticket["customer"], ticket["id"])
    if earlier != ticket["id"]:
        given = {"id": ticket["id"], "resolution": f"merged into {earlier}"}
        closed.append(runtime.call_tool_sync("desk", "close", given)["id"])
print(closed)
