"""Receivers of feeds: ``MulticastFeed`` (MoldUDP64), and ``ZmqFeed`` (ZeroMQ)."""

from importlib import import_module

from mainstem.client.feeds.multicast import FeedReport, MulticastFeed, replayed
from mainstem.client.feeds.reassembly import Message, Patience
from mainstem.core.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mainstem.client.feeds.zeromq import (
        FeedRefused,
        ZmqFeed,
        ZmqLogin,
        ZmqPatience,
        ZmqReport,
    )

__all__ = [
    "FeedRefused",
    "FeedReport",
    "Message",
    "MulticastFeed",
    "Patience",
    "ZmqFeed",
    "ZmqLogin",
    "ZmqPatience",
    "ZmqReport",
    "replayed",
]
_ZMQ = {"FeedRefused", "ZmqFeed", "ZmqLogin", "ZmqPatience", "ZmqReport"}


def __getattr__(name: str) -> object:
    if name not in _ZMQ:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found: object = getattr(import_module("mainstem.client.feeds.zeromq"), name)
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"{name} needs the package {error.name}: pip install 'mainstem[zmq]'"
        ) from None
    return found
