"""Runs concurrent clients against a server for a while, and records their history."""

import contextlib
import gc
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaException, TopicPartition
from tests.checker import clients
from tests.checker.clients import INPUTS, OUTPUTS, PLACES, Client
from tests.checker.history import History, Operation, Outcome, Recorder
from tests.faults.killable_server import Tally, create, reader, until

PATIENCE_S = 90
ROLES: dict[str, tuple[int, Callable[[Client], None]]] = {
    "sender": (3, clients.send),
    "worker": (2, clients.work),
    "seeker": (2, clients.seek),
    "member": (2, clients.come_and_go),
}
"""How many clients there are of each kind."""
TRANSACTIONAL = ("sender", "worker")


class Workload:
    """Clients of each kind, from the beginning on."""

    def __init__(self, address: str, seed: int) -> None:
        self._recorder = Recorder()
        self._address = address
        self.done = Tally()
        create(address, "in", INPUTS)
        create(address, "out", OUTPUTS)
        for group in ("works", "crowd"):
            _begin_at_zero(address, group)
        self._clients: list[Client] = []
        self._threads: list[threading.Thread] = []
        for role, (count, live) in ROLES.items():
            for number in range(count):
                client = Client(f"{role} {number}", address, self._recorder, self.done, seed)
                self._clients.append(client)
                self._threads.append(client.run(live))

    def __enter__(self) -> "Workload":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def history(self) -> History:
        """What was done so far."""
        return list(self._recorder.history)

    def go_on(self, transactions: int) -> None:
        """Return once so many more transactions have ended."""
        wanted = self.done.count + transactions
        until = time.monotonic() + PATIENCE_S
        while self.done.count < wanted:
            assert time.monotonic() < until, f"nothing is done any more: {self.wrong}"
            self.done.wait_for(wanted - self.done.count)

    def finish(self) -> History:
        """Let everybody come to an end, and somebody read everything; return what was done."""
        self._stop()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name} does not end"
        # Clients that gave up are held by what they raised: nothing of them is to be left.
        gc.collect()
        for client in self._clients:
            if client.name.startswith(TRANSACTIONAL):
                until(client.settle)
        last = Client("last", self._address, self._recorder, self.done, 0)
        clients.read_everything(last)
        return self.history

    def _stop(self) -> None:
        for client in self._clients:
            client.stop.set()

    @property
    def wrong(self) -> list[str]:
        """What no client should have met."""
        return [each for client in self._clients for each in client.wrong]


def amounts(history: History) -> dict[str, int]:
    """Return how much there is of what makes a history worth checking."""
    operations = [each for each in history if isinstance(each, Operation)]
    sure = [each for each in operations if each.outcome is Outcome.OK]
    return {
        "acknowledged events": sum(len(each.sent) for each in sure),
        "transactions": sum(bool(each.sent) for each in sure),
        "processing transactions": sum(bool(each.group) for each in sure),
        "aborted transactions": sum(each.outcome is Outcome.ABORTED for each in operations),
        "unknown transactions": sum(each.outcome is Outcome.UNKNOWN for each in operations),
        "events read": sum(len(each.read) for each in operations),
        "seeks and assignments": len(history) - len(operations),
    }


def _begin_at_zero(address: str, group: str) -> None:
    """Give a group cursors, so that it never depends on when its members ask for the first one."""
    places = [TopicPartition(*place, 0) for place in PLACES]
    with contextlib.closing(reader(address, group)) as source:

        def has_committed() -> bool:
            # A server that has just started may have to find out what it knows of groups.
            with contextlib.suppress(KafkaException):
                return bool(source.commit(offsets=places, asynchronous=False))
            return False

        until(has_committed)
