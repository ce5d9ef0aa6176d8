"""A Kafka cluster as its clients see it: address, librdkafka settings, timeout."""

import re
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from typing import TypeVar

from confluent_kafka import KafkaException

from mainstem.core.errors import InvalidSetting, MainstemError, Overloaded, Unreachable
from mainstem.remote.errors import core_error, kafka_error

T = TypeVar("T")
Setting = str | int | float | bool

_SPARE_S = 1.0
"""Seconds added to librdkafka's own timeout, which normally expires first."""
_AGAIN_S = 0.02
_OURS = {
    "bootstrap.servers": "it is the address",
    "group.id": "subscribe(group=...) says it",
    "enable.auto.commit": "subscribe(commit=...) says it",
    "auto.offset.reset": "subscribe(start=...) says it",
    "partitioner": "keys go where mainstem.open puts them",
}


class Cluster:
    """The address, settings and timeout that all clients of a cluster share."""

    def __init__(self, address: str, *, timeout_s: float, settings: Mapping[str, Setting]) -> None:
        if timeout_s <= 0:
            raise InvalidSetting(f"timeout_s must be more than 0, not {timeout_s}")
        self.address = address
        self.timeout_s = timeout_s
        self._settings = {_dotted(name): value for name, value in settings.items()}
        for name in self._settings:
            if name in _OURS:
                raise InvalidSetting(f"{name} cannot be set here: {_OURS[name]}")

    def config(self, **settings: Setting) -> dict[str, Setting]:
        """Return a librdkafka configuration; settings given by the caller override the defaults."""
        timeout_ms = max(1000, int(self.timeout_s * 1000))
        return {
            "bootstrap.servers": self.address,
            "client.id": "mainstem",
            # librdkafka would log to the program's stderr; errors are raised instead.
            "log_level": 0,
            "socket.connection.setup.timeout.ms": timeout_ms,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "socket.nagle.disable": True,
            **{_dotted(name): value for name, value in settings.items()},
            **self._settings,
        }

    def reader_config(self, **settings: Setting) -> dict[str, Setting]:
        """Return the configuration of a consumer that reads given partitions, without a group."""
        return self.config(
            group_id="mainstem-reader",
            enable_auto_commit=False,
            enable_partition_eof=True,
            **settings,
        )

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The librdkafka settings that the caller gave."""
        return self._settings

    @property
    def is_plain(self) -> bool:
        """Whether the connection uses neither TLS nor SASL."""
        return str(self._settings.get("security.protocol", "plaintext")).lower() == "plaintext"

    def check_reachable(self) -> None:
        """Raise Unreachable at once if no server listens; librdkafka would retry for long."""
        reason = ""
        for place in self.address.split(","):
            host, port = host_and_port(place)
            try:
                socket.create_connection((host, port), self.timeout_s).close()
            except OSError as error:
                reason = error.strerror or str(error) or type(error).__name__
            else:
                return
        raise Unreachable(self.address, reason)

    def result(
        self, future: "Future[T]", *, topic: str = "", partition: int = -1, group: str = ""
    ) -> T:
        """Return a future's result.

        Raises its error as a core error that names the topic or group.
        """
        try:
            return future.result(self.timeout_s + _SPARE_S)
        except KafkaException as error:
            raise self.refusal(error, topic=topic, partition=partition, group=group) from None
        except TookTooLong:
            raise Unreachable(self.address, f"no response within {self.timeout_s:g} s") from None

    def retry_while_busy(self, ask: Callable[[], T]) -> T:
        """Call ``ask`` until the server is no longer busy, such as loading its groups."""
        until = time.monotonic() + self.timeout_s
        while True:
            try:
                return ask()
            except Overloaded:
                if time.monotonic() > until:
                    raise
            time.sleep(_AGAIN_S)

    def refusal(
        self, error: KafkaException, *, topic: str = "", partition: int = -1, group: str = ""
    ) -> MainstemError:
        """Return librdkafka's error as a core error that names the topic or group."""
        return core_error(
            kafka_error(error), self.address, topic=topic, partition=partition, group=group
        )


def host_and_port(place: str) -> tuple[str, int]:
    """Split host:port; IPv6 addresses are in brackets."""
    host, colon, port = place.strip().rpartition(":")
    if not colon or not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise InvalidSetting(f"{place!r:.200} is no address; write host:port, as localhost:9092")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _dotted(name: str) -> str:
    """Return librdkafka's name of a setting: dots for underscores, except in log_level."""
    return name if name == "log_level" else name.replace("_", ".")
