# task: Add up all orders over several runs, each of which takes the next three pages and keeps where it was.
# servers: shop
# prints: 130 135474 None


def some_pages():
    so_far = runtime.state.get("totals", {"cursor": "", "sum": 0, "orders": 0})
    for _ in range(3):
        if so_far["cursor"] is None:
            break
        answer = runtime.call_tool_sync("shop", "list_orders", {"cursor": so_far["cursor"]})
        so_far["sum"] += sum(order["total"] for order in answer["orders"])
        so_far["orders"] += len(answer["orders"])
        so_far["cursor"] = answer["next_cursor"]
    runtime.state["totals"] = so_far


some_pages()
# --- the next run
some_pages()
# --- the next run
some_pages()
totals = runtime.state["totals"]
print(totals["orders"], totals["sum"], totals["cursor"])
