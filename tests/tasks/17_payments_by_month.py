# task: How much was paid in each month, and in how many payments?
# servers: books
# prints: 2026-01 9908 16
# prints: 2026-02 15418 19
# prints: 2026-03 8851 17
# prints: 2026-04 7544 15
# prints: 2026-05 12049 21
# prints: 2026-06 10987 20

import ast
from collections import defaultdict

months = defaultdict(list)
last = 0
while True:
    query = f"select id, amount, paid_on from payments where id > {last} order by id limit 25"
    answer = runtime.call_tool_sync("books", "read_query", {"query": query})
    rows = ast.literal_eval(answer) if isinstance(answer, str) else answer
    if not rows:
        break
    last = rows[-1]["id"]
    for row in rows:
        months[row["paid_on"][:7]].append(row["amount"])
for month in sorted(months):
    print(month, sum(months[month]), len(months[month]))
