"""The data of the tasks: a shop for kayaks, laid out in a folder for ten servers, always the same; and what is there
afterwards.

usage: world.py lay FOLDER        writes all data below an empty folder
       world.py look FOLDER       prints what is below it now, as one JSON object
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

COUNTRIES = ["NO", "SE", "DE", "FR", "US", "JP"]
CATEGORIES = ["kayak", "paddle", "vest", "bag", "tent"]
AGENTS = [
    {"name": "ann", "team": "orders", "zone": "UTC"},
    {"name": "bo", "team": "orders", "zone": "Asia/Tokyo"},
    {"name": "cy", "team": "billing", "zone": "Asia/Kolkata"},
    {"name": "dee", "team": "billing", "zone": "Africa/Nairobi"},
    {"name": "eli", "team": "product", "zone": "America/Phoenix"},
]
SERVICES = ["web", "cart", "search", "billing", "mail", "stock"]
AUTHORS = ["Ann Berg", "Bo Lind", "Cy Rao", "Dee Otieno"]
FLAWS = ["leaks at the seam", "arrived late", "wrong colour", "was charged twice", "a strap is torn", "does not float"]


class Dice:
    """Numbers that look random and are the same everywhere."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def roll(self, sides: int) -> int:
        """From 0 to one below the number of sides."""
        self.state = (self.state * 1103515245 + 12345) % 2**31
        return (self.state >> 8) % sides


def customers() -> list[dict[str, Any]]:
    dice = Dice(1)
    tiers = ["basic", "basic", "plus", "pro"]
    return [
        {
            "id": f"C{n:02}",
            "name": f"Customer {n}",
            "country": COUNTRIES[dice.roll(6)],
            "tier": tiers[dice.roll(4)],
            "email": f"c{n:02}@example.org",
        }
        for n in range(1, 25)
    ]


def products() -> list[dict[str, Any]]:
    dice = Dice(2)
    found = []
    for n in range(1, 31):
        category = CATEGORIES[n % 5]
        price = (40 + dice.roll(60)) * (10 if category == "kayak" else 1)
        found.append(
            {"sku": f"K{n:02}", "name": f"{category} {n}", "category": category, "price": price, "stock": dice.roll(40)}
        )
    return found


def orders() -> list[dict[str, Any]]:
    dice = Dice(3)
    prices = {product["sku"]: product["price"] for product in products()}
    states = ["paid", "shipped", "shipped", "shipped", "returned", "cancelled"]
    found = []
    for n in range(130):
        skus = dict.fromkeys(f"K{1 + dice.roll(30):02}" for _ in range(1 + dice.roll(3)))
        items = [{"sku": sku, "quantity": 1 + dice.roll(4)} for sku in skus]
        found.append(
            {
                "id": f"O{1001 + n}",
                "customer": f"C{1 + dice.roll(24):02}",
                "date": f"2026-{1 + n // 22:02}-{1 + dice.roll(28):02}",
                "status": states[dice.roll(6)],
                "items": items,
                "total": sum(prices[item["sku"]] * item["quantity"] for item in items),
            }
        )
    return found


def tickets() -> list[dict[str, Any]]:
    dice = Dice(4)
    found = []
    for n in range(75):
        flaw = FLAWS[dice.roll(6)]
        state = ["open", "open", "pending", "closed"][dice.roll(4)]
        agent = None if state == "open" and dice.roll(2) else AGENTS[dice.roll(5)]["name"]
        comments = [{"by": AGENTS[dice.roll(5)]["name"], "text": f"looked at it, {flaw}"} for _ in range(dice.roll(4))]
        found.append(
            {
                "id": f"T-{101 + n}",
                "customer": f"C{1 + dice.roll(24):02}",
                "order": f"O{1001 + dice.roll(130)}" if dice.roll(4) else None,
                "subject": f"it {flaw}" if flaw.startswith(("leaks", "does")) else flaw,
                "body": f"Dear desk, my order {flaw}. "
                + "I have tried everything that the leaflet says. " * (2 + dice.roll(6)),
                "priority": ["low", "normal", "normal", "high", "urgent"][dice.roll(5)],
                "state": state,
                "agent": agent,
                "hours": 1 + dice.roll(72),
                "comments": comments,
            }
        )
    return found


