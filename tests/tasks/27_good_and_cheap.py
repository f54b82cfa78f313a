# task: Which products cost less than 80 and have on average at least 4 stars?
# servers: web, shop
# prints: K11 70 paddle 11

import re

stars = {}
for page in range(1, 7):
    text = runtime.call_tool_sync("web", "fetch", {"url": f"http://world/reviews-{page}.html", "raw": True})
    for sku, given in re.findall(r"(K\d\d): (\d) stars", text):
        stars.setdefault(sku, []).append(int(given))
products = [p for n in (1, 2) for p in runtime.call_tool_sync("shop", "list_products", {"page": n})["products"]]
for product in products:
    given = stars.get(product["sku"], [0])
    if product["price"] < 80 and sum(given) / len(given) >= 4:
        print(product["sku"], product["price"], product["name"])
