"""What the tasks come to, worked out from the data themselves: no server, no sandbox, and nothing of the programs.

usage: answers.py        prints one JSON object: for each task, by its number, the lines it prints and what it leaves
"""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from datetime import date, timedelta
from typing import Any

import world

CUSTOMERS = {customer["id"]: customer for customer in world.customers()}
PRODUCTS = {product["sku"]: product for product in world.products()}
ORDERS = {order["id"]: order for order in world.orders()}
TICKETS = {ticket["id"]: ticket for ticket in world.tickets()}
BILLS, PAYMENTS = world.invoices()
# Day, level, service, milliseconds.
LOGS = [
    (number, line[20:].split()[0], line[20:].split()[1], int(line.split()[-2]), line)
    for number in range(1, 6)
    for line in world.log_lines(number)
]
COMMITS = [
    {
        **commit,
        "day": date(2026, 3, 2) + timedelta(days=number),
        "service": commit["file"].removesuffix(".txt"),
        "kind": commit["message"].split()[1],
        "part": number + 1,
        "ticket": commit["message"][-6:-1] if commit["message"].endswith(")") else None,
    }
    for number, commit in enumerate(world.commits())
]
OWNERS = {
    line["name"]: line["observations"][0][9:]
    for line in world.graph()
    if line["type"] == "entity" and line["entityType"] == "service"
}
PAID: Counter[int] = Counter()
for _, invoice, amount, _ in PAYMENTS:
    PAID[invoice] += amount
UNPAID = [bill for bill in BILLS if bill[0] not in {payment[1] for payment in PAYMENTS}]
STARS: dict[str, list[int]] = defaultdict(list)
for sku, given in world.reviews():
    STARS[sku].append(given)
DOWN = ["mail", "search"]
PEOPLE = {team: [a["name"] for a in world.AGENTS if a["team"] == team] for team in ("orders", "billing", "product")}


def with_state(state: str) -> list[dict[str, Any]]:
    return [ticket for ticket in TICKETS.values() if ticket["state"] == state]


def with_status(status: str) -> list[dict[str, Any]]:
    return [order for order in ORDERS.values() if order["status"] == status]


def counted(keys: Any) -> dict[Any, int]:
    return dict(sorted(Counter(keys).items()))


