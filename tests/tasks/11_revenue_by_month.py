# task: What is the revenue of each month, without orders that were cancelled or returned?
# servers: shop
# prints: 2026-01 11344
# prints: 2026-02 18512
# prints: 2026-03 14250
# prints: 2026-04 11795
# prints: 2026-05 13441
# prints: 2026-06 10318

from collections import defaultdict

revenue = defaultdict(int)
cursor = ""
while cursor is not None:
    answer = runtime.call_tool_sync("shop", "list_orders", {"cursor": cursor})
    for order in answer["orders"]:
        if order["status"] not in ("cancelled", "returned"):
            revenue[order["date"][:7]] += order["total"]
    cursor = answer["next_cursor"]
for month, amount in sorted(revenue.items()):
    print(month, amount)
