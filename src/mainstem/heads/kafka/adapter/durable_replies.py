"""Sends the response to a request when the changes that it has made are durable."""

import threading
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire

Result = TypeVar("Result")


class Results(Generic[Result]):
    """The results for the items of a request, in its order; replies when all are known."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._results: list[Result] = []
        self._left = 1
        self._reply: Callable[[list[Result]], None] = lambda _: None

    def add(self, result: Result) -> None:
        """Add a result that is already known."""
        self._results.append(result)

    def attempt(
        self,
        change: Callable[[], Durable],
        result: Result,
        refused: Callable[[MainstemError], Result],
    ) -> None:
        """Call ``change``, and add its result.

        That is ``result`` if the change succeeds and becomes durable, else what ``refused``
        returns.
        """
        try:
            durable = change()
        except MainstemError as error:
            self.add(refused(error))
        else:
            self.add_later(durable, result, refused)

    def add_later(
        self, durable: Durable, result: Result, refused: Callable[[MainstemError], Result]
    ) -> None:
        """Add ``result`` if a change becomes durable, or what ``refused`` returns if it fails."""
        at = len(self._results)
        self._results.append(result)
        self._left += 1

        def decide(error: MainstemError | None) -> None:
            if error is not None:
                self._results[at] = refused(error)
            self._one_less()

        if durable.done:
            durable.then(decide)
        else:
            durable.then(lambda error: self._service.on_loop(lambda: decide(error)))

    def then(self, reply: Callable[[list[Result]], None]) -> None:
        """Call ``reply`` with the results when all are known; none may be added after this."""
        self._reply = reply
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._reply(self._results)


class Kept(Protocol):
    """The durability of a change that was made."""

    def then(self, call: Callable[[MainstemError | None], None]) -> None:
        """Call ``call`` when the change is durable, or with the error if it cannot be stored."""


def when_all(durables: Iterable[Kept], call: Callable[[MainstemError | None], None]) -> None:
    """Call ``call`` when all changes are durable, or with the first error; from any thread."""
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
    """Return a callback, for any thread, that sends the response in the event loop."""
    return lambda failed: asked.service.on_loop(lambda: reply(body(failed)))


Then = Callable[[Callable[[MainstemError | None], None]], None]


def reply_when_durable(asked: Asked, then: Then, answer: Callable[[Code], None]) -> None:
    """Send the response in the event loop when a change is durable or has failed.

    ``then`` registers a callback for that; ``answer`` sends the response with an error code, or
    NONE.
    """
    service = asked.service

    def settled(error: MainstemError | None) -> None:
        code = Code.NONE if error is None else code_in(asked.header, error)
        service.on_loop(lambda: answer(code))

    then(settled)