def clock(time: str, hours: float) -> str:
    minutes = int(time[:2]) * 60 + int(time[3:]) + round(hours * 60)
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def prints() -> dict[int, list[Any]]:
    returned = with_status("returned")
    kept = [order for order in ORDERS.values() if order["status"] not in ("cancelled", "returned")]
    stars = [given for _, given in world.reviews()]
    months = sorted({order["date"][:7] for order in kept})
    sold: Counter[str] = Counter()
    for order in with_status("shipped"):
        for item in order["items"]:
            sold[item["sku"]] += item["quantity"]
    best = sorted((-number, sku) for sku, number in sold.items())[:5]
    errors = [service for _, level, service, _, _ in LOGS if level == "ERROR"]
    lines = Counter(service for _, _, service, _, _ in LOGS)
    waits = defaultdict(list)
    for ticket in TICKETS.values():
        waits[ticket["priority"]].append(ticket["hours"])
    paid_months = sorted({payment[3][:7] for payment in PAYMENTS})
    paid_in = {month: [payment[2] for payment in PAYMENTS if payment[3][:7] == month] for month in paid_months}
    commit_months = sorted({str(commit["day"])[:7] for commit in COMMITS})
    said = {ticket_id: t["body"] + "".join(c["text"] for c in t["comments"]) for ticket_id, t in TICKETS.items()}
    pressing = [t for t in TICKETS.values() if t["priority"] in ("high", "urgent") and t["state"] != "closed"]
    wrong = [
        (number, order_id, amount - ORDERS[order_id]["total"])
        for number, order_id, amount, _ in BILLS
        if amount != ORDERS[order_id]["total"]
    ]
    rates = {"NO": 25, "SE": 25, "DE": 19, "FR": 20, "US": 0, "JP": 10}
    net: Counter[str] = Counter()
    for order in with_status("shipped"):
        net[CUSTOMERS[order["customer"]]["country"]] += order["total"]
    debts: Counter[str] = Counter()
    for number, order_id, amount, _ in BILLS:
        if amount > PAID[number]:
            debts[ORDERS[order_id]["customer"]] += amount - PAID[number]
    three = sum(ORDERS[order_id]["total"] for order_id in ("O1003", "O1030", "O1077"))
    shares = {}
    for status in sorted({ORDERS[order_id]["status"] for _, order_id, _, _ in BILLS}):
        of = [(amount, PAID[number]) for number, order_id, amount, _ in BILLS if ORDERS[order_id]["status"] == status]
        shares[status] = f"{status} {len(of)} {100 * sum(p for _, p in of) / sum(a for a, _ in of):.1f}"
    most = sorted((-number, customer) for customer, number in Counter(t["customer"] for t in TICKETS.values()).items())
    cheapest = min(returned, key=lambda order: (order["total"], order["id"]))
    ports = {service: 8000 + 11 * at for at, service in enumerate(world.SERVICES)}
    twelve = 1
    for n in range(1, 13):
        twelve *= n
    return {
        1: [counted(t["priority"] for t in with_state("open"))],
        2: [f"{len(returned)} {sum(order['total'] for order in returned)}"],
        3: [f"{name} {max(ms for _, _, service, ms, _ in LOGS if service == name)}" for name in sorted(lines)],
        4: [sorted(Counter(c["author"] for c in reversed(COMMITS)).items(), key=lambda pair: -pair[1])],
        5: [
            "Asia/Tokyo 23:00 +9.0h",
            "Asia/Kolkata 19:30 +5.5h",
            "Africa/Nairobi 17:00 +3.0h",
            "America/Phoenix 07:00 -7.0h",
        ],
        6: [["billing", "cart", "mail", "search", "stock"]],
        7: [f"{len(UNPAID)} {sum(bill[2] for bill in UNPAID)}"],
        8: ["1 1030", "5 1159", "10 1344", "25 2094"],
        9: [f"{len(stars)} {sum(stars) / len(stars):.2f}"],
        10: ["Los Angeles 73"],
        11: [f"{month} {sum(o['total'] for o in kept if o['date'].startswith(month))}" for month in months],
        12: [[(sku, -number) for number, sku in best]],
        13: [f"{service} {100 * errors.count(service) / lines[service]:.1f}" for service in sorted(lines)],
        14: [
            f"{a['name']} "
            + str(
                {
                    state: sum(t["agent"] == a["name"] for t in with_state(state))
                    for state in ("closed", "open", "pending")
                }
            )
            for a in world.AGENTS
        ],
        15: [f"{priority} {statistics.median(hours)} {max(hours)}" for priority, hours in sorted(waits.items())],
        16: [
            [
                (month, len(of), sum(c["kind"] == "fix" for c in of))
                for month in commit_months
                for of in [[c for c in COMMITS if str(c["day"]).startswith(month)]]
            ]
        ],
        17: [f"{month} {sum(of)} {len(of)}" for month, of in paid_in.items()],
        18: [sorted(sku for sku, of in STARS.items() if len(of) > 1 and statistics.mean(of) < 2.5)],
        19: ["1200 end-of-manual"],
        20: [sum("strap" in words for words in said.values()), max(said, key=lambda ticket_id: len(said[ticket_id]))],
        21: [[t["id"] for t in pressing if CUSTOMERS[t["customer"]]["tier"] == "pro"]],
        22: [f"{number} {order_id} {more}" for number, order_id, more in wrong],
        23: [{country: net[country] * rates[country] // 100 for country in sorted(net)}],
        24: [
            f"{c['ticket']} {c['message'][:-8]}"
            for c in reversed(COMMITS)
            if c["ticket"] and TICKETS[c["ticket"]]["priority"] == "urgent"
        ],
        25: [f"{service} {OWNERS[service]} {sorted(PEOPLE[OWNERS[service]])}" for service in DOWN],
        26: [[("ann", "10:30"), ("cy", "16:00"), ("dee", "13:30")]],
        27: [
            f"{p['sku']} {p['price']} {p['name']}"
            for p in PRODUCTS.values()
            if p["price"] < 80 and STARS[p["sku"]] and statistics.mean(STARS[p["sku"]]) >= 4
        ],
        28: [counted(OWNERS[service] for service in errors)],
        29: [
            f"{customer} {CUSTOMERS[customer]['name']} {-amount}"
            for amount, customer in sorted((-amount, customer) for customer, amount in debts.items())[:3]
        ],
        30: [f"True {three}"],
        31: [f"{sum(p['stock'] for p in PRODUCTS.values())} after asking again 20 times"],
        32: [
            *(f"{ticket_id} {TICKETS[ticket_id]['subject']}" for ticket_id in ("T-101", "T-140", "T-175")),
            [(ticket_id, f"there is no ticket {ticket_id}") for ticket_id in ("T-99", "T-176", "X")],
        ],
        33: [f"{dict(sorted(ports.items()))} ['broken.json']"],
        34: [
            "terms.html Orders are paid within 30 days.",
            "returns.html Kayaks come back within 14 days.",
            "gone.html True",
            "contact.html Write to desk@example.org.",
        ],
        35: [["1024", "none", "49", "none", "2", "none"]],
        36: ["Asia/Dubai 10:45", "Asia/Kathmandu 12:30", "UTC 06:45", "unknown: ['Mars/Base', 'Tokyo/Asia']"],
        37: ["The sum of 40 and 2 is 42.", "[(0, True), (1, True)]"],
        38: [*refused(), [refund["order"] for refund in refunds()]],
        39: [
            sum(amount > 3000 for _, _, amount, _ in BILLS),
            "failed",
            sum(number == 2 for number in Counter(invoice for _, invoice, _, _ in PAYMENTS).values()),
            "no query",
        ],
        40: ["9 ['git', 'desk', 'time']"],
        41: [len(late())],
        42: [[ticket_id for ticket_id, _ in urgent()]],
        43: [[ticket_id for ticket_id, _ in merged()]],
        44: [f"{len(fixes())} {sorted({c['ticket'] for c in fixes()})}"],
        45: [vests()],
        46: [len(billed())],
        47: [[number for _, number in wrote()]],
        48: [open_ends()],
        49: [counted(errors)],
        50: [6],
        51: [f"time {clock('08:15', 3 - 5.5)}"],
        52: [f"refund {cheapest['id']}"],
        53: [[(customer, -number) for number, customer in most[:3]]],
        54: [f"130 {sum(order['total'] for order in ORDERS.values())} None"],
        55: [sum(n + n * n for n in range(40))],
        56: list(shares.values()),
        57: [
            f"{TICKETS['T-120']['agent']} {TICKETS['T-120']['customer']} "
            f"{sum(order['customer'] == TICKETS['T-120']['customer'] for order in returned)}"
        ],
        58: [f"calculate expression {twelve}"],
        59: [f"{order_id} {pieces(order_id)}" for order_id in ("O1010", "O1100")],
        60: [morning()],
    }


def refunds() -> list[dict[str, Any]]:
    wanted = ["O1001", "O1002", "O1050", "O1099", "O1016"]
    return [
        {"order": order_id, "amount": 20, "reason": "goodwill"}
        for order_id in wanted
        if ORDERS[order_id]["status"] != "cancelled" and order_id != "O1002"
    ]


def refused() -> list[str]:
    """Why, in the order in which it is asked for."""
    why = ["O1001 has been refunded already", f"90 is more than the total of O1002, {ORDERS['O1002']['total']}"]
    for order_id in ("O1050", "O1099", "O2000", "O1016"):
        if order_id not in ORDERS:
            why.append(f"there is no order {order_id}")
        elif ORDERS[order_id]["status"] == "cancelled":
            why.append(f"{order_id} was cancelled; nothing was paid")
    return why


def late() -> list[str]:
    found = [ticket for ticket in TICKETS.values() if ticket["hours"] > 60]
    found.sort(key=lambda ticket: (-ticket["hours"], ticket["id"]))
    return [f"{ticket['id']},{ticket['priority']},{ticket['hours']}" for ticket in found]


def urgent() -> list[tuple[str, str]]:
    waiting = [t["id"] for t in with_state("open") if t["priority"] in ("urgent", "high") and t["agent"] is None]
    return [(ticket_id, PEOPLE["orders"][at % 2]) for at, ticket_id in enumerate(waiting)]


def merged() -> list[tuple[str, str]]:
    pending = with_state("pending")
    found = []
    for at, ticket in enumerate(pending):
        like = [other["id"] for other in pending[:at] if other["customer"] == ticket["customer"]]
        if like:
            found.append((ticket["id"], like[0]))
    return found


def fixes() -> list[dict[str, Any]]:
    return [commit for commit in COMMITS if commit["kind"] == "fix" and commit["ticket"]]


def comments(ticket_id: str) -> list[dict[str, str]]:
    there: list[dict[str, str]] = TICKETS[ticket_id]["comments"]
    return there + [
        {"by": "release", "text": f"fixed by part {commit['part']}"}
        for commit in fixes()
        if commit["ticket"] == ticket_id
    ]


def vests() -> dict[str, int]:
    return {p["sku"]: p["price"] * 11 // 10 for p in PRODUCTS.values() if p["category"] == "vest"}


def billed() -> list[list[Any]]:
    months = sorted({due[:7] for _, _, _, due in BILLS})
    return [[month, sum(amount for _, _, amount, due in BILLS if due[:7] == month)] for month in months]


def wrote() -> list[tuple[str, int]]:
    """Also what the release has said on their tickets is not theirs."""
    return [
        (a["name"], sum(c["by"] == a["name"] for t in TICKETS.values() for c in t["comments"])) for a in world.AGENTS
    ]


def open_ends() -> list[str]:
    last = {commit["service"]: commit["kind"] for commit in COMMITS}
    return sorted(service for service, kind in last.items() if kind == "drop")


def errors_of(service: str) -> str:
    return "".join(line + "\n" for _, level, of, _, line in LOGS if (level, of) == ("ERROR", service))


def pieces(order_id: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for item in ORDERS[order_id]["items"]:
        found[PRODUCTS[item["sku"]]["category"]] += item["quantity"]
    return dict(sorted(found.items()))


def morning() -> dict[str, Any]:
    return {
        "paid": len(with_status("paid")),
        "urgent": sum(ticket["priority"] == "urgent" for ticket in TICKETS.values()),
        "unpaid": len(UNPAID),
        "down": {service: OWNERS[service] for service in ("search", "mail")},
        "hours": 20 + 25 + 30 + 35 + 40,
        "tokyo": "16:00",
        "commits": 40,
        "warmest": 73,
    }


def leaves() -> dict[int, dict[str, Any]]:
    """Where something is left, by the task that leaves it."""
    cheapest = min(with_status("returned"), key=lambda order: (order["total"], order["id"]))
    given = refunds()
    return {
        38: {f"/refunds/{at}": refund for at, refund in enumerate(given)},
        41: {"/files/late.csv": "id,priority,hours\n" + "".join(line + "\n" for line in late())},
        42: {f"/tickets/{ticket_id}/agent": agent for ticket_id, agent in urgent()},
        43: {f"/tickets/{ticket_id}/resolution": f"merged into {first}" for ticket_id, first in merged()}
        | {f"/tickets/{ticket_id}/state": "closed" for ticket_id, _ in merged()},
        44: {f"/tickets/{commit['ticket']}/comments": comments(commit["ticket"]) for commit in fixes()},
        45: {f"/prices/{sku}": price for sku, price in vests().items()},
        46: {"/books/monthly": billed()},
        47: {f"/memory/{name}/1": f"wrote {number} comments" for name, number in wrote()},
        48: {f"/branches/mend-{service}": COMMITS[-1]["message"] for service in open_ends()},
        49: {f"/files/errors~1{service}.log": errors_of(service) for service in world.SERVICES},
        50: {f"/relations/{6 + at}": [s, "listens on", f"port {8000 + 11 * at}"] for at, s in enumerate(world.SERVICES)}
        | {f"/memory/port {8000 + 11 * at}": [] for at in range(6)},
        52: {f"/refunds/{len(given)}": {"order": cheapest["id"], "amount": 5, "reason": "scratched"}},
        60: {"/files/report.json": json.dumps(morning())},
    }


if __name__ == "__main__":
    left = leaves()
    worked_out = {
        number: {"prints": [str(line) for line in lines], "leaves": left.get(number, {})}
        for number, lines in prints().items()
    }
    print(json.dumps(worked_out))
