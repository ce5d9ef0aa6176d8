"""One log underneath, every messaging style as a view of it, Spark on top."""

from importlib import import_module

TYPE_CHECKING = False  # As a type checker sees typing's, whose import would cost most of ours.
if TYPE_CHECKING:
    from mainstem.client.connected import ConnectedStem, connect
    from mainstem.client.embedded import EmbeddedStem, open_stem
    from mainstem.client.local_broker import LocalBroker
    from mainstem.client.queues import Delivery, Queue, QueueInfo
    from mainstem.client.stem import GroupInfo, Lag, Stem, Subscription, TopicInfo
    from mainstem.core.errors import MainstemError
    from mainstem.core.event import Event, Position
    from mainstem.core.topic_settings import Durability, Overload, TopicSettings

    open = open_stem  # noqa: A001 - named like what it does, as in gzip and shelve

__version__ = "0.1.0.dev0"

_PLACES = {
    "open": "mainstem.client.embedded:open_stem",
    "connect": "mainstem.client.connected:connect",
    "ConnectedStem": "mainstem.client.connected:ConnectedStem",
    "Delivery": "mainstem.client.queues:Delivery",
    "EmbeddedStem": "mainstem.client.embedded:EmbeddedStem",
    "GroupInfo": "mainstem.client.stem:GroupInfo",
    "Lag": "mainstem.client.stem:Lag",
    "LocalBroker": "mainstem.client.local_broker:LocalBroker",
    "Queue": "mainstem.client.queues:Queue",
    "QueueInfo": "mainstem.client.queues:QueueInfo",
    "Stem": "mainstem.client.stem:Stem",
    "Subscription": "mainstem.client.stem:Subscription",
    "TopicInfo": "mainstem.client.stem:TopicInfo",
    "MainstemError": "mainstem.core.errors:MainstemError",
    "Event": "mainstem.core.event:Event",
    "Position": "mainstem.core.event:Position",
    "Durability": "mainstem.core.topic_settings:Durability",
    "Overload": "mainstem.core.topic_settings:Overload",
    "TopicSettings": "mainstem.core.topic_settings:TopicSettings",
    "aio": "mainstem.aio",
    "errors": "mainstem.core.errors",
}
"""Public name → where it is; loaded at its first use, so that the import alone costs nothing."""

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
    "__version__",
    "aio",
    "connect",
    "errors",
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
