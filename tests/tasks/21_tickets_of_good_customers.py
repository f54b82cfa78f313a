# task: Which tickets of high or urgent priority that are not closed come from customers of the tier pro?
# servers: desk, shop
# prints: ['T-145']

waiting, page, pages = [], 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page})
    waiting += [t for t in answer["tickets"] if t["priority"] in ("high", "urgent") and t["state"] != "closed"]
    page, pages = page + 1, answer["pages"]
tiers = {}
for customer in {ticket["customer"] for ticket in waiting}:
    tiers[customer] = runtime.call_tool_sync("shop", "get_customer", {"id": customer})["tier"]
print([ticket["id"] for ticket in waiting if tiers[ticket["customer"]] == "pro"])
