# task: A report of all ten servers, also written as report.json: paid orders, urgent tickets, invoices nobody has paid, ...
# servers: shop, desk, git, books, web, memory, calculator, files, time, lab
# prints: {'paid': 22, 'urgent': 16, 'unpaid': 22, 'down': {'search': 'product', 'mail': 'billing'}, 'hours': 150, 'tokyo': '16:00', 'commits': 40, 'warmest': 73}
# changes: files

import ast
import asyncio
import json
import re


async def orders():
    number, cursor = 0, ""
    while cursor is not None:
        answer = await mcp_shop.list_orders(status="paid", cursor=cursor)
        number, cursor = number + len(answer["orders"]), answer["next_cursor"]
    return number


async def urgent():
    first = await mcp_desk.list_tickets()
    others = await asyncio.gather(*(mcp_desk.list_tickets(page=page) for page in range(2, first["pages"] + 1)))
    return sum(t["priority"] == "urgent" for page in [first, *others] for t in page["tickets"])


async def unpaid():
    query = "select count(*) as n from invoices where id not in (select invoice_id from payments)"
    answer = await mcp_books.read_query(query=query)
    return (ast.literal_eval(answer) if isinstance(answer, str) else answer)[0]["n"]


async def down():
    page = await mcp_web.fetch(url="http://world/status.json", raw=True)
    states = json.loads(page[page.index("{") :])
    names = sorted(name for name, state in states.items() if state != "up")
    nodes = (await mcp_memory.open_nodes(names=names))["entities"]
    return {node["name"]: node["observations"][0].removeprefix("owned by ") for node in nodes}


async def hours():
    text = (await mcp_files.read_text_file(path="/world/files/staff.csv"))["content"]
    numbers = [line.rsplit(",", 1)[1] for line in text.split()[1:]]
    return int(await mcp_calculator.calculate(expression=" + ".join(numbers)))


async def tokyo():
    clock = await mcp_time.convert_time(source_timezone="UTC", time="07:00", target_timezone="Asia/Tokyo")
    return clock["target"]["datetime"][11:16]


async def commits():
    log = await mcp_git.git_log(repo_path="/world/repo", max_count=200)
    return len(re.findall(r"^Commit: ", log, re.MULTILINE))


names = ["paid", "urgent", "unpaid", "down", "hours", "tokyo", "commits"]
parts = await asyncio.gather(orders(), urgent(), unpaid(), down(), hours(), tokyo(), commits())
report = dict(zip(names, parts)) | {
    "warmest": (await mcp_lab.get_structured_content(location="Los Angeles"))["temperature"]
}
await mcp_files.write_file(path="/world/files/out/report.json", content=json.dumps(report))
print(report)
