# task: Which services does web need, directly or through others?
# servers: memory
# prints: ['billing', 'cart', 'mail', 'search', 'stock']

needed, new = set(), ["web"]
while new:
    graph = runtime.call_tool_sync("memory", "open_nodes", {"names": new})
    found = {r["to"] for r in graph["relations"] if r["from"] in new and r["relationType"] == "needs"}
    new = sorted(found - needed)
    needed |= found
print(sorted(needed))
