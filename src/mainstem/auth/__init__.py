"""Who is speaking, how they prove it, and what they may do; knows no protocol.

A head makes a ``Peer`` of every connection (``Auth.peer``), and another one once it has logged in
(``Auth.authenticate``). What the peer may do is asked for at the broker's door, once for all heads:
``HeadContext.door(peer)`` is the door as that peer sees it.
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
