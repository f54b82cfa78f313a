# task: Look up what the calculator's tool wants, and have it calculate 12 factorial without that function's name.
# servers: calculator
# prints: calculate expression 479001600

docs = runtime.query_tool_docs_sync("calculator", detail="full")
tool = docs[0]
name, argument = tool["tool"], list(tool["inputSchema"]["properties"])[0]
product = " * ".join(str(n) for n in range(1, 13))
print(name, argument, runtime.call_tool_sync("calculator", name, {argument: product}))
