"""Authentication and authorization, independent of protocols.

A head makes a ``Peer`` for every connection (``Auth.peer``), and another one after the login
(``Auth.authenticate``). Permissions are checked at the broker's door, once for all heads:
``HeadContext.door(peer)`` is the door with that peer's permissions.
"""

from mainstem.auth.auth import Auth, Authenticate, Credentials, accept_loopback
from mainstem.auth.peers import ANONYMOUS, Peer, Principal
from mainstem.auth.rights import (
    CLUSTER,
    Action,
    Authorize,
    Resource,
    ResourceKind,
    allow_all,
    deny_all,
)

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "Action",
    "Auth",
    "Authenticate",
    "Authorize",
    "Credentials",
    "Peer",
    "Principal",
    "Resource",
    "ResourceKind",
    "accept_loopback",
    "allow_all",
    "deny_all",
]
