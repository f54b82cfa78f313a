# task: Which agent has the orders of the customer of T-120 at the desk, and how many orders has that customer returned?
# servers: desk, shop
# prints: dee C19 1

from mcp.servers import desk, shop

ticket = desk.get_ticket.sync(id="T-120")
returned = 0
cursor = ""
while cursor is not None:
    page = shop.list_orders.sync(status="returned", cursor=cursor)
    returned += sum(order["customer"] == ticket["customer"] for order in page["orders"])
    cursor = page["next_cursor"]
print(ticket["agent"], ticket["customer"], returned)
