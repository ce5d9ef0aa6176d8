"""The server as seen by ``mainstem connector run``, through its admin port."""

from typing import TypeVar

import msgspec

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.errors import ConnectorTaken, LeaseEnded
from mainstem.connectors.running.lease_messages import Status, Taken, TargetTopic
from mainstem.connectors.running.own_process import TargetBusy
from mainstem.core.errors import Failure
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.admin_operations import OperationFailed
from mainstem.node.connector_operations import (
    END,
    PUBLISH,
    RENEW,
    TAKE,
    TOPIC,
    Done,
    EndLease,
    FoundTopic,
    LeasedTopic,
    PieceTaken,
    PublishPiece,
    Renewed,
    RenewLease,
    TakeConnector,
)

T = TypeVar("T")


class AdminServer:
    """Implements the port ``connectors.own_process.Server`` by calls of the admin port."""

    def __init__(self, admin: ServerAdmin) -> None:
        self._admin = admin

    def take(self, name: str, holder: str) -> Taken:
        """Take the lease of a connector; raises ConnectorTaken."""
        try:
            return self._ask(TAKE, TakeConnector(name, holder), Taken)
        except OperationFailed as error:
            if error.failure is Failure.CONFLICT:
                raise ConnectorTaken(str(error)) from None
            raise

    def renew(self, name: str, token: str, status: Status) -> bytes | None:
        """Extend the lease; returns the request to read tables again, None if there is none."""
        return self._ask(RENEW, RenewLease(name, token, status), Renewed).request

    def publish(self, name: str, token: str, piece: bytes, at: int, *, is_last: bool) -> str:
        """Send a piece of an append; returns "" or why the append was not done."""
        return self._ask(PUBLISH, PublishPiece(name, token, piece, at, is_last), PieceTaken).why

    def topic(
        self, name: str, token: str, topic: str, create: TopicSettings | None
    ) -> TargetTopic | None:
        """Return a topic, None if there is none; ``create`` has the settings to create it with."""
        return self._ask(TOPIC, LeasedTopic(name, token, topic, create), FoundTopic).topic

    def end(self, name: str, token: str) -> None:
        """End the lease, after the connector was stopped."""
        self._ask(END, EndLease(name, token), Done)

    def _ask(self, operation: str, asked: msgspec.Struct, kind: type[T]) -> T:
        try:
            return self._admin.change(operation, asked, kind)
        except OperationFailed as error:
            if error.failure is Failure.FENCED:
                raise LeaseEnded from None
            if error.failure in (Failure.OVERLOADED, Failure.UNAVAILABLE):
                raise TargetBusy(str(error)) from None
            raise
