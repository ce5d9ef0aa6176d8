"""Answers that wait for several changes to be durable."""

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.fields import Wire


class Kept(Protocol):
    """Something that becomes durable later."""

    def then(self, call: Callable[[MainstemError | None], None]) -> None:
        """Call back once it is durable, or has failed."""


def when_all(durables: Iterable[Kept], call: Callable[[MainstemError | None], None]) -> None:
    """Call back once everything is durable, or with the first error; from any thread."""
    kept = list(durables)
    left, lock = len(kept), threading.Lock()

    def decided(error: MainstemError | None) -> None:
        # The log's thread and a waiter may settle commits at the same time.
        nonlocal left
        with lock:
            was, left = left, 0 if error is not None else left - 1
            is_decided = was > 0 and left == 0
        if is_decided:
            call(error)

    if not kept:
        call(None)
    for each in kept:
        each.then(decided)


def reply_later(
    asked: Asked,
    reply: Reply,
    body: Callable[[MainstemError | None], Wire],
) -> Callable[[MainstemError | None], None]:
    """Return what answers, in the loop's thread, once it is known whether all is durable."""
    return lambda failed: asked.service.on_loop(lambda: reply(body(failed)))
