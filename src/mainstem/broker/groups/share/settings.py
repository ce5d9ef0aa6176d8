"""Settings of share groups: their Kafka names, and how they apply to queues."""

from collections.abc import Mapping

import msgspec

from mainstem.broker.queues.records import QueueSettings

HEARTBEAT = "share.heartbeat.interval.ms"
SESSION = "share.session.timeout.ms"
START = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
DELIVERIES = "share.delivery.count.limit"
LOCKS = "share.partition.max.record.locks"
ISOLATION = "share.isolation.level"
RENEW = "share.renew.acknowledge.enable"
ACQUIRE_MODE = "mainstem.share.acquire.mode"
TTL = "mainstem.share.ttl.ms"
MAX_LENGTH = "mainstem.share.max.length"
MAX_BYTES = "mainstem.share.max.bytes"
RECORD_LIMIT = "record_limit"


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a share group's members, and the start of its queues."""

    heartbeat_ms: int
    session_ms: int
    start: str
    """``earliest``, ``latest``, or ``by_duration:`` with a duration as PnDTnHnMnS."""
    lock_ms: int
    renews: bool


def settings_of(settings: Mapping[str, str]) -> ShareSettings:
    """Parse a group's settings from strings by Kafka's names."""
    return ShareSettings(
        heartbeat_ms=int(settings[HEARTBEAT]),
        session_ms=int(settings[SESSION]),
        start=settings[START],
        lock_ms=int(settings[LOCK]),
        renews=settings[RENEW] == "true",
    )


def fresh_queue(settings: Mapping[str, str]) -> QueueSettings:
    """Return the settings of a new queue of a share group."""
    return altered_queue(QueueSettings(), settings)


def altered_queue(was: QueueSettings, own: Mapping[str, str]) -> QueueSettings:
    """Return a queue's settings, overridden by the settings of its share group."""
    changes: dict[str, object] = {
        _OURS[name]: text == "read_uncommitted" if name == ISOLATION else int(text) or None
        for name, text in own.items()
        if name in _OURS
    }
    return msgspec.structs.replace(was, **changes) if changes else was


_OURS = {
    LOCK: "lock_ms",
    DELIVERIES: "max_deliveries",
    LOCKS: "max_unsettled",
    ISOLATION: "uncommitted",
    TTL: "ttl_ms",
    MAX_LENGTH: "max_length",
    MAX_BYTES: "max_bytes",
}
