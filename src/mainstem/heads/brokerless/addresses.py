"""Parses settings that name topics or queues and the addresses where they are served."""

import re
from collections.abc import Iterator

import msgspec

from mainstem.core.errors import InvalidSetting, Unsupported
from mainstem.heads.addresses import AUTO, NONE, OFF, Address, parse_address
from mainstem.heads.brokerless.settings import BrokerlessSettings

_WORDS = re.compile(r"[\w.-]+", re.ASCII)
_MULTICAST = ("pgm", "epgm", "norm", "udp")


class Place(msgspec.Struct, frozen=True):
    """A topic, or a queue of a topic, and the address where it is served."""

    topic: str
    address: Address
    name: str = ""
    """The queue's or the subscriber's name; empty for a topic."""
    prefix: str = ""
    """Only messages that begin with this are received (the prefix of a SUB socket)."""


def publish_address(settings: BrokerlessSettings, listens_at: Address, setting: str) -> Address:
    """Return where PUB is to listen; raises InvalidSetting, Unsupported."""
    if settings.publish == AUTO:
        is_free = settings.listen.endswith(":0") or settings.listen == OFF
        return Address(listens_at.host, 0 if is_free else listens_at.port + 1)
    found = parse_address(settings.publish, setting)
    if found is None:
        raise Unsupported(f"{setting} cannot be off; write HOST:PORT or auto")
    return found


def places(text: str, setting: str, *, named: bool = False) -> Iterator[Place]:
    """Parse ``TOPIC=HOST:PORT,…``, or with ``named`` ``TOPIC/NAME=HOST:PORT,…``.

    Raises InvalidSetting.
    """
    for part in () if text == NONE else text.split(","):
        what, _, where = part.strip().partition("=")
        topic, slash, name = what.partition("/")
        names = (topic, name) if named else (topic,)
        if bool(slash) is not named or not all(map(_WORDS.fullmatch, names)) or not where:
            form = "TOPIC/NAME=HOST:PORT" if named else "TOPIC=HOST:PORT"
            raise InvalidSetting(f"{setting}: {part.strip()!r:.100} is not {form}")
        yield Place(topic, _address(tcp(where, setting), setting), name)


def sources(text: str, setting: str) -> Iterator[Place]:
    """Parse ``TOPIC=tcp://HOST:PORT,…``, each perhaps with ``#PREFIX``; raises InvalidSetting."""
    for part in () if text == NONE else text.split(","):
        topic, _, where = part.strip().partition("=")
        where, _, prefix = where.partition("#")
        if not _WORDS.fullmatch(topic) or not where:
            raise InvalidSetting(
                f"{setting}: {part.strip()!r:.100} is not TOPIC=tcp://HOST:PORT#PREFIX"
            )
        yield Place(topic, _address(tcp(where, setting), setting), prefix=prefix)


def tcp(where: str, setting: str) -> str:
    """Return an address without ``tcp://``; raises Unsupported for any other scheme."""
    scheme, found, rest = where.partition("://")
    if not found:
        return where
    if scheme in _MULTICAST:
        raise Unsupported(
            f"{setting}: {scheme}:// is not supported; serve the topic as a multicast feed "
            "(mainstem feed serve), whose losses are answered from the log"
        )
    if scheme != "tcp":
        raise Unsupported(f"{setting}: {scheme!r:.20}:// is not supported, only tcp://")
    return rest


def _address(where: str, setting: str) -> Address:
    found = parse_address(where, setting)
    if found is None:
        raise InvalidSetting(f"{setting}: an address is needed, such as 127.0.0.1:5557")
    return found
