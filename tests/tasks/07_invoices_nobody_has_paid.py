# task: Of how many invoices has nothing been paid, and what are they worth?
# servers: books
# prints: 22 21443

import ast

query = "select id, amount from invoices where id not in (select invoice_id from payments)"
answer = runtime.call_tool_sync("books", "read_query", {"query": query})
rows = ast.literal_eval(answer) if isinstance(answer, str) else answer
print(len(rows), sum(row["amount"] for row in rows))
