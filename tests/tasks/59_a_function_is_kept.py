# task: Keep a function that says how many pieces of each category an order has, and use it for O1010 and O1100 in a later run.
# servers: shop
# prints: O1010 {'kayak': 1, 'vest': 1}
# prints: O1100 {'kayak': 4, 'paddle': 3}


def pieces_by_category(order_id):
    "How many pieces of each category an order has."
    categories = {}
    for page in (1, 2):
        for product in runtime.call_tool_sync("shop", "list_products", {"page": page})["products"]:
            categories[product["sku"]] = product["category"]
    pieces = {}
    for item in runtime.call_tool_sync("shop", "get_order", {"id": order_id})["items"]:
        category = categories[item["sku"]]
        pieces[category] = pieces.get(category, 0) + item["quantity"]
    return dict(sorted(pieces.items()))


save_tool(pieces_by_category)
# --- a fresh interpreter
from skills import pieces_by_category

for id in ("O1010", "O1100"):
    print(id, pieces_by_category(id))
