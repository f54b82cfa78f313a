# task: How many products are in the house in all? The warehouse is busy at times and has to be asked again.
# servers: shop
# prints: 529 after asking again 20 times

total = again = 0
for n in range(1, 31):
    while True:
        try:
            total += runtime.call_tool_sync("shop", "get_stock", {"sku": f"K{n:02}"})["stock"]
            break
        except runtime.ToolError as error:
            if "busy" not in str(error):
                raise
            again += 1
print(total, "after asking again", again, "times")
