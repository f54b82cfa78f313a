# task: Write what was invoiced in each month into a new table "monthly" (month, amount) of the books.
# servers: books
# prints: 6
# changes: books

import ast

answer = runtime.call_tool_sync("books", "read_query", {"query": "select due, amount from invoices"})
rows = ast.literal_eval(answer) if isinstance(answer, str) else answer
months = {}
for row in rows:
    months[row["due"][:7]] = months.get(row["due"][:7], 0) + row["amount"]
runtime.call_tool_sync("books", "create_table", {"query": "create table monthly (month text, amount integer)"})
for month, amount in sorted(months.items()):
    runtime.call_tool_sync("books", "write_query", {"query": f"insert into monthly values ('{month}', {amount})"})
print(len(months))
