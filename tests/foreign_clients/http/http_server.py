"""Settings of a server for HTTP clients, and the address of a topic's events."""

import json
from typing import Any

from mainstem.node.config import Config

CONFIG = Config().listening(http="127.0.0.1:0")
EVENTS = "/topics/{}/events"
EVERY = [{"n": number} for number in range(3)]
LINES = "".join(json.dumps(each) + "\n" for each in EVERY)
"""Events of these values, as NDJSON."""
NDJSON = {"content-type": "application/x-ndjson"}
STREAM = {"accept": "text/event-stream"}


def values(read: dict[str, Any]) -> list[Any]:
    """Return the values of a range of events."""
    return [each["value"] for each in read["events"]]
