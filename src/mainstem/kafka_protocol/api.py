"""An API of the Kafka protocol: its request, its response, and their versions."""

import msgspec

from mainstem.kafka_protocol.fields import Wire

NEVER = 0x7FFF
"""The value of ``flexible_since`` for an API without flexible versions."""


class Api(msgspec.Struct, frozen=True):
    """One API of the protocol: request and response in the versions ``first`` to ``last``."""

    key: int
    request: type[Wire]
    response: type[Wire]
    first: int
    last: int
    flexible_since: int = NEVER

    @property
    def name(self) -> str:
        """The API's name in the Kafka protocol."""
        return self.request.__name__.removesuffix("Request")

    def flexible(self, version: int) -> bool:
        """Tell whether a version is flexible: with compact lengths and tagged fields."""
        return version >= self.flexible_since


def api(
    key: int, request: type[Wire], response: type[Wire], versions: str, flexible: str = "none"
) -> Api:
    """Define an API.

    ``versions`` and ``flexible`` are as in Kafka's schemas, like "0-13" and "9+".
    """
    first, _, last = versions.partition("-")
    since = NEVER if flexible == "none" else int(flexible.removesuffix("+"))
    return Api(key, request, response, int(first), int(last or first), since)
