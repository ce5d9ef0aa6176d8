"""Scenarios of the settings of topics: shown, changed and refused."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, until, word

from mainstem.kafka_protocol.messages.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    AlterConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlter,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterResource,
)

_TOPIC = 2
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_BAD_NAMES = ("none", "", ".", "a b", "a" * 250)
_VALUES = {
    "retention.ms": ("1000", "-1", "-2", "x", "", "1.5", "99999999999999999999", " 7 "),
    "retention.bytes": ("1000", "-1", "x"),
    "segment.bytes": ("1048576", "1000000000", "0", "-1", "x"),
    "segment.ms": ("1000", "1", "0"),
    "max.message.bytes": ("2000", "1048588", "-1", "x"),
    "delete.retention.ms": ("1000", "0", "-1"),
    "min.cleanable.dirty.ratio": ("0.5", "0", "1", "1.5", "-0.1", "x"),
    "min.compaction.lag.ms": ("0", "1000", "-1"),
    "max.compaction.lag.ms": ("1000", "0"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime", ""),
    "message.timestamp.after.max.ms": ("0", "1000", "9223372036854775807", "-2", "x"),
    "message.timestamp.before.max.ms": ("0", "1000", "9223372036854775807", "-2", "x"),
    "compression.type": (
        "producer",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
        "uncompressed",
        "none",
        "GZIP",
    ),
    "cleanup.policy": ("delete", "compact", "compact,delete", "delete, compact", "x", "delete,x"),
    "min.insync.replicas": ("1", "0", "x"),
    "preallocate": ("false", "x"),
    "file.delete.delay.ms": ("1000", "0", "-1", "x"),
    "index.interval.bytes": ("1000", "-1"),
    "flush.ms": ("1000", "-1"),
    "flush.messages": ("1000",),
}

_OTHER_DEFAULTS = {"segment.bytes", "segment.ms", "message.timestamp.after.max.ms"}


def _altered(
    side: Side, name: str, *entries: IncrementalAlter, kind: int = _TOPIC, only: bool = False
) -> str:
    resource = IncrementalAlterResource(kind, name, entries)
    body = IncrementalAlterConfigsRequest([resource], only)
    answer = side.ask(INCREMENTAL_ALTER_CONFIGS, body, IncrementalAlterConfigsResponse)
    return ", ".join(word(each.error_code) for each in answer.responses)


def _replaced(
    side: Side, name: str, *entries: AlterConfig, kind: int = _TOPIC, only: bool = False
) -> str:
    body = AlterConfigsRequest([AlterConfigsResource(kind, name, entries)], only)
    answer = side.ask(ALTER_CONFIGS, body, AlterConfigsResponse)
    return ", ".join(word(each.error_code) for each in answer.responses)


def _described(side: Side, name: str, *keys: str, kind: int = _TOPIC, version: int = -1) -> Said:
    body = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)])
    answer = side.ask(DESCRIBE_CONFIGS, body, DescribeConfigsResponse, version=version)
    return [
        (
            word(found.error_code),
            sorted(
                (it.name, _in_order(it.value), it.config_source, it.config_type)
                for it in found.configs
            ),
        )
        for found in answer.results
    ]


def _in_order(value: str | None) -> str | None:
    """Return the words of a list in one order: it has no meaning."""
    return value if value is None else ",".join(sorted(value.split(",")))


def _becomes(side: Side, topic: str, name: str, value: str) -> None:
    """Wait until a setting is shown as it was set, which Apache Kafka does a moment later."""
    until(lambda: f"('{name}', '{value}'" in str(_described(side, topic, name)))


@alike
def values_of_settings(side: Side) -> Iterator[Said]:
    for name, values in _VALUES.items():
        topic = side.topic().name
        for value in values:
            yield name, value, _altered(side, topic, IncrementalAlter(name, _SET, value), only=True)
            yield name, value, _replaced(side, topic, AlterConfig(name, value), only=True)


@unlike("what would keep nothing, or is smaller than any batch, is refused; -1 is no limit at all")
def values_within_other_bounds(side: Side) -> Iterator[Said]:
    for name, value in (
        ("retention.ms", "0"),
        ("retention.bytes", "0"),
        ("retention.bytes", "-2"),
        ("segment.ms", "-1"),
        ("max.message.bytes", "1000"),
        ("max.compaction.lag.ms", "-1"),
    ):
        topic = side.topic().name
        yield name, value, _altered(side, topic, IncrementalAlter(name, _SET, value), only=True)


@alike
def settings_that_are_none(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    for name in ("x", "", "mainstem", "num.partitions", "share.session.timeout.ms"):
        for operation in (_SET, _APPEND, _SUBTRACT):
            yield name, operation, _altered(side, topic, IncrementalAlter(name, operation, "1"))
        yield name, "replaced", _replaced(side, topic, AlterConfig(name, "1"))
        yield name, "shown", _described(side, topic, name)


@unlike("a setting there is not is a mistake, also of who deletes it")
def deleting_settings_there_are_not(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    for name in ("x", "", "num.partitions"):
        yield name, _altered(side, topic, IncrementalAlter(name, _DELETE, None))


@unlike("INVALID_CONFIG; an Apache Kafka fails with UNKNOWN_SERVER_ERROR, or takes '' for a word")
def operations_there_are_not(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    for operation in (4, -1):
        yield _altered(side, topic, IncrementalAlter("retention.ms", operation, "7"))
    yield _altered(side, topic, IncrementalAlter("cleanup.policy", _APPEND, ""))


@alike
def operations(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    for name in ("retention.ms", "cleanup.policy"):
        for operation in (_SET, _APPEND, _SUBTRACT, _DELETE):
            for value in ("7", "compact", "delete", None):
                entry = IncrementalAlter(name, operation, value)
                yield name, operation, value, _altered(side, topic, entry, only=True)


@alike
def lists(side: Side) -> Iterator[Said]:
    # Without a retention, deleting by age would mean nothing here.
    topic = side.topic(retention_ms="1000000").name
    for operation, value, then in (
        (_APPEND, "compact", "compact,delete"),
        (_APPEND, "compact", "compact,delete"),
        (_SUBTRACT, "delete", "compact"),
        (_SUBTRACT, "delete", "compact"),
        (_APPEND, "delete", "compact,delete"),
        (_SET, "compact", "compact"),
        (_DELETE, None, "delete"),
    ):
        entry = IncrementalAlter("cleanup.policy", operation, value)
        yield operation, value, _altered(side, topic, entry)
        _becomes(side, topic, "cleanup.policy", then)


@alike
def settings_twice(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    yield _altered(side, topic, *[IncrementalAlter("retention.ms", _SET, "1000")] * 2)
    yield _altered(
        side,
        topic,
        IncrementalAlter("retention.ms", _SET, "1000"),
        IncrementalAlter("retention.ms", _DELETE, None),
    )


@alike
def settings_twice_when_replaced(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    yield _replaced(side, topic, *[AlterConfig("retention.ms", "1000")] * 2)


@alike
def a_topic_twice(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    some = IncrementalAlterResource(_TOPIC, topic, [IncrementalAlter("retention.ms", _SET, "1")])
    answer = side.ask(
        INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest([some, some]),
        IncrementalAlterConfigsResponse,
    )
    yield [word(each.error_code) for each in answer.responses]
    wanted = DescribeConfigsResource(_TOPIC, topic, ["retention.ms"])
    shown = side.ask(
        DESCRIBE_CONFIGS, DescribeConfigsRequest([wanted, wanted]), DescribeConfigsResponse
    )
    yield [word(each.error_code) for each in shown.results]


@alike
def settings_of_topics_that_are_not_there(side: Side) -> Iterator[Said]:
    for name in _BAD_NAMES:
        entry = IncrementalAlter("retention.ms", _SET, "1000")
        yield name[:4], _altered(side, name, entry)
        yield name[:4], _altered(side, name)
        yield name[:4], "replaced", _replaced(side, name, AlterConfig("retention.ms", "1000"))
        yield name[:4], "shown", _described(side, name, "retention.ms")


@alike
def settings_of_what_has_none(side: Side) -> Iterator[Said]:
    for kind in (0, 1, 3, 64, -1):
        yield kind, _altered(side, "x", IncrementalAlter("y", _SET, "1"), kind=kind)
        yield kind, "replaced", _replaced(side, "x", AlterConfig("y", "1"), kind=kind)
        yield kind, "shown", _described(side, "x", "y", kind=kind)


@alike
def nothing_to_change(side: Side) -> Iterator[Said]:
    topic = side.topic().name
    yield _altered(side, topic)
    yield _replaced(side, topic)


@alike
def what_is_shown(side: Side) -> Iterator[Said]:
    topic = side.topic(retention_ms="1000", cleanup_policy="compact").name
    for version in range(DESCRIBE_CONFIGS.first, DESCRIBE_CONFIGS.last + 1):
        for name in sorted(_VALUES.keys() - _OTHER_DEFAULTS):
            yield version, _described(side, topic, name, version=version)
    yield "twice", _described(side, topic, "retention.ms", "retention.ms")
    yield _replaced(side, topic, AlterConfig("retention.bytes", "7"))
    _becomes(side, topic, "retention.bytes", "7")
    yield "replaced", _described(side, topic, "cleanup.policy", "retention.bytes")
    yield _altered(side, topic, IncrementalAlter("retention.bytes", _DELETE, None))
    _becomes(side, topic, "retention.bytes", "-1")
    yield "deleted", _described(side, topic, "retention.bytes")
    yield _altered(side, topic, IncrementalAlter("retention.ms", _SET, "604800000"))
