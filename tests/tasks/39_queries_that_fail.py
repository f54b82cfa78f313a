# task: Which of these queries does the database answer, and with how many rows?
# servers: books
# prints: 6
# prints: failed
# prints: 25
# prints: no query

import ast

for query in [
    "select * from invoices where amount > 3000",
    "select * from bills",
    "select invoice_id, count(*) from payments group by invoice_id having count(*) = 2",
    "selec 1",
]:
    answer = runtime.call_tool_sync("books", "read_query", {"query": query}) if query.startswith("select") else None
    if answer is None:
        print("no query")
    elif isinstance(answer, str) and answer.startswith("Database error"):
        print("failed")
    else:
        print(len(ast.literal_eval(answer) if isinstance(answer, str) else answer))
