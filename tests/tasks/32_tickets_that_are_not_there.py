# task: Which of these tickets are there, with their subject, and which are not?
# servers: desk
# prints: T-101 it does not float
# prints: T-140 arrived late
# prints: T-175 it leaks at the seam
# prints: [('T-99', 'there is no ticket T-99'), ('T-176', 'there is no ticket T-176'), ('X', 'there is no ticket X')]

missing = []
for id in ["T-101", "T-99", "T-140", "T-175", "T-176", "X"]:
    try:
        print(id, runtime.call_tool_sync("desk", "get_ticket", {"id": id})["subject"])
    except runtime.ToolError as error:
        missing.append((id, str(error)))
print(missing)
