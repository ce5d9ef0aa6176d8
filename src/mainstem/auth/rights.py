"""Permissions: actions on resources, and functions that grant or deny them."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from mainstem.auth.peers import Principal
from mainstem.core.errors import Denied


class Action(StrEnum):
    """What a permission allows; as in Kafka, every other action implies DESCRIBE."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class ResourceKind(StrEnum):
    """The kind of resource that a permission is about."""

    TOPIC = "topic"
    GROUP = "group"
    """A consumer group, or a queue by its name, as a Kafka share group is a queue."""
    EXCHANGE = "exchange"
    """An exchange of AMQP."""
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"
    """The server itself, for operations that concern no topic, group or exchange."""


class Resource(msgspec.Struct, frozen=True):
    """A resource, by kind and name, that permissions are about."""

    kind: ResourceKind
    name: str


CLUSTER = Resource(ResourceKind.CLUSTER, "mainstem")

Authorize = Callable[[Principal, Action, Resource], None]
"""Raises Denied, or Unauthenticated if a login might grant the permission."""


def allow_all(_principal: Principal, _action: Action, _resource: Resource) -> None:
    """Allow everything: the default rule while there are no users."""


def deny_all(principal: Principal, action: Action, resource: Resource) -> None:
    """Deny everything."""
    raise Denied(principal.name, action, resource.kind, resource.name)
