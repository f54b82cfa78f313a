# task: How many reviews are there on all pages, and how many stars do they give on average?
# servers: web
# prints: 60 3.27

import re

stars = []
page = "reviews-1.html"
while page:
    text = runtime.call_tool_sync("web", "fetch", {"url": f"http://world/{page}", "raw": True})
    stars += [int(n) for n in re.findall(r": (\d) stars", text)]
    link = re.search(r'<a href="(\S+)">older', text)
    page = link and link[1]
print(len(stars), f"{sum(stars) / len(stars):.2f}")
