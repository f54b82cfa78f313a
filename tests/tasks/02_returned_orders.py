# task: How many orders were returned, and what were they worth in all?
# servers: shop
# prints: 17 18073

number = total = 0
cursor = ""
while cursor is not None:
    answer = runtime.call_tool_sync("shop", "list_orders", {"status": "returned", "cursor": cursor})
    number += len(answer["orders"])
    total += sum(order["total"] for order in answer["orders"])
    cursor = answer["next_cursor"]
print(number, total)
