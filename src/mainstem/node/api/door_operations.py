"""The common part of operations on what the broker holds."""

from mainstem.auth import Peer
from mainstem.broker.door import Door
from mainstem.heads.context import HeadContext


class DoorOperations:
    """Base class of operations, which have the permissions of the peer that asks."""

    def __init__(self, context: HeadContext) -> None:
        self._context = context

    def _door(self, peer: Peer) -> Door:
        return self._context.door(peer)
