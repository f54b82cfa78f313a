# task: What tax is due for shipped orders in each country, at the rates of rates.json, in whole numbers?
# servers: shop, files
# prints: {'DE': 2076, 'FR': 1915, 'JP': 2095, 'NO': 1126, 'US': 0}

import json

rates = json.loads(runtime.call_tool_sync("files", "read_text_file", {"path": "/world/files/rates.json"})["content"])
orders, cursor = [], ""
while cursor is not None:
    page = runtime.call_tool_sync("shop", "list_orders", {"status": "shipped", "cursor": cursor})
    orders += page["orders"]
    cursor = page["next_cursor"]
country = {}
for customer in sorted({order["customer"] for order in orders}):
    country[customer] = runtime.call_tool_sync("shop", "get_customer", {"id": customer})["country"]
net = {}
for order in orders:
    net[country[order["customer"]]] = net.get(country[order["customer"]], 0) + order["total"]
print({name: net[name] * rates[name] // 100 for name in sorted(net)})
