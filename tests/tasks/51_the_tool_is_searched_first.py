# task: Find a tool that converts times between zones, and use it: what is 08:15 in Kolkata for Nairobi?
# servers: time
# prints: time 05:45

hits = runtime.search_tool_docs_sync("convert a time from one time zone to another", limit=3)
best = hits[0]
given = {"source_timezone": "Asia/Kolkata", "time": "08:15", "target_timezone": "Africa/Nairobi"}
answer = runtime.call_tool_sync(best["server"], best["tool"], given)
print(best["server"], answer["target"]["datetime"][11:16])
