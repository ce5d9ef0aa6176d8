"""Rights: which action on which resource, and who decides."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from mainstem.auth.peers import Principal
from mainstem.core.errors import Denied


class Action(StrEnum):
    """What somebody wants to do; as in Kafka, every other one implies DESCRIBE."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class ResourceKind(StrEnum):
    """What rights are given on."""

    TOPIC = "topic"
    GROUP = "group"
    """Also a queue, by its name: a Kafka share group is one."""
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"
    """What belongs to no topic or group: the server itself."""


class Resource(msgspec.Struct, frozen=True):
    """One thing that rights are given on."""

    kind: ResourceKind
    name: str


CLUSTER = Resource(ResourceKind.CLUSTER, "mainstem")

Authorize = Callable[[Principal, Action, Resource], None]
"""Raises Denied, or Unauthenticated if logging in would help."""


def allow_all(_principal: Principal, _action: Action, _resource: Resource) -> None:
    """Allow everything, as long as there are no users."""


def deny_all(principal: Principal, action: Action, resource: Resource) -> None:
    """Deny everything."""
    raise Denied(principal.name, action, resource.kind, resource.name)
