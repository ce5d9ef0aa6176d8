"""An event-streaming system: one log, views of it for every messaging style, Spark pipelines."""

from importlib import import_module

TYPE_CHECKING = False  # For type checkers; importing typing takes longer than this module.
if TYPE_CHECKING:
    from mainstem.client.connected.stem import ConnectedStem, connect
    from mainstem.client.embedded.stem import EmbeddedStem, open_stem
    from mainstem.client.info import GroupInfo, Lag, QueueInfo, TopicInfo
    from mainstem.client.stem import Delivery, Queue, Stem, Subscription, Writer
    from mainstem.client.testing.local_broker import LocalBroker
    from mainstem.core.errors import MainstemError
    from mainstem.core.event import Event, Position
    from mainstem.core.topic_settings import Durability, Overload, TopicSettings

    open = open_stem  # noqa: A001 - named like what it does, as in gzip and shelve

__version__ = "0.1.0.dev0"

_PLACES = {
    "open": "mainstem.client.embedded.stem:open_stem",
    "connect": "mainstem.client.connected.stem:connect",
    "ConnectedStem": "mainstem.client.connected.stem:ConnectedStem",
    "Delivery": "mainstem.client.stem:Delivery",
    "EmbeddedStem": "mainstem.client.embedded.stem:EmbeddedStem",
    "GroupInfo": "mainstem.client.info:GroupInfo",
    "Lag": "mainstem.client.info:Lag",
    "LocalBroker": "mainstem.client.testing.local_broker:LocalBroker",
    "Queue": "mainstem.client.stem:Queue",
    "QueueInfo": "mainstem.client.info:QueueInfo",
    "Stem": "mainstem.client.stem:Stem",
    "Subscription": "mainstem.client.stem:Subscription",
    "TopicInfo": "mainstem.client.info:TopicInfo",
    "Writer": "mainstem.client.stem:Writer",
    "MainstemError": "mainstem.core.errors:MainstemError",
    "Event": "mainstem.core.event:Event",
    "Position": "mainstem.core.event:Position",
    "Durability": "mainstem.core.topic_settings:Durability",
    "Overload": "mainstem.core.topic_settings:Overload",
    "TopicSettings": "mainstem.core.topic_settings:TopicSettings",
    "aio": "mainstem.aio",
    "errors": "mainstem.core.errors",
    "feeds": "mainstem.feeds",
}
"""Public names and their locations; loaded at first use, so that the import alone is fast."""

__all__ = [
    "ConnectedStem",
    "Delivery",
    "Durability",
    "EmbeddedStem",
    "Event",
    "GroupInfo",
    "Lag",
    "LocalBroker",
    "MainstemError",
    "Overload",
    "Position",
    "Queue",
    "QueueInfo",
    "Stem",
    "Subscription",
    "TopicInfo",
    "TopicSettings",
    "Writer",
    "__version__",
    "aio",
    "connect",
    "errors",
    "feeds",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    found = import_module(module)
    value: object = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
