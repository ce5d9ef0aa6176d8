"""Scenarios of the settings of groups: what each may be."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, word
from tests.heads.kafka.share_member import configure

from mainstem.kafka_protocol.messages import configs

_GROUP, _SET, _APPEND = 32, 0, 2
_NUMBERS = {
    "consumer.session.timeout.ms": (44_999, 45_000, 60_000, 60_001),
    "consumer.heartbeat.interval.ms": (4_999, 5_000, 15_000, 15_001),
    "share.session.timeout.ms": (44_999, 45_000, 60_000, 60_001),
    "share.heartbeat.interval.ms": (4_999, 5_000, 15_000, 15_001),
    "share.record.lock.duration.ms": (14_999, 15_000, 60_000, 60_001),
    "share.delivery.count.limit": (1, 2, 10, 11),
    "share.partition.max.record.locks": (99, 100, 4_000, 4_001),
}
"""Just outside and just inside of the bounds that an Apache Kafka has by default."""
_ALSO_HERE = ("share.delivery.count.limit", "share.partition.max.record.locks")
"""Those of which the lower bound is the same here."""
_WORDS = {
    "share.auto.offset.reset": (
        "earliest",
        "latest",
        "EARLIEST",
        "none",
        "by_duration:PT1H",
        "by_duration:P1D",
        "by_duration:-PT1H",
        "by_duration:x",
        "by_duration:",
        "",
    ),
    "share.isolation.level": ("read_committed", "read_uncommitted", "READ_COMMITTED", "x", ""),
    "share.renew.acknowledge.enable": ("true", "false", "TRUE", "1", "x", ""),
}


def configured(side: Side, group: str, name: str, value: str | None) -> str:
    """Set, or remove, a setting of a group."""
    return word(configure(side.peer, group, name, value))


@alike
def numbers_within_bounds(side: Side) -> Iterator[Said]:
    for name, bounds in _NUMBERS.items():
        group = side.group()
        for value in bounds[1:3]:
            yield name, value, configured(side, group, name, str(value))
        yield name, "removed", configured(side, group, name, None)


@alike
def numbers_that_are_none(side: Side) -> Iterator[Said]:
    for name in _NUMBERS:
        group = side.group()
        for value in ("", "x", "1.5", "-1", "99999999999"):
            yield name, value, configured(side, group, name, value)


@alike
def words(side: Side) -> Iterator[Said]:
    for name, values in _WORDS.items():
        group = side.group()
        for value in values:
            yield name, value, configured(side, group, name, value)


@alike
def settings_there_are_not(side: Side) -> Iterator[Said]:
    group = side.group()
    for name in ("x", "share.x", "retention.ms", ""):
        yield name, configured(side, group, name, "1")
        yield name, "removed", configured(side, group, name, None)
    yield "no group", configured(side, "", "share.session.timeout.ms", "50000")


@alike
def pairs_of_settings(side: Side) -> Iterator[Said]:
    for kind in ("share", "consumer"):
        group = side.group()
        yield _both(side, group, f"{kind}.session.timeout.ms", "50000", 2 * 7_000)
        yield _twice(side, group, f"{kind}.session.timeout.ms")


@alike
def appending_to_settings(side: Side) -> Iterator[Said]:
    entry = configs.IncrementalAlter("share.delivery.count.limit", _APPEND, "3")
    yield _alter(side, side.group(), entry)


def _both(side: Side, group: str, name: str, value: str, interval_ms: int) -> str:
    other = name.replace("session.timeout", "heartbeat.interval")
    return _alter(
        side,
        group,
        configs.IncrementalAlter(name, _SET, value),
        configs.IncrementalAlter(other, _SET, str(interval_ms)),
    )


def _twice(side: Side, group: str, name: str) -> str:
    entry = configs.IncrementalAlter(name, _SET, "50000")
    return _alter(side, group, entry, entry)


def _alter(side: Side, group: str, *entries: configs.IncrementalAlter) -> str:
    body = configs.IncrementalAlterConfigsRequest(
        [configs.IncrementalAlterResource(_GROUP, group, entries)]
    )
    answer = side.ask(
        configs.INCREMENTAL_ALTER_CONFIGS, body, configs.IncrementalAlterConfigsResponse
    )
    return word(answer.responses[0].error_code)


_OURS_ALONE = {
    "mainstem.share.acquire.mode",
    "mainstem.share.ttl.ms",
    "mainstem.share.max.length",
    "mainstem.share.max.bytes",
}
_OTHERWISE = {"consumer.heartbeat.interval.ms"}
"""Shorter here, so that a rebalance takes less time (docs/decisions/0009-consumer-groups.md)."""
_NOT_HERE = ("consumer.assignment.interval.ms", "share.assignment.interval.ms")


@alike
def what_is_set_by_default(side: Side) -> Iterator[Said]:
    body = configs.DescribeConfigsRequest(
        [configs.DescribeConfigsResource(_GROUP, side.group(), None)]
    )
    (found,) = side.ask(configs.DESCRIBE_CONFIGS, body, configs.DescribeConfigsResponse).results
    yield word(found.error_code)
    left_out = _OURS_ALONE | _OTHERWISE | set(_NOT_HERE)
    for each in sorted(found.configs, key=lambda each: each.name):
        if each.name not in left_out and not each.name.startswith("streams."):
            yield each.name, each.value, each.config_source, each.config_type


@alike
def numbers_that_are_too_small(side: Side) -> Iterator[Said]:
    for name in _ALSO_HERE:
        yield name, configured(side, side.group(), name, str(_NUMBERS[name][0]))


@unlike("the bounds of an Apache Kafka are settings of its brokers; ours are wider, and fixed")
def numbers_out_of_bounds(side: Side) -> Iterator[Said]:
    for name, (below, _, _, above) in _NUMBERS.items():
        group = side.group()
        if name not in _ALSO_HERE:
            yield name, below, configured(side, group, name, str(below))
        yield name, above, configured(side, group, name, str(above))


@unlike("a setting that does nothing would mislead: partitions are assigned at once here")
def settings_that_are_not_honoured(side: Side) -> Iterator[Said]:
    group = side.group()
    for name in _NOT_HERE:
        yield name, configured(side, group, name, "1000")
    yield configured(side, group, "streams.num.standby.replicas", "1")
