# task: Add 40 and 2, though the first attempts have the wrong arguments; say which were refused before anything was sent.
# servers: lab
# prints: The sum of 40 and 2 is 42.
# prints: [(0, True), (1, True)]

attempts = [{"a": 40}, {"a": 40, "b": "two"}, {"a": 40, "b": 2}]
refused = []
for number, given in enumerate(attempts):
    try:
        print(runtime.call_tool_sync("lab", "get-sum", given))
    except runtime.InvalidCallError as error:
        refused.append((number, "nothing was sent" in str(error)))
print(refused)
