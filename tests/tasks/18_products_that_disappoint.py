# task: Which products have at least two reviews and fewer than 2.5 stars on average?
# servers: web
# prints: ['K07', 'K10', 'K24']

import re

stars = {}
for page in range(1, 7):
    text = runtime.call_tool_sync("web", "fetch", {"url": f"http://world/reviews-{page}.html", "raw": True})
    for sku, given in re.findall(r"(K\d\d): (\d) stars", text):
        stars.setdefault(sku, []).append(int(given))
bad = [sku for sku, given in stars.items() if len(given) >= 2 and sum(given) / len(given) < 2.5]
print(sorted(bad))
