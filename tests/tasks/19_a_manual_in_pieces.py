# task: How many paragraphs has the manual, which comes in pieces, and does it end as it should?
# servers: web
# prints: 1200 end-of-manual

import re

whole, piece = "", ""
while not piece or "Content truncated" in piece:
    given = {"url": "http://world/manual.html", "start_index": len(whole), "max_length": 4000, "raw": True}
    piece = runtime.call_tool_sync("web", "fetch", given)
    body = piece.split("manual.html:\n", 1)[1].split("\n\n<error>")[0]
    whole += body
words = whole.removesuffix("</p></body></html>").split()
print(len(re.findall(r"\bparagraph-\d+", whole)), words[-1])
