# task: For which agents is it between 9 and 17 o'clock when it is 10:30 in UTC?
# servers: desk, time
# prints: [('ann', '10:30'), ('cy', '16:00'), ('dee', '13:30')]

agents = runtime.call_tool_sync("desk", "list_agents")["agents"]
working = []
for agent in agents:
    given = {"source_timezone": "UTC", "time": "10:30", "target_timezone": agent["zone"]}
    clock = runtime.call_tool_sync("time", "convert_time", given)["target"]["datetime"][11:16]
    if "09:00" <= clock < "17:00":
        working.append((agent["name"], clock))
print(working)
