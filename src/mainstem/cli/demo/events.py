"""Realistic events for the demo of ``./run``: page views, purchases, sensor readings."""

import json
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from mainstem.core.event import Event

TOPICS = ("sample.views", "sample.purchases", "sample.readings")
_PAGES = ("/", "/search", "/garden", "/garden/rakes", "/books", "/books/rivers", "/cart")
_PRODUCTS = {"rake": 24.9, "spade": 31.5, "atlas of rivers": 49.0, "raincoat": 79.95, "mug": 9.5}
_CITIES = ("Ulm", "Linz", "Basel", "Köln", "Graz")
_SENSORS = ("boiler", "cellar", "roof", "greenhouse")


def sample_events(chance: random.Random, now: datetime) -> Iterator[tuple[str, Event]]:
    """Yield the events of 0.1 seconds, each with its topic."""
    visitors = max(1, round(5 + 3 * math.sin(now.timestamp() / 20)))
    for _ in range(visitors):
        visitor = f"visitor-{chance.randrange(400)}"
        page = chance.choices(_PAGES, (9, 6, 5, 3, 4, 2, 2))[0]
        yield _event("sample.views", visitor, chance, now, page=page, visitor=visitor)
    if chance.random() < 0.3:
        product, price = chance.choice(list(_PRODUCTS.items()))
        name = f"purchase-{chance.getrandbits(40):010x}"
        yield _event(
            "sample.purchases",
            name,
            chance,
            now,
            id=name,
            product=product,
            city=chance.choice(_CITIES),
            amount=f"{price * chance.randint(1, 3):.2f}",
        )
    for number, sensor in enumerate(_SENSORS):
        if chance.random() < 0.5:
            warm = 18 + 6 * number + 3 * math.sin(now.timestamp() / 30 + number)
            celsius = f"{warm + chance.gauss(0, 0.4):.2f}"
            yield _event("sample.readings", sensor, chance, now, sensor=sensor, celsius=celsius)


def _event(
    topic: str, key: str, chance: random.Random, now: datetime, **values: str
) -> tuple[str, Event]:
    # Simulates slow networks: some events are sent late.
    at = now - timedelta(milliseconds=chance.expovariate(1 / 300))
    value = json.dumps(values | {"at": at.astimezone(UTC).isoformat()}, ensure_ascii=False)
    return topic, Event(value.encode(), key=key.encode())
