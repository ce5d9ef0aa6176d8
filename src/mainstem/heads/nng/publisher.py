"""Publishes through a PUB socket, and estimates how many messages nng drops without a report.

How this works: nng counts the messages that TCP has taken for each connection. Each of the others
waits in the connection's queue, or was dropped. The queue's length is known, but not how many wait
in it; so it is assumed to be full, and drops are underestimated. Drops for a connection since the
last look before it ended are not counted either.
"""

from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import encode_whole
from mainstem.heads.context import HeadContext
from mainstem.heads.transport.nng_socket import NngSocket

LOOK_MS = 500


class Publisher:
    """Publishes through a PUB socket, and counts dropped messages."""

    def __init__(self, context: HeadContext, opened: NngSocket, queue_length: int) -> None:
        self._context, self._socket = context, opened
        # One more than the queue holds: a message that is being written to TCP.
        self._may_wait = queue_length + 1
        self._is_due = False
        self._ended = 0
        """Messages dropped for connections that have ended."""
        self._dropped: dict[int, int] = {}

    @property
    def dropped(self) -> int:
        """The least number of messages that were dropped, summed over connections."""
        return self._ended + sum(self._dropped.copy().values())

    def publish(self, event: Event, after: int) -> bool:
        """Publish an event; always return True: nng drops it for subscribers without room."""
        self._socket.send(encode_whole(event, after))
        if not self._is_due and self._socket.peers:
            self._is_due = True
            self._context.after(LOOK_MS, self._look)
        return True

    def publish_anyway(self, event: Event, after: int) -> None:
        """Publish an event, as ``publish`` does."""
        self.publish(event, after)

    def _look(self) -> None:
        self._is_due = False
        opened = self._socket
        for number, transmitted in opened.transmitted().items():
            sent = opened.sends - opened.sends_before[number]
            dropped = sent - transmitted - self._may_wait
            self._dropped[number] = max(self._dropped.get(number, 0), dropped)
        for number in self._dropped.keys() - opened.peers.keys():
            self._ended += self._dropped.pop(number)
