# task: For each status of orders: how many invoices are there, and what share of their amounts has been paid, in percent?
# servers: shop, books
# prints: paid 22 55.7
# prints: returned 17 72.0
# prints: shipped 66 68.4

import ast

import pandas as pd


async def orders():
    found, cursor = [], ""
    while cursor is not None:
        answer = await mcp_shop.list_orders(cursor=cursor)
        found += answer["orders"]
        cursor = answer["next_cursor"]
    return pd.DataFrame(found)


async def table(query):
    answer = await mcp_books.read_query(query=query)
    return pd.DataFrame(ast.literal_eval(answer) if isinstance(answer, str) else answer)


bills = await table("select id, order_id, amount from invoices")
paid = (await table("select invoice_id, amount from payments")).groupby("invoice_id").amount.sum()
bills["paid"] = bills.id.map(paid).fillna(0)
joined = bills.merge(await orders(), left_on="order_id", right_on="id")
for status, rows in joined.groupby("status"):
    print(status, len(rows), f"{100 * rows.paid.sum() / rows.amount.sum():.1f}")
