# task: Which of New York, Chicago and Los Angeles is the warmest, and how warm is it?
# servers: lab
# prints: Los Angeles 73

warmth = {}
for city in ("New York", "Chicago", "Los Angeles"):
    warmth[city] = runtime.call_tool_sync("lab", "get-structured-content", {"location": city})["temperature"]
warmest = max(warmth, key=warmth.get)
print(warmest, warmth[warmest])
