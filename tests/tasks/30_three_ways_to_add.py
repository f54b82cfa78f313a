# task: Do three servers agree on the sum of the totals of O1003, O1030 and O1077? What is it?
# servers: shop, calculator, lab
# prints: True 4621

totals = [runtime.call_tool_sync("shop", "get_order", {"id": id})["total"] for id in ("O1003", "O1030", "O1077")]
expression = " + ".join(str(total) for total in totals)
calculated = int(runtime.call_tool_sync("calculator", "calculate", {"expression": expression}))
added = 0
for total in totals:
    said = runtime.call_tool_sync("lab", "get-sum", {"a": added, "b": total})
    added = int(said.rstrip(".").rpartition(" ")[2])
print(calculated == added == sum(totals), added)
