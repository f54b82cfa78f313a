# task: Which three customers owe most on their invoices, and how much?
# servers: books, shop
# prints: C06 Customer 6 5777
# prints: C11 Customer 11 4220
# prints: C02 Customer 2 3069

import ast

query = (
    "select order_id, amount - coalesce((select sum(p.amount) from payments p where p.invoice_id = i.id), 0) as open "
    "from invoices i"
)
answer = runtime.call_tool_sync("books", "read_query", {"query": query})
rows = ast.literal_eval(answer) if isinstance(answer, str) else answer
debts = {}
for row in rows:
    if row["open"] > 0:
        customer = runtime.call_tool_sync("shop", "get_order", {"id": row["order_id"]})["customer"]
        debts[customer] = debts.get(customer, 0) + row["open"]
for customer, amount in sorted(debts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]:
    print(customer, runtime.call_tool_sync("shop", "get_customer", {"id": customer})["name"], amount)
