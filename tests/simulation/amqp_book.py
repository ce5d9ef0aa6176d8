"""Expected state and invariants of AMQP queues in the simulation.

Whatever is cut, killed or full: nothing that was confirmed is lost; nothing is delivered that was
not published, and nothing of a transaction that was not committed; a transaction is there as a
whole or not at all; what is delivered again says so, and what says so was delivered before or was
there when the server died; what was settled for good never comes again; and what one channel
publishes is first delivered in that order.
"""

from functools import partial
from typing import NamedTuple

from tests.simulation.world import World, Wrong

CONFIRMED, MOVING = "confirmed", "moving"
"""Queues to which messages are published."""
DEAD, MOVED = "dead", "moved"
"""Queues to which messages come from these: rejected, or moved in transactions."""

Copy = tuple[str, bytes]
"""A queue, and the body of a message, which no other message has."""


class Published(NamedTuple):
    """A message as its publisher knows it."""

    queues: tuple[str, ...]
    channel: str
    """On which it was published; no other channel ever has that name."""
    number: int
    is_persistent: bool = True
    moves: bytes = b""
    """The message of another queue that is acknowledged in the same transaction."""


class AmqpBook:
    """Everything that was published, delivered and settled."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._published: dict[bytes, Published] = {}
        self._confirmed: set[bytes] = set()
        self._withdrawn: set[bytes] = set()
        """Messages of transactions that were not committed."""
        self._together: list[tuple[bytes, ...]] = []
        """Messages of each transaction whose commit was sent."""
        self._sent: set[Copy] = set()
        """What was ever delivered."""
        self._acked: set[Copy] = set()
        """What somebody has acknowledged, and may be gone."""
        self._rejected: set[bytes] = set()
        """What somebody has rejected, and may be a dead letter."""
        self._moved: set[bytes] = set()
        """What was delivered from the queue to which it was moved."""
        self._gone: dict[Copy, int | None] = {}
        """What is settled, and how often the power had been cut then; None if it is durable."""
        self._last: dict[tuple[str, str], int] = {}
        """The number of the last message that was first delivered, by queue and channel."""
        self._is_restarted = False

    def place(self, body: bytes) -> tuple[str, int]:
        """Return on which channel a message was published, and its number there."""
        return self._published[body].channel, self._published[body].number

    # What clients do

    def publish(self, body: bytes, message: Published) -> None:
        """Take note that a message is on its way, perhaps in a transaction."""
        self._published[body] = message

    def confirm(self, bodies: tuple[bytes, ...]) -> None:
        """Take note that messages were confirmed, or their transaction was."""
        self._confirmed.update(bodies)

    def commit(self, bodies: tuple[bytes, ...]) -> None:
        """Take note that the commit of a transaction is on its way."""
        self._together.append(bodies)

    def withdraw(self, bodies: tuple[bytes, ...]) -> None:
        """Take note that a transaction was rolled back, or is never going to be committed."""
        self._withdrawn.update(bodies)

    def ack(self, copies: list[Copy]) -> None:
        """Take note that deliveries may be acknowledged from now on."""
        self._acked.update(copies)

    def reject(self, copies: list[Copy]) -> None:
        """Take note that deliveries may become dead letters from now on."""
        self._rejected.update(body for _, body in copies)

    def settled(self, copies: list[Copy], power_cuts: int | None) -> None:
        """Take note that the server has settled deliveries, when the power had been cut so often.

        None: that is durable.
        """
        for each in copies:
            self._gone[each] = power_cuts

    # What the server does

    def sent(self, queue: str, body: bytes, redelivered: bool) -> None:
        """See whether a message may be delivered."""
        self._world.note("amqp sent", queue, body, "redelivered" if redelivered else "")
        try:
            self._check(queue, body, redelivered)
        except Wrong as error:
            # The head would take it for an error of its own.
            self._world.at(0, partial(raise_in_world, error))
        self._world.deeds["amqp: redelivered" if redelivered else "amqp: delivered"] += 1

    def _check(self, queue: str, body: bytes, redelivered: bool) -> None:
        copy = (queue, body)
        message = self._published.get(body)
        if message is None or not self._may_have(queue, body, message):
            raise Wrong(f"{copy} was delivered, and nobody has published it")
        if body in self._withdrawn:
            raise Wrong(f"{copy} was delivered, and its transaction was not committed")
        if copy in self._gone and self._gone[copy] in (None, self._world.power_cuts):
            raise Wrong(f"{copy} was delivered, though it was settled")
        if copy in self._sent and not redelivered:
            raise Wrong(f"{copy} was delivered again, and not as redelivered")
        if copy not in self._sent and redelivered and not self._is_restarted:
            raise Wrong(f"{copy} was delivered as redelivered, and never was before")
        if copy not in self._sent:
            self._sent.add(copy)
            self._check_order(queue, message)
            self._check_moved(message)

    def _may_have(self, queue: str, body: bytes, message: Published) -> bool:
        if queue == DEAD:
            return body in self._rejected
        return queue in message.queues

    def _check_order(self, queue: str, message: Published) -> None:
        if queue == DEAD:
            return
        place = (queue, message.channel)
        if message.number < self._last.get(place, -1):
            raise Wrong(f"{message} comes to {queue} after number {self._last[place]}")
        self._last[place] = message.number

    def _check_moved(self, message: Published) -> None:
        if message.moves:
            if message.moves in self._moved:
                raise Wrong(f"{message.moves!r} was moved twice")
            self._moved.add(message.moves)

    def after_crash(self) -> None:
        """Take note that the server has begun anew."""
        # What was waiting then may have been delivered, as far as the server knows.
        self._is_restarted = True
        # What is not persistent is confirmed before it is durable.
        self._confirmed = {each for each in self._confirmed if self._published[each].is_persistent}

    def at_the_end(self) -> None:
        """See that nothing is missing, when all queues are empty."""
        for body in sorted(self._confirmed):
            for queue in self._published[body].queues:
                if not self._is_done(queue, body):
                    raise Wrong(f"{body!r} was confirmed, and {queue} has lost it")
        for bodies in self._together:
            there = {
                (queue, body) in self._sent
                for body in bodies
                for queue in self._published[body].queues
            }
            if len(there) > 1:
                raise Wrong(f"only a part of the transaction {bodies} is there")

    def _is_done(self, queue: str, body: bytes) -> bool:
        """Tell whether somebody has got a message from a queue, and settled it."""
        if (queue, body) in self._acked:
            return True
        return body in self._moved if queue == MOVING else (DEAD, body) in self._sent


def raise_in_world(error: Exception) -> None:
    """Raise what was found in a call that the server makes."""
    raise error
