"""Permissions: actions on resources, and the functions that decide."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from mainstem.auth.peers import Principal
from mainstem.core.errors import Denied


class Action(StrEnum):
    """An operation; as in Kafka, all others imply DESCRIBE."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class ResourceKind(StrEnum):
    """A kind of resource."""

    TOPIC = "topic"
    GROUP = "group"
    """Also a queue, by its name: a Kafka share group is one."""
    EXCHANGE = "exchange"
    """An exchange of AMQP."""
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"
    """The server itself, for all that belongs to no topic or group."""


class Resource(msgspec.Struct, frozen=True):
    """A resource that permissions are about."""

    kind: ResourceKind
    name: str


CLUSTER = Resource(ResourceKind.CLUSTER, "mainstem")

Authorize = Callable[[Principal, Action, Resource], None]
"""Raises Denied, or Unauthenticated if a login might grant the permission."""


def allow_all(_principal: Principal, _action: Action, _resource: Resource) -> None:
    """Allow everything, as long as there are no users."""


def deny_all(principal: Principal, action: Action, resource: Resource) -> None:
    """Deny everything."""
    raise Denied(principal.name, action, resource.kind, resource.name)
