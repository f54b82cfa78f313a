# task: Find out how to give money back, and give 5 back for the cheapest order that was returned, as "scratched".
# servers: shop
# prints: refund O1034
# changes: refunds

hits = runtime.search_tool_docs_sync("give a customer money back for an order", limit=5)
tool = next(hit for hit in hits if hit["server"] == "shop" and "refund" in hit["tool"])["tool"]
returned, cursor = [], ""
while cursor is not None:
    answer = runtime.call_tool_sync("shop", "list_orders", {"status": "returned", "cursor": cursor})
    returned += answer["orders"]
    cursor = answer["next_cursor"]
cheapest = min(returned, key=lambda order: (order["total"], order["id"]))
runtime.call_tool_sync("shop", tool, {"order": cheapest["id"], "amount": 5, "reason": "scratched"})
print(tool, cheapest["id"])
