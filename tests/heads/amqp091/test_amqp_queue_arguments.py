"""Arguments of queues: read, refused in RabbitMQ's words, and compared as it does."""

from decimal import Decimal
from pathlib import Path

import pytest
from tests.heads.amqp091.declaring import declare_queue, new_topology, refusal

from mainstem.core.topic_settings import Durability
from mainstem.heads.amqp091.adapter.topology.queue_arguments import HINTS, Overflow, QueueType
from mainstem.heads.amqp091.fields import Binary, Timestamp, Value

GUIDE = Path(__file__).parents[3] / "docs/guides/amqp.md"


def test_arguments_are_read() -> None:
    topology = new_topology()
    declare_queue(
        topology,
        "q",
        arguments={
            "x-message-ttl": 0,
            "x-expires": 1,
            "x-max-length": 10,
            "x-max-length-bytes": 2**40,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-max-priority": 9,
            "x-single-active-consumer": True,
            "x-delivery-limit": 3,
            "x-queue-type": "quorum",
            "x-mainstem-topic": "orders",
            "x-mainstem-durability": "disk",
            "x-queue-mode": "lazy",
            "ours": Timestamp(5),
        },
    )
    found = topology.find_queue("/", "q")

    settings = found.settings
    assert (settings.message_ttl_ms, settings.expires_ms) == (0, 1)
    assert (settings.max_length, settings.max_length_bytes) == (10, 2**40)
    assert settings.overflow is Overflow.REJECT_PUBLISH
    assert (settings.dead_letter_exchange, settings.dead_letter_routing_key) == ("", "dead")
    assert (settings.max_priority, found.priorities) == (9, 10)
    assert settings.single_active_consumer
    assert (settings.delivery_limit, settings.queue_type) == (3, QueueType.QUORUM)
    assert (settings.topic, found.topic) == ("orders", "orders")
    assert settings.durability is Durability.DISK
    assert found.arguments["x-queue-mode"] == "lazy"


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ({}, None),
        ({"x-delivery-limit": 7}, 7),
        ({"x-queue-type": "quorum"}, 20),
        ({"x-queue-type": "quorum", "x-delivery-limit": -1}, None),
    ],
)
def test_quorum_queues_have_a_delivery_limit(
    arguments: dict[str, Value], limit: int | None
) -> None:
    topology = new_topology()
    declare_queue(topology, "q", arguments=arguments)

    assert topology.find_queue("/", "q").settings.delivery_limit == limit


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "10", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", 1.0, '"expected integer, got double"'),
        ("x-message-ttl", None, '"expected integer, got void"'),
        ("x-message-ttl", [], '"expected integer, got array"'),
        ("x-message-ttl", {}, '"expected integer, got table"'),
        ("x-message-ttl", Timestamp(1), '"expected integer, got timestamp"'),
        ("x-message-ttl", Decimal(1), '"expected integer, got decimal"'),
        ("x-message-ttl", Binary(b"1"), '"expected integer, got binary"'),
        ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-max-length", -5, "{value_negative,-5}"),
        ("x-max-length-bytes", b"\xff", '"expected integer, got longstr"'),
        ("x-overflow", "spill", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-delivery-limit", -2, "{value_negative,-2}"),
        ("x-queue-type", "stream", "\"unsupported queue type 'stream'\""),
        ("x-queue-type", 2**40, "{unacceptable_type,long}"),
        ("x-mainstem-durability", "paper", "'paper' is none of memory, disk, fsync"),
        ("x-odd", 1, "there is no such argument"),
    ],
)
def test_bad_arguments_are_refused(name: str, value: Value, reason: str) -> None:
    topology = new_topology()

    text = refusal(lambda: declare_queue(topology, "q", arguments={name: value}))

    assert text == f"invalid arg '{name}' for queue 'q' in vhost '/': {reason}"
    assert topology.queues("/") == []


def test_other_bad_arguments_are_refused() -> None:
    topology = new_topology()

    assert refusal(
        lambda: declare_queue(topology, "q", arguments={"x-dead-letter-exchange": 1})
    ) == ("invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'")
    refusal(lambda: declare_queue(topology, "q", arguments={"x-mainstem-topic": "not a topic"}))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"durable": False}, "'durable' for {}: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for {}: received 'true' but current is 'false'"),
        (
            {"arguments": {}},
            "'x-message-ttl' for {}: received none but current is "
            "the value '10' of type 'signedint'",
        ),
        (
            {"arguments": {"x-message-ttl": 11}},
            "'x-message-ttl' for {}: received '11' but current is '10'",
        ),
        (
            {"arguments": {"x-message-ttl": 10, "x-single-active-consumer": True}},
            "'x-single-active-consumer' for {}: received the value 'true' of type 'bool' "
            "but current is none",
        ),
        (
            {"arguments": {"x-message-ttl": 10, "x-queue-type": "quorum"}},
            "'x-queue-type' for {}: received 'quorum' but current is 'classic'",
        ),
    ],
)
def test_a_queue_cannot_be_declared_otherwise(changed: dict[str, object], text: str) -> None:
    topology = new_topology()
    asked: dict[str, object] = {"durable": True, "arguments": {"x-message-ttl": 10, "ours": "x"}}
    declare_queue(topology, "q", **asked)  # type: ignore[arg-type]

    assert refusal(
        lambda: declare_queue(topology, "q", **(asked | changed))  # type: ignore[arg-type]
    ) == "inequivalent arg " + text.format("queue 'q' in vhost '/'")


def test_arguments_that_mean_the_same_are_equivalent() -> None:
    topology = new_topology()
    declare_queue(topology, "q", arguments={"x-expires": 10, "ours": 1})

    declare_queue(topology, "q", arguments={"x-expires": 10, "x-queue-type": "classic"})
    declare_queue(topology, "q", arguments={"x-expires": 10, "ours": "other"})


@pytest.mark.parametrize("name", sorted(HINTS))
def test_hints_are_accepted_and_the_guide_lists_them(name: str) -> None:
    declare_queue(new_topology(), "q", arguments={name: "x"})

    assert f"`{name}`" in GUIDE.read_text()


@pytest.mark.parametrize(
    "name",
    [
        "x-consumer-timeout",
        "x-consumer-disconnected-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
        "x-unknown",
    ],
)
def test_what_would_have_an_effect_in_rabbitmq_is_not_swallowed(name: str) -> None:
    text = refusal(lambda: declare_queue(new_topology(), "q", arguments={name: 1}))

    assert f"'{name}'" in text
