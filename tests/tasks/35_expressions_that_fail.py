# task: What are these expressions worth? Say "none" for those that cannot be calculated.
# servers: calculator
# prints: ['1024', 'none', '49', 'none', '2', 'none']

values = []
for expression in ["2 ** 10", "1 / 0", "7 * (3 + 4)", "sqrt(-1)", "17 % 5", "nonsense"]:
    try:
        values.append(runtime.call_tool_sync("calculator", "calculate", {"expression": expression}))
    except runtime.MCPError:
        values.append("none")
print(values)
