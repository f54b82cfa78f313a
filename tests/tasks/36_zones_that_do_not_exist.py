# task: What time is 06:45 UTC in each of these zones? Collect the zones that do not exist.
# servers: time
# prints: Asia/Dubai 10:45
# prints: Asia/Kathmandu 12:30
# prints: UTC 06:45
# prints: unknown: ['Mars/Base', 'Tokyo/Asia']

unknown = []
for zone in ["Asia/Dubai", "Mars/Base", "Asia/Kathmandu", "UTC", "Tokyo/Asia"]:
    try:
        given = {"source_timezone": "UTC", "time": "06:45", "target_timezone": zone}
        print(zone, runtime.call_tool_sync("time", "convert_time", given)["target"]["datetime"][11:16])
    except runtime.ToolError as error:
        assert zone in str(error)
        unknown.append(zone)
print("unknown:", unknown)
