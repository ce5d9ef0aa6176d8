"""Receives a topic through a server's nng sockets: REQ for requests, SUB for live events."""

import contextlib
import select
import time
from collections.abc import Iterator
from typing import Unpack

import pynng

from mainstem.client.feeds.following import FeedArguments, TopicFeed
from mainstem.core.errors import InvalidSetting
from mainstem.heads.brokerless.codec import (
    Answer,
    Published,
    Request,
    decode_answer,
    decode_whole,
    encode_request,
    joined,
    parted,
)

_MESSAGES_AT_ONCE = 1_000
_QUEUED = 8192
_ANSWER_S = 1.0


class NngFeed(TopicFeed):
    """A receiver of a topic over nng; for one thread at a time."""

    def __init__(self, address: str, topic: str, **options: Unpack[FeedArguments]) -> None:
        """Connect to the server's socket for replays, such as ``tcp://127.0.0.1:5570``.

        ``options``: start, patience, timeout_s, as ``TopicFeed`` has them. The server publishes the
        topic live only if its setting ``nng.topics`` names it; otherwise all events must be
        requested.
        """
        patience = options.get("patience")
        link = _NngLink(address, patience.answer_s if patience else _ANSWER_S)
        super().__init__(link, topic, **options)


class _NngLink:
    """The connections to a server; REQ allows one request at a time, so others wait for it."""

    def __init__(self, address: str, answer_s: float) -> None:
        if not address.startswith("tcp://"):
            raise InvalidSetting(
                f"{address!r:.60}: NngFeed needs the address of the server's socket for replays, "
                "such as tcp://127.0.0.1:5570"
            )
        self.address, self._answer_s = address, answer_s
        self._waiting: dict[Request, None] = {}
        self._asked: Request | None = None
        self._asked_s = 0.0
        self._log = pynng.Req0(reconnect_time_min=10, reconnect_time_max=1_000)
        self._live = pynng.Sub0(
            reconnect_time_min=10, reconnect_time_max=1_000, recv_buffer_size=_QUEUED
        )
        self._poll = select.poll()
        for each in (self._log, self._live):
            self._poll.register(each.recv_fd, select.POLLIN)
        self._log.dial(address, block=False)

    def ask(self, request: Request) -> None:
        """Send a request, after those that are not answered yet."""
        self._waiting[request] = None
        self._send()

    def subscribe(self, topic: str, port: int) -> None:
        """Receive a topic's live events, from another port of the server's host."""
        host, _, _ = self.address.rpartition(":")
        self._live.subscribe(f"{topic}/".encode())
        self._live.dial(f"{host}:{port}", block=False)

    def receive(self, wait_s: float) -> Iterator[Answer | Published]:
        """Yield what has arrived, after waiting at most ``wait_s``."""
        self._poll.poll(int(wait_s * 1000) + 1)
        with contextlib.suppress(pynng.TryAgain, pynng.BadState):
            data = self._log.recv(block=False)
            self._asked = None
            self._send()
            yield decode_answer(parted(data))
        with contextlib.suppress(pynng.TryAgain):
            for _ in range(_MESSAGES_AT_ONCE):
                yield decode_whole(self._live.recv(block=False))

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._live.close()

    def _send(self) -> None:
        now_s = time.monotonic()
        if self._asked is not None and now_s < self._asked_s + self._answer_s:
            return
        request = next(iter(self._waiting), None)
        if request is not None:
            # An earlier request that was not answered in time is dropped; the feed will repeat it.
            with contextlib.suppress(pynng.TryAgain):
                self._log.send(joined(encode_request(request)), block=False)
                del self._waiting[request]
                self._asked, self._asked_s = request, now_s
