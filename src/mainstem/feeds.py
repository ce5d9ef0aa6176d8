"""Receivers of live feeds: ``MulticastFeed`` (MoldUDP64), ``ZmqFeed`` and ``NngFeed``."""

from importlib import import_module

from mainstem.client.feeds.following import FeedPatience, FeedRefused, TopicReport
from mainstem.client.feeds.multicast import FeedReport, MulticastFeed, replayed
from mainstem.client.feeds.reassembly import Message, Patience
from mainstem.core.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mainstem.client.feeds.nng import NngFeed
    from mainstem.client.feeds.zeromq import ZmqFeed, ZmqLogin

__all__ = [
    "FeedPatience",
    "FeedRefused",
    "FeedReport",
    "Message",
    "MulticastFeed",
    "NngFeed",
    "Patience",
    "TopicReport",
    "ZmqFeed",
    "ZmqLogin",
    "replayed",
]
_OPTIONAL = {"NngFeed": "nng", "ZmqFeed": "zeromq", "ZmqLogin": "zeromq"}
_EXTRAS = {"nng": "nng", "zeromq": "zmq"}


def __getattr__(name: str) -> object:
    module = _OPTIONAL.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found: object = getattr(import_module(f"mainstem.client.feeds.{module}"), name)
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"{name} needs the package {error.name}: pip install 'mainstem[{_EXTRAS[module]}]'"
        ) from None
    return found
