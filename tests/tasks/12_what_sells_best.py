# task: Which five products were shipped most often? Ties go by number.
# servers: shop
# prints: [('K16', 23), ('K27', 18), ('K02', 17), ('K21', 17), ('K15', 15)]

from collections import Counter

ids, cursor = [], ""
while cursor is not None:
    answer = runtime.call_tool_sync("shop", "list_orders", {"status": "shipped", "cursor": cursor})
    ids += [order["id"] for order in answer["orders"]]
    cursor = answer["next_cursor"]
sold = Counter()
for id in ids:
    for item in runtime.call_tool_sync("shop", "get_order", {"id": id})["items"]:
        sold[item["sku"]] += item["quantity"]
print(sorted(sold.items(), key=lambda pair: (-pair[1], pair[0]))[:5])
