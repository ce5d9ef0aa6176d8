"""The operation that lists the node's settings; they are read at start only."""

import msgspec

from mainstem.auth import CLUSTER, Action, Peer
from mainstem.heads.admin_operations import NoArguments, operation
from mainstem.heads.context import HeadContext
from mainstem.node.config import Config, settings, value_of


class SettingState(msgspec.Struct, frozen=True):
    """A setting of the node, and its value."""

    name: str
    variable: str
    """The environment variable that sets it."""
    value: object
    default: str
    description: str


class SettingOperations:
    """Operations on settings; they require permission to describe the cluster."""

    def __init__(self, context: HeadContext, config: Config) -> None:
        self._context, self._config = context, config

    @operation("settings", changes=False)
    def every(self, peer: Peer, _: NoArguments) -> list[SettingState]:
        """List the settings of the node with their values."""
        self._context.auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)
        return [
            SettingState(
                it.name, it.variable, value_of(self._config, it.name), it.default, it.sentence
            )
            for it in settings()
        ]
