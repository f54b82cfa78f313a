"""Two MCP servers over stdio, written by hand: the shop with its orders, and the desk with its tickets.

The data of each stand in a JSON file, which is written anew after each change.

usage: office_server.py shop|desk FILE
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

PAGE = 15


class RefusedError(Exception):
    """What a tool answers when it does not do what it is asked for."""


class Office:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.data = json.loads(file.read_text())
        self.asked: Counter[str] = Counter()

    def keep(self) -> None:
        self.file.write_text(json.dumps(self.data))

    def one(self, kind: str, key: str, value: str) -> dict[str, Any]:
        for found in self.data[kind]:
            if found[key] == value:
                return dict(found) if kind != "tickets" and kind != "products" else found
        raise RefusedError(f"there is no {kind.removesuffix('s')} {value}")


class Shop(Office):
    def list_orders(self, cursor: str = "", status: str = "") -> Any:
        "Lists orders, fifteen at a time, without their items; next_cursor leads to more."
        begin = int(cursor or 0)
        found = [order for order in self.data["orders"] if status in ("", order["status"])]
        page = [{key: order[key] for key in ("id", "customer", "date", "status", "total")} for order in found]
        rest = begin + PAGE < len(found)
        return {"orders": page[begin : begin + PAGE], "next_cursor": str(begin + PAGE) if rest else None}

    def get_order(self, id: str) -> Any:
        "An order with its items."
        return self.one("orders", "id", id)

    def get_customer(self, id: str) -> Any:
        "A customer: name, country, tier and address."
        return self.one("customers", "id", id)

    def list_products(self, page: int = 1) -> Any:
        "Lists products with prices, fifteen a page."
        every = self.data["products"]
        shown = [{key: product[key] for key in ("sku", "name", "category", "price")} for product in every]
        return {"products": shown[(page - 1) * PAGE : page * PAGE], "page": page, "pages": -(-len(every) // PAGE)}

    def get_stock(self, sku: str) -> Any:
        "How many of a product are in the house. The warehouse is busy at times: ask again then."
        product = self.one("products", "sku", sku)
        self.asked[sku] += 1
        if int(sku[1:]) % 3 == 0 and self.asked[sku] % 3 != 0:
            raise RefusedError("the warehouse is busy; try again")
        return {"sku": sku, "stock": product["stock"]}

    def refund(self, order: str, amount: int, reason: str) -> Any:
        "Gives money back for an order, once, at most its total, and not for one that was cancelled."
        found = self.one("orders", "id", order)
        if found["status"] == "cancelled":
            raise RefusedError(f"{order} was cancelled; nothing was paid")
        if amount > found["total"]:
            raise RefusedError(f"{amount} is more than the total of {order}, {found['total']}")
        if any(refund["order"] == order for refund in self.data["refunds"]):
            raise RefusedError(f"{order} has been refunded already")
        self.data["refunds"].append({"order": order, "amount": amount, "reason": reason})
        self.keep()
        return {"refunded": amount}

    def set_price(self, sku: str, price: int) -> Any:
        "Sets the price of a product."
        if price <= 0:
            raise RefusedError("a price is above 0")
        self.one("products", "sku", sku)["price"] = price
        self.keep()
        return {"sku": sku, "price": price}


class Desk(Office):
    def list_tickets(self, page: int = 1, state: str = "") -> Any:
        "Lists tickets, fifteen a page, without body and comments. States: open, pending, closed."
        found = [ticket for ticket in self.data["tickets"] if state in ("", ticket["state"])]
        keys = ("id", "customer", "order", "subject", "priority", "state", "agent", "hours")
        shown = [{key: ticket[key] for key in keys} for ticket in found]
        return {"tickets": shown[(page - 1) * PAGE : page * PAGE], "page": page, "pages": -(-len(found) // PAGE)}

    def get_ticket(self, id: str) -> Any:
        "A ticket with its body and comments."
        return self.one("tickets", "id", id)

    def list_agents(self) -> Any:
        "Who answers tickets: name, team, time zone."
        return {"agents": self.data["agents"]}

    def comment(self, id: str, by: str, text: str) -> Any:
        "Adds a comment to a ticket."
        ticket = self.one("tickets", "id", id)
        ticket["comments"].append({"by": by, "text": text})
        self.keep()
        return {"comments": len(ticket["comments"])}

    def assign(self, id: str, agent: str) -> Any:
        "Gives a ticket to an agent."
        ticket = self.one("tickets", "id", id)
        self.one("agents", "name", agent)
        ticket["agent"] = agent
        self.keep()
        return {"id": id, "agent": agent}

    def close(self, id: str, resolution: str) -> Any:
        "Closes a ticket that is not closed yet."
        ticket = self.one("tickets", "id", id)
        if ticket["state"] == "closed":
            raise RefusedError(f"{id} is closed already")
        ticket["state"] = "closed"
        ticket["resolution"] = resolution
        self.keep()
        return {"id": id, "state": "closed"}

    def export(self) -> Any:
        "All tickets with everything, as one text with a line of JSON for each."
        return "\n".join(json.dumps(ticket) for ticket in self.data["tickets"])


def schema(tool: Any) -> dict[str, Any]:
    """Of its parameters, by their annotations."""
    kinds = {"str": "string", "int": "integer"}
    names = {name: kind for name, kind in tool.__annotations__.items() if name != "return"}
    required = list(names)[: len(names) - len(tool.__defaults__ or ())]
    properties = {name: {"type": kinds[kind]} for name, kind in names.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def answer(office: Office, method: str, params: dict[str, Any]) -> dict[str, Any]:
    tools = {name: tool for name, tool in vars(type(office)).items() if callable(tool)}
    if method == "initialize":
        about = {"name": type(office).__name__.lower(), "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        listed = [{"name": n, "description": t.__doc__, "inputSchema": schema(t)} for n, t in tools.items()]
        return {"tools": listed}
    if method == "tools/call":
        try:
            made = tools[params["name"]](office, **params.get("arguments", {}))
        except RefusedError as refused:
            return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
        if isinstance(made, str):
            return {"content": [{"type": "text", "text": made}]}
        return {"content": [{"type": "text", "text": json.dumps(made)}], "structuredContent": made}
    return {}


def main() -> None:
    kind, file = sys.argv[1:]
    office = {"shop": Shop, "desk": Desk}[kind](Path(file))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(office, message["method"], message.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
