"""The clients: a process that publishes over many connections, or follows on many.

It speaks as little HTTP as it can, so that the server is what is measured. What it found, it prints
as JSON.
"""

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

EVENT = b'{"id": 1234567, "customer": "ann", "amount": 12.50, "note": "%b"}' % (b"x" * 140)
PATH = "/topics/orders/events"


def request(host: str, events: int) -> bytes:
    """Return a request that publishes some events."""
    kind = "application/json" if events == 1 else "application/x-ndjson"
    body = b"\n".join([EVENT] * events)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Publisher(asyncio.Protocol):
    """Sends the same request again and again, each after the answer to the one before."""

    def __init__(self, work: "Work") -> None:
        self._work = work
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        """Send the next request once the answer is whole."""
        heard = self._heard = self._heard + data
        end = heard.find(b"\r\n\r\n")
        if end < 0:
            return
        at = heard.lower().index(b"content-length: ") + 16
        if len(heard) < end + 4 + int(heard[at : heard.index(b"\r\n", at)]):
            return
        assert heard.startswith(b"HTTP/1.1 200"), heard[:500]
        self._heard = b""
        self._work.done()
        self._next()

    def _next(self) -> None:
        if self._work.begin():
            self._transport.write(self._work.request)
        else:
            self._transport.close()


class Work:
    """How many requests are sent, and answered."""

    def __init__(self, request: bytes, count: int) -> None:
        self.request = request
        self._to_send = self._to_hear = count
        self.over = asyncio.Event()

    def begin(self) -> bool:
        """Tell whether to send another request."""
        self._to_send -= 1
        return self._to_send >= 0

    def done(self) -> None:
        """Count an answer."""
        self._to_hear -= 1
        if not self._to_hear:
            self.over.set()


class Follower(asyncio.Protocol):
    """Follows the topic, and counts events."""

    def __init__(self, host: str, events: int) -> None:
        self._host, self._left = host, events
        self.begun, self.over = asyncio.Event(), asyncio.Event()
        self._end = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to follow."""
        accept = "Accept: text/event-stream"
        asked = f"GET {PATH} HTTP/1.1\r\nHost: {self._host}\r\n{accept}\r\n\r\n"
        cast(asyncio.Transport, transport).write(asked.encode())

    def data_received(self, data: bytes) -> None:
        """Count the events."""
        if not self.begun.is_set() and b"id: " in data:
            self.begun.set()
        data = self._end + data
        self._left -= data.count(b"\ndata: ")
        # So much of the next "\ndata: " may be there.
        self._end = data[-6:]
        if self._left <= 0:
            self.over.set()


async def publish(host: str, connections: int, events: int, count: int) -> float:
    """Send requests; return how long it took."""
    work = Work(request(host, events), count)
    at, _, port = host.rpartition(":")
    began = time.perf_counter()
    for _ in range(connections):
        await asyncio.get_running_loop().create_connection(lambda: Publisher(work), at, int(port))
    await work.over.wait()
    return time.perf_counter() - began


async def fan_out(host: str, clients: int, events: int, count: int) -> float:
    """Publish while clients follow; return how long it took until all had everything."""
    at, _, port = host.rpartition(":")
    loop = asyncio.get_running_loop()
    # Topics that do not exist cannot be followed.
    await publish(host, 1, events, 1)
    following = [Follower(host, events * count) for _ in range(clients)]
    for each in following:
        await loop.create_connection(lambda each=each: each, at, int(port))  # type: ignore[misc]
        await each.begun.wait()
    began = time.perf_counter()
    await publish(host, 4, events, count)
    for each in following:
        await each.over.wait()
    return time.perf_counter() - began


if __name__ == "__main__":
    what, host, *numbers = sys.argv[1:]
    load = {"publish": publish, "fan_out": fan_out}[what]
    print(json.dumps(uvloop.run(load(host, *map(int, numbers)))))
