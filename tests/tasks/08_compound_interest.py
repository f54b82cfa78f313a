# task: What do 1000 become in 1, 5, 10 and 25 years at 3 percent, in whole numbers?
# servers: calculator
# prints: 1 1030
# prints: 5 1159
# prints: 10 1344
# prints: 25 2094

for years in (1, 5, 10, 25):
    answer = runtime.call_tool_sync("calculator", "calculate", {"expression": f"1000 * 1.03 ** {years}"})
    print(years, round(float(answer)))
