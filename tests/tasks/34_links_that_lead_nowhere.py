# task: Which links of the page of help lead nowhere, and what do the others say?
# servers: web
# prints: terms.html Orders are paid within 30 days.
# prints: returns.html Kayaks come back within 14 days.
# prints: gone.html True
# prints: contact.html Write to desk@example.org.

import re

page = runtime.call_tool_sync("web", "fetch", {"url": "http://world/index.html", "raw": True})
for link in re.findall(r'href="(\w+\.html)"', page):
    try:
        text = runtime.call_tool_sync("web", "fetch", {"url": f"http://world/{link}", "raw": True})
        print(link, re.search("<p>(.*)</p>", text)[1])
    except runtime.ToolError as error:
        print(link, "404" in str(error))