def invoices() -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Invoices of all orders that were not cancelled, every eleventh with a wrong amount; and what was paid of them."""
    dice = Dice(5)
    bills: list[tuple[Any, ...]] = []
    payments: list[tuple[Any, ...]] = []
    for order in orders():
        if order["status"] == "cancelled":
            continue
        number = len(bills) + 1
        amount = order["total"] + (7 if number % 11 == 0 else 0)
        bills.append((number, order["id"], amount, order["date"][:8] + "28"))
        parts = [(amount,), (amount // 2, amount - amount // 2), (amount // 2,), ()][dice.roll(4)]
        for part in parts:
            payments.append((len(payments) + 1, number, part, order["date"][:8] + f"{1 + dice.roll(28):02}"))
    return bills, payments


def commits() -> list[dict[str, Any]]:
    dice = Dice(6)
    kinds = ["fix", "add", "drop"]
    found = []
    for n in range(40):
        service = SERVICES[dice.roll(6)]
        kind = kinds[dice.roll(3)]
        about = f" (T-{101 + dice.roll(75)})" if dice.roll(2) else ""
        found.append(
            {
                "author": AUTHORS[dice.roll(4)],
                "message": f"{service}: {kind} part {n + 1}{about}",
                "file": f"{service}.txt",
            }
        )
    return found


def log_lines(number: int) -> list[str]:
    dice = Dice(70 + number)
    levels = ["INFO", "INFO", "INFO", "WARN", "ERROR"]
    return [
        f"2026-05-0{number}T{n // 4:02}:{n % 4 * 15:02}:00 {levels[dice.roll(5)]} {SERVICES[dice.roll(6)]} "
        f"answered in {5 + dice.roll(900)} ms"
        for n in range(80)
    ]


def configuration(service: str) -> dict[str, Any]:
    at = SERVICES.index(service)
    flags = {"beta": at % 2 == 0, "dark": at % 3 == 0}
    return {"service": service, "port": 8000 + 11 * at, "replicas": 1 + at * 5 % 4, "flags": flags}


def staff() -> list[tuple[str, str, int]]:
    return [(agent["name"], agent["team"], 20 + 5 * at) for at, agent in enumerate(AGENTS)]


def reviews() -> list[tuple[str, int]]:
    dice = Dice(8)
    return [(f"K{1 + dice.roll(30):02}", 1 + dice.roll(5)) for _ in range(60)]


def graph() -> list[dict[str, Any]]:
    """Services, who owns them, and what they need, as the memory server keeps them."""
    owners = ["orders", "orders", "product", "billing", "billing", "product"]
    needs = {"web": ["cart", "search"], "cart": ["stock", "billing"], "billing": ["mail"], "search": ["stock"]}
    made: list[dict[str, Any]] = [
        {
            "type": "entity",
            "name": name,
            "entityType": "service",
            "observations": [f"owned by {owner}", f"tier {at % 3}"],
        }
        for at, (name, owner) in enumerate(zip(SERVICES, owners, strict=True))
    ]
    made += [
        {"type": "entity", "name": agent["name"], "entityType": "person", "observations": [f"works in {agent['team']}"]}
        for agent in AGENTS
    ]
    made += [
        {"type": "relation", "from": name, "to": other, "relationType": "needs"}
        for name, others in needs.items()
        for other in others
    ]
    return made


def lay(root: Path) -> None:
    for name in ["files/logs", "files/config", "files/out", "repo", "pages"]:
        (root / name).mkdir(parents=True)
    files = root / "files"
    for number in range(1, 6):
        (files / f"logs/app-{number}.log").write_text("\n".join(log_lines(number)) + "\n")
    for service in SERVICES:
        (files / f"config/{service}.json").write_text(json.dumps(configuration(service)))
    (files / "staff.csv").write_text("name,team,hours\n" + "".join(f"{n},{t},{h}\n" for n, t, h in staff()))
    (files / "rates.json").write_text(json.dumps({"NO": 25, "SE": 25, "DE": 19, "FR": 20, "US": 0, "JP": 10}))
    (files / "config/broken.json").write_text('{"service": "broken", "port": ')
    shop = {"customers": customers(), "products": products(), "orders": orders(), "refunds": []}
    (root / "shop.json").write_text(json.dumps(shop))
    (root / "desk.json").write_text(json.dumps({"agents": AGENTS, "tickets": tickets()}))
    (root / "memory.jsonl").write_text("\n".join(json.dumps(line) for line in graph()))
    lay_database(root / "books.db")
    lay_repository(root / "repo")
    lay_pages(root / "pages")


def lay_database(path: Path) -> None:
    with sqlite3.connect(path) as books:
        books.execute("create table invoices (id integer primary key, order_id text, amount integer, due text)")
        books.execute(
            "create table payments (id integer primary key, invoice_id integer, amount integer, paid_on text)"
        )
        bills, payments = invoices()
        books.executemany("insert into invoices values (?, ?, ?, ?)", bills)
        books.executemany("insert into payments values (?, ?, ?, ?)", payments)


def lay_repository(folder: Path) -> None:
    def git(*arguments: str, given: str = "") -> None:
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(folder)}
        environment = {"PATH": os.environ["PATH"], **alone}
        subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, input=given.encode(), check=True, stdout=sys.stderr
        )

    # One process for all commits.
    lines = []
    for number, commit in enumerate(commits(), 1):
        person = f"{commit['author']} <{commit['author'].split()[0].lower()}@example.org>"
        # At noon of each day from the second of March on.
        when = f"{1772452800 + (number - 1) * 86400} +0000"
        content = f"part {number}\n"
        lines += [
            "commit refs/heads/main",
            f"mark :{number}",
            f"author {person} {when}",
            f"committer {person} {when}",
            f"data {len(commit['message'])}",
            commit["message"],
            *([f"from :{number - 1}"] if number > 1 else []),
            f"M 644 inline {commit['file']}",
            f"data {len(content)}",
            content,
        ]
    git("init", "--quiet", "--initial-branch=main")
    git("fast-import", "--quiet", given="\n".join(lines))
    git("reset", "--hard", "--quiet")
    for name, value in [("user.name", "Tasks"), ("user.email", "tasks@example.org"), ("commit.gpgsign", "false")]:
        git("config", name, value)
    git("branch", "release-1", "HEAD~10")
    git("branch", "release-2", "HEAD~3")


def lay_pages(folder: Path) -> None:
    found = reviews()
    for page in range(6):
        rows = "".join(f"<li>{sku}: {stars} stars</li>" for sku, stars in found[page * 10 : page * 10 + 10])
        later = f'<a href="reviews-{page + 2}.html">older</a>' if page < 5 else ""
        (folder / f"reviews-{page + 1}.html").write_text(
            f"<html><body><h1>Reviews</h1><ul>{rows}</ul>{later}</body></html>"
        )
    states = {service: "down" if service in ("mail", "search") else "up" for service in SERVICES}
    (folder / "status.json").write_text(json.dumps(states))
    links = "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in ["terms", "returns", "gone", "contact"])
    (folder / "index.html").write_text(f"<html><body><h1>Help</h1><ul>{links}</ul></body></html>")
    (folder / "terms.html").write_text("<html><body><p>Orders are paid within 30 days.</p></body></html>")
    (folder / "returns.html").write_text("<html><body><p>Kayaks come back within 14 days.</p></body></html>")
    (folder / "contact.html").write_text("<html><body><p>Write to desk@example.org.</p></body></html>")
    long = " ".join(f"paragraph-{n}" for n in range(1, 1201))
    (folder / "manual.html").write_text(f"<html><body><p>{long} end-of-manual</p></body></html>")


def look(root: Path) -> dict[str, Any]:
    with sqlite3.connect(root / "books.db") as books:
        names = [name for (name,) in books.execute("select name from sqlite_master where type = 'table' order by name")]
        tables = {name: [list(row) for row in books.execute(f'select * from "{name}" order by 1')] for name in names}
    shop = json.loads((root / "shop.json").read_text())
    desk = json.loads((root / "desk.json").read_text())
    memory = [json.loads(line) for line in (root / "memory.jsonl").read_text().splitlines()]
    git = ["git", "-C", str(root / "repo")]
    branches = subprocess.run([*git, "branch", "--format=%(refname:short)"], check=True, capture_output=True, text=True)
    heads = {}
    for branch in branches.stdout.split():
        shown = subprocess.run([*git, "log", "-1", "--format=%s", branch], check=True, capture_output=True, text=True)
        heads[branch] = shown.stdout.strip()
    files = sorted(path for path in (root / "files/out").rglob("*") if path.is_file())
    return {
        "files": {str(path.relative_to(root / "files/out")): path.read_text() for path in files},
        "books": tables,
        "refunds": shop["refunds"],
        "prices": {product["sku"]: product["price"] for product in shop["products"]},
        "tickets": {ticket["id"]: ticket for ticket in desk["tickets"]},
        "memory": {line["name"]: line["observations"] for line in memory if line["type"] == "entity"},
        "relations": [
            [line["from"], line["relationType"], line["to"]] for line in memory if line["type"] == "relation"
        ],
        "branches": heads,
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lay", folder]:
            lay(Path(folder))
        case ["look", folder]:
            print(json.dumps(look(Path(folder))))
        case _:
            sys.exit(__doc__)
