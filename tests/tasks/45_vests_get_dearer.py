# task: Raise the prices of all vests by 10 percent, rounded down, and say the new ones.
# servers: shop
# prints: {'K02': 49, 'K07': 106, 'K12': 62, 'K17': 88, 'K22': 60, 'K27': 44}
# changes: prices

new, page, pages = {}, 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("shop", "list_products", {"page": page})
    for product in answer["products"]:
        if product["category"] == "vest":
            new[product["sku"]] = product["price"] * 110 // 100
    page, pages = page + 1, answer["pages"]
for sku, price in new.items():
    answer = runtime.call_tool_sync("shop", "set_price", {"sku": sku, "price": price})
    assert answer["price"] == price
print(new)
