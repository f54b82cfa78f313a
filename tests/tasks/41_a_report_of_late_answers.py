# task: Write late.csv with number, priority and hours of all tickets that waited more than 60 hours, the longest first.
# servers: desk, files
# prints: 8
# changes: files

import csv
import io

late, page, pages = [], 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page})
    late += [ticket for ticket in answer["tickets"] if ticket["hours"] > 60]
    page, pages = page + 1, answer["pages"]
late.sort(key=lambda ticket: (-ticket["hours"], ticket["id"]))
text = io.StringIO()
rows = csv.writer(text, lineterminator="\n")
rows.writerow(["id", "priority", "hours"])
rows.writerows([ticket["id"], ticket["priority"], ticket["hours"]] for ticket in late)
runtime.call_tool_sync("files", "write_file", {"path": "/world/files/out/late.csv", "content": text.getvalue()})
print(len(late))
