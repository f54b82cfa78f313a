# task: Which invoices have another amount than their order's total, and by how much?
# servers: books, shop
# prints: 11 O1011 7
# prints: 22 O1025 7
# prints: 33 O1040 7
# prints: 44 O1052 7
# prints: 55 O1067 7
# prints: 66 O1079 7
# prints: 77 O1096 7
# prints: 88 O1109 7
# prints: 99 O1120 7

import ast

answer = runtime.call_tool_sync("books", "read_query", {"query": "select id, order_id, amount from invoices"})
bills = ast.literal_eval(answer) if isinstance(answer, str) else answer
totals, cursor = {}, ""
while cursor is not None:
    page = runtime.call_tool_sync("shop", "list_orders", {"cursor": cursor})
    totals.update((order["id"], order["total"]) for order in page["orders"])
    cursor = page["next_cursor"]
for bill in bills:
    if bill["amount"] != totals[bill["order_id"]]:
        print(bill["id"], bill["order_id"], bill["amount"] - totals[bill["order_id"]])
