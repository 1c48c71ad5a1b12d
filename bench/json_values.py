"""JSON values like those of applications, of exactly a given size."""

from __future__ import annotations

import json
import random

WORDS = ("user", "order", "city", "street", "north", "south", "paid", "ship", "small", "large", "price", "euro", "cart")


def order(chance: random.Random) -> dict[str, object]:
    return {
        "id": f"{chance.getrandbits(64):016x}",
        "at": chance.randrange(1_700_000_000_000, 1_710_000_000_000),
        "user": {"id": chance.randrange(1_000_000), "city": chance.choice(WORDS)},
        "lines": [
            {"sku": f"{chance.getrandbits(32):08x}", "n": chance.randint(1, 9), "price": chance.randint(1, 9999) / 100}
            for _ in range(chance.randint(1, 5))
        ],
        "paid": chance.random() < 0.7,
    }


def text_of(content: dict[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def value(size: int, chance: random.Random) -> bytes:
    """An object of exactly this size: mostly orders, if there is room for one, and a note that fills the rest."""
    orders: list[object] = []
    left = size * 0.6
    while left > 400:
        orders.append(order(chance))
        left -= len(text_of({"": orders[-1]}))
    content: dict[str, object] = {"orders": orders} if orders else {"id": chance.getrandbits(48), "paid": True}
    room = size - len(text_of({**content, "note": ""}))
    return text_of({**content, "note": " ".join(chance.choices(WORDS, k=room))[:room]})
