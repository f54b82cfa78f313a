# task: What time is 14:00 UTC for each of the agents' zones?
# servers: time
# prints: Asia/Tokyo 23:00 +9.0h
# prints: Asia/Kolkata 19:30 +5.5h
# prints: Africa/Nairobi 17:00 +3.0h
# prints: America/Phoenix 07:00 -7.0h

zones = ["Asia/Tokyo", "Asia/Kolkata", "Africa/Nairobi", "America/Phoenix"]
for zone in zones:
    given = {"source_timezone": "UTC", "time": "14:00", "target_timezone": zone}
    converted = runtime.call_tool_sync("time", "convert_time", given)
    print(zone, converted["target"]["datetime"][11:16], converted["time_difference"])
