"""Exchanges, queues and bindings: declared as RabbitMQ does, refused in its words, and kept."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from tests.broker.brokers import FullLog, LateLog, new_broker
from tests.heads.amqp091.declaring import (
    Random,
    declare_queue,
    exchange_binding,
    new_topology,
    queue_binding,
    refusal,
)

from mainstem.core.errors import StorageFailed, StorageFull
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind, ExchangeType
from mainstem.heads.amqp091.adapter.topology.topology import Topology
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.fields import Binary, Timestamp, Value
from mainstem.heads.amqp091.methods import ExchangeDeclare, QueueDeclare

LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)
NOT_DEFAULT = "operation not permitted on the default exchange"


def names(topology: Topology, vhost: str = "/") -> set[str]:
    return {each.name for each in topology.exchanges(vhost) if not each.name.startswith("amq.")}


def everything(topology: Topology) -> list[object]:
    return [
        sorted(map(repr, kind(vhost)))
        for vhost in topology.vhosts()
        for kind in (topology.exchanges, topology.queues, topology.bindings)
    ]


def test_every_virtual_host_has_the_same_exchanges() -> None:
    topology = new_topology()

    for vhost in ("/", "never heard of"):
        assert topology.vhost_exists(vhost)
        assert {each.name: each.type.value for each in topology.exchanges(vhost)} == {
            "": "direct",
            "amq.direct": "direct",
            "amq.fanout": "fanout",
            "amq.headers": "headers",
            "amq.match": "headers",
            "amq.topic": "topic",
        }
    assert topology.vhosts() == ["/"]


def test_exchanges_are_declared_once_and_found_again() -> None:
    topology = new_topology()
    topology.declare_exchange(
        "/", ExchangeDeclare(exchange="logs", type="fanout", durable=True)
    ).wait(0)

    topology.declare_exchange(
        "/", ExchangeDeclare(exchange="logs", type="fanout", durable=True)
    ).wait(0)
    topology.declare_exchange("/", ExchangeDeclare(exchange="logs", type="", passive=True)).wait(0)
    topology.declare_exchange(
        "/", ExchangeDeclare(exchange="amq.topic", type="topic", durable=True)
    ).wait(0)

    found = topology.find_exchange("/", "logs")
    assert (found.type, found.durable) == (ExchangeType.FANOUT, True)
    assert "logs" not in names(topology, "other")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"type": "direct"}, "'type' for {}: received 'direct' but current is 'fanout'"),
        ({"durable": False}, "'durable' for {}: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for {}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for {}: received 'true' but current is 'false'"),
        (
            {"arguments": {}},
            "'alternate-exchange' for {}: received none but current is "
            "the value 'ae' of type 'longstr'",
        ),
        (
            {"arguments": {"alternate-exchange": "b"}},
            "'alternate-exchange' for {}: received 'b' but current is 'ae'",
        ),
    ],
)
def test_an_exchange_cannot_be_declared_otherwise(changed: dict[str, object], text: str) -> None:
    topology = new_topology()
    asked: dict[str, object] = {
        "type": "fanout",
        "durable": True,
        "arguments": {"alternate-exchange": "ae", "ours": 1},
    }
    topology.declare_exchange("/", ExchangeDeclare(exchange="e", **asked))  # type: ignore[arg-type]

    assert refusal(
        lambda: topology.declare_exchange(
            "/",
            ExchangeDeclare(exchange="e", **(asked | changed)),  # type: ignore[arg-type]
        )
    ) == "inequivalent arg " + text.format("exchange 'e' in vhost '/'")


def test_some_exchanges_cannot_be_declared() -> None:
    topology = new_topology()

    def declare(name: str, type_: str = "direct", **other: object) -> Callable[[], object]:
        asked = ExchangeDeclare(exchange=name, type=type_, **other)  # type: ignore[arg-type]
        return lambda: topology.declare_exchange("/", asked)

    assert refusal(declare("e", "x-odd")) == ("unknown exchange type 'x-odd'")
    assert refusal(declare("amq.mine"), ReplyCode.ACCESS_REFUSED) == (
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    )
    assert refusal(declare(""), ReplyCode.ACCESS_REFUSED) == NOT_DEFAULT
    assert refusal(declare("", passive=True), ReplyCode.ACCESS_REFUSED) == NOT_DEFAULT
    assert refusal(declare("e", passive=True), ReplyCode.NOT_FOUND) == (
        "no exchange 'e' in vhost '/'"
    )
    assert refusal(declare("e", arguments={"alternate-exchange": 1})) == (
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'e' in vhost '/'"
    )
    assert names(topology) == {""}


def test_delayed_exchanges_match_as_another_type() -> None:
    topology = new_topology()

    def declare(**arguments: Value) -> Callable[[], object]:
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        return lambda: topology.declare_exchange(
            "/", ExchangeDeclare(exchange="e", type="x-delayed-message", arguments=named)
        )

    for bad in (None, 1, "x-delayed-message"):
        refusal(declare(x_delayed_type=bad))
    refusal(declare())
    refusal(declare(x_delayed_type="x-odd"))
    declare(x_delayed_type="topic")()

    assert topology.find_exchange("/", "e").matching is ExchangeType.TOPIC
    assert "x-delayed-type" in refusal(declare(x_delayed_type="direct"))


def test_exchanges_are_deleted_with_their_bindings() -> None:
    topology = new_topology()
    declare_queue(topology, "q")
    topology.declare_exchange("/", ExchangeDeclare(exchange="e", type="direct"))
    topology.bind(queue_binding("q", "e", "key"))

    assert refusal(lambda: topology.delete_exchange("/", "e", if_unused=True)) == (
        "exchange 'e' in vhost '/' in use"
    )
    topology.delete_exchange("/", "e")
    topology.delete_exchange("/", "e", if_unused=True)

    assert topology.bindings("/") == []
    assert names(topology) == {""}
    topology.declare_exchange("/", ExchangeDeclare(exchange="e", type="topic"))
    assert topology.route("/", "e", "key") == ()


def test_system_exchanges_cannot_be_deleted() -> None:
    topology = new_topology()

    assert refusal(lambda: topology.delete_exchange("/", ""), ReplyCode.ACCESS_REFUSED) == (
        NOT_DEFAULT
    )
    assert refusal(
        lambda: topology.delete_exchange("/", "amq.topic"), ReplyCode.ACCESS_REFUSED
    ) == ("deletion of system exchange 'amq.topic' in vhost '/' not allowed")


def test_auto_delete_exchanges_go_with_their_last_binding_and_so_on() -> None:
    topology = new_topology()
    declare_queue(topology, "q")
    declare_queue(topology, "other")
    for name in ("first", "second", "third"):
        topology.declare_exchange(
            "/", ExchangeDeclare(exchange=name, type="fanout", auto_delete=True, durable=True)
        )
    topology.declare_exchange("/", ExchangeDeclare(exchange="kept", type="fanout"))
    topology.bind(exchange_binding("second", "first"))
    topology.bind(exchange_binding("third", "second"))
    topology.bind(exchange_binding("third", "kept"))
    topology.bind(queue_binding("q", "third"))
    topology.bind(queue_binding("other", "third"))

    topology.unbind(queue_binding("q", "third"))
    assert names(topology) == {"", "first", "second", "third", "kept"}
    topology.remove_queue("/", "other")

    assert names(topology) == {"", "kept"}
    assert topology.bindings("/") == []


def test_auto_delete_exchanges_bound_in_a_circle_go_together() -> None:
    topology = new_topology()
    for name in ("a", "b"):
        topology.declare_exchange(
            "/", ExchangeDeclare(exchange=name, type="fanout", auto_delete=True)
        )
    topology.bind(exchange_binding("b", "a"))
    topology.bind(exchange_binding("a", "b"))

    topology.unbind(exchange_binding("b", "a"))

    assert names(topology) == {""}


def test_an_exchange_that_is_deleted_takes_auto_delete_sources_along_but_not_destinations() -> None:
    topology = new_topology()
    for name in ("source", "middle", "end"):
        topology.declare_exchange(
            "/", ExchangeDeclare(exchange=name, type="fanout", auto_delete=True)
        )
    topology.bind(exchange_binding("middle", "source"))
    topology.bind(exchange_binding("end", "middle"))

    topology.delete_exchange("/", "middle")

    assert names(topology) == {"", "end"}


def test_an_exchange_bound_to_itself_can_be_deleted() -> None:
    topology = new_topology()
    topology.declare_exchange("/", ExchangeDeclare(exchange="e", type="fanout", auto_delete=True))
    topology.bind(exchange_binding("e", "e"))

    topology.delete_exchange("/", "e")

    assert names(topology) == {""}
    assert topology.bindings("/") == []


def test_queues_are_declared_once_and_found_again() -> None:
    topology = new_topology()
    asked = topology.decide_queue("shop", "mine", QueueDeclare(queue="q@1", durable=True))
    assert asked.is_new
    assert topology.queue("shop", "q@1") is None

    topology.add_queue(asked.queue).wait(0)

    again = topology.decide_queue("shop", "other", QueueDeclare(queue="q@1", durable=True))
    assert again == (asked.queue, False)
    assert topology.decide_queue("shop", "other", QueueDeclare(queue="q@1", passive=True)) == again
    assert asked.queue.topic == "shop._.q._401"
    assert asked.queue.priorities == 1
    assert topology.vhosts() == ["/", "shop"]
    topology.remove_queue("shop", "q@1").wait(0)
    assert topology.vhosts() == ["/"]
    topology.remove_queue("shop", "q@1").wait(0)


def test_queues_without_a_name_are_given_one() -> None:
    topology = new_topology()

    first, second = declare_queue(topology, ""), declare_queue(topology, "")

    assert first == "amq.gen-AAAAAAAAAAAAAAAAAAAAAQ"
    assert len(second) == len("amq.gen-") + 22
    assert first != second


def test_line_breaks_in_names_are_left_out() -> None:
    topology = new_topology()

    assert declare_queue(topology, "a\r\nb") == "ab"


def test_some_queues_cannot_be_declared() -> None:
    topology = new_topology()
    quorum = {"x-queue-type": "quorum"}

    assert refusal(lambda: declare_queue(topology, "amq.q"), ReplyCode.ACCESS_REFUSED) == (
        "queue name 'amq.q' contains reserved prefix 'amq.*'"
    )
    assert refusal(
        lambda: topology.decide_queue("/", "mine", QueueDeclare(queue="q", passive=True)),
        ReplyCode.NOT_FOUND,
    ) == ("no queue 'q' in vhost '/'")
    assert refusal(lambda: declare_queue(topology, "q", arguments=quorum, durable=False)) == (
        "invalid property 'non-durable' for queue 'q' in vhost '/'"
    )
    assert refusal(lambda: declare_queue(topology, "q", arguments=quorum, exclusive=True)) == (
        "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"
    )
    assert refusal(lambda: declare_queue(topology, "", arguments=quorum)) == (
        "Cannot declare a server-named queue for type rabbit_quorum_queue"
    )


def test_exclusive_queues_are_for_their_connection_only() -> None:
    topology = new_topology()
    declare_queue(topology, "q", exclusive=True, connection="mine")
    declare_queue(topology, "open")
    topology.bind(queue_binding("q", "amq.fanout"), "mine")

    declare_queue(topology, "q", exclusive=True, connection="mine")
    refused: list[Callable[[], object]] = [
        lambda: declare_queue(topology, "q", exclusive=True, connection="other"),
        lambda: declare_queue(topology, "q", exclusive=False, connection="mine"),
        lambda: topology.decide_queue("/", "other", QueueDeclare(queue="q", passive=True)),
        lambda: topology.find_queue("/", "q", "other"),
        lambda: topology.bind(queue_binding("q", "amq.fanout"), "other"),
        lambda: topology.unbind(queue_binding("q", "amq.fanout"), "other"),
    ]
    for each in refused:
        assert refusal(each, ReplyCode.RESOURCE_LOCKED) == LOCKED
    refusal(lambda: declare_queue(topology, "open", exclusive=True), ReplyCode.RESOURCE_LOCKED)

    assert topology.find_queue("/", "q", "mine") == topology.find_queue("/", "q")
    assert [each.name for each in topology.owned_queues("/", "mine")] == ["q"]
    topology.remove_queue("/", "q")
    assert topology.owned_queues("/", "mine") == []


def test_bindings_are_made_once_and_undone() -> None:
    topology = new_topology()
    declare_queue(topology, "q")
    topology.bind(queue_binding("q", "amq.topic", "a.*", {"one": 1, "two": "2"})).wait(0)
    topology.bind(queue_binding("q", "amq.topic", "a.*", {"two": "2", "one": 1})).wait(0)
    topology.bind(queue_binding("q", "amq.topic", "a.*", {"one": True, "two": "2"})).wait(0)
    topology.bind(exchange_binding("amq.topic", "amq.fanout")).wait(0)

    assert len(topology.bindings("/")) == 3
    assert len(topology.bindings("/", implicit=True)) == 4
    assert [each.routing_key for each in topology.bindings_from("/", "")] == ["q"]
    assert len(topology.bindings_from("/", "amq.topic")) == 2
    assert len(topology.bindings_to("/", DestinationKind.QUEUE, "q")) == 2
    assert topology.bindings_to("/", DestinationKind.EXCHANGE, "amq.topic") == [
        Binding("/", "amq.fanout", DestinationKind.EXCHANGE, "amq.topic", durable=True)
    ]
    assert len({each.properties_key for each in topology.bindings("/")}) == 3

    topology.unbind(queue_binding("q", "amq.topic", "a.*", {"two": "2", "one": 1})).wait(0)
    topology.unbind(queue_binding("q", "amq.topic", "never")).wait(0)
    topology.unbind(queue_binding("nobody", "nothing")).wait(0)
    topology.unbind(exchange_binding("amq.topic", "amq.fanout")).wait(0)
    assert [each.arguments for each in topology.bindings("/")] == [{"one": True, "two": "2"}]


def test_some_bindings_are_refused() -> None:
    topology = new_topology()
    declare_queue(topology, "q")

    defaults: list[Callable[[], object]] = [
        lambda: topology.bind(queue_binding("q", "")),
        lambda: topology.unbind(queue_binding("q", "")),
        lambda: topology.bind(exchange_binding("", "amq.fanout")),
        lambda: topology.bind(exchange_binding("amq.fanout", "")),
    ]
    for each in defaults:
        assert refusal(each, ReplyCode.ACCESS_REFUSED) == NOT_DEFAULT
    assert refusal(
        lambda: topology.bind(queue_binding("nobody", "nothing")), ReplyCode.NOT_FOUND
    ) == ("no exchange 'nothing' in vhost '/'")
    assert refusal(
        lambda: topology.bind(queue_binding("nobody", "amq.fanout")), ReplyCode.NOT_FOUND
    ) == ("no queue 'nobody' in vhost '/'")
    assert refusal(
        lambda: topology.bind(exchange_binding("nothing", "amq.fanout")), ReplyCode.NOT_FOUND
    ) == ("no exchange 'nothing' in vhost '/'")
    assert refusal(
        lambda: topology.bind(queue_binding("q", "amq.match", "", {"x-match": "most"}))
    ) == ('Invalid x-match field value <<"most">>; expected all, any, all-with-x, or any-with-x')
    assert refusal(lambda: topology.bind(queue_binding("q", "amq.match", "", {"x-match": 1}))) == (
        "Invalid x-match field type signedint (value 1); expected longstr"
    )
    assert topology.bindings("/") == []


def fill(topology: Topology) -> None:
    topology.declare_exchange("/", ExchangeDeclare(exchange="transient", type="topic"))
    topology.declare_exchange(
        "/",
        ExchangeDeclare(
            exchange="e",
            type="headers",
            durable=True,
            auto_delete=True,
            internal=True,
            arguments={"alternate-exchange": "ae"},
        ),
    )
    topology.declare_exchange(
        "shop",
        ExchangeDeclare(
            exchange="d",
            type="x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "topic"},
        ),
    )
    declare_queue(topology, "durable", arguments={"x-message-ttl": 5, "at": Timestamp(7)})
    declare_queue(topology, "x" * 255, "shop", auto_delete=True)
    declare_queue(topology, "exclusive", exclusive=True)
    declare_queue(topology, "gone", durable=False)
    arguments: dict[str, Value] = {"a": Decimal("1.50"), "b": [1, {"c": None}], "d": Binary(b"\0")}
    topology.bind(queue_binding("durable", "e", "key", arguments))
    topology.bind(exchange_binding("e", "amq.fanout", "k" * 255))
    topology.bind(
        queue_binding("x" * 255, "d", "#." * 100 + "#", {"long": "\n" * 10_000}, vhost="shop")
    )


def fill_transient(topology: Topology) -> None:
    topology.bind(queue_binding("durable", "transient"))
    topology.bind(queue_binding("exclusive", "e"))
    topology.bind(queue_binding("gone", "amq.direct"))


def test_a_restart_keeps_what_is_durable() -> None:
    log = FullLog()
    topology = new_topology(log)
    fill(topology)
    fill_transient(topology)
    topology.declare_exchange("/", ExchangeDeclare(exchange="deleted", type="direct", durable=True))
    topology.bind(queue_binding("durable", "deleted"))
    topology.delete_exchange("/", "deleted")

    restarted = new_topology(log)

    expected = new_topology()
    fill(expected)
    for name in ("exclusive", "gone"):
        expected.remove_queue("/", name)
    expected.delete_exchange("/", "transient")
    assert everything(restarted) == everything(expected)
    assert restarted.vhosts() == ["/", "shop"]
    assert restarted.find_queue("/", "durable").settings.message_ttl_ms == 5
    assert restarted.route("shop", "d", "a.b") == ("x" * 255,)


def test_a_full_disk_changes_nothing() -> None:
    log = FullLog()
    topology = new_topology(log)
    fill(topology)
    before = everything(topology)
    decided = topology.decide_queue("/", "mine", QueueDeclare(queue="more", durable=True))
    log.is_full = True

    changes: list[Callable[[], object]] = [
        lambda: topology.declare_exchange(
            "/", ExchangeDeclare(exchange="more", type="direct", durable=True)
        ),
        lambda: topology.delete_exchange("/", "e"),
        lambda: topology.add_queue(decided.queue),
        lambda: topology.remove_queue("/", "durable"),
        lambda: topology.bind(queue_binding("durable", "amq.direct")),
        lambda: topology.unbind(exchange_binding("e", "amq.fanout", "k" * 255)),
    ]
    for change in changes:
        with pytest.raises(StorageFull):
            change()

    assert everything(topology) == before
    declare_queue(topology, "in memory", durable=False)


def test_a_disk_that_fails_takes_back_what_was_not_durable() -> None:
    log = LateLog()
    broker = new_broker(log)
    topology = Topology(broker.definitions.open("amqp091"), Random())
    fill(topology)
    fill_transient(topology)
    before = everything(topology)
    journal = broker.topic("__mainstem_definitions").partitions[0]
    log.late = True
    end = log.bounds(journal).end

    durable = topology.declare_exchange(
        "/", ExchangeDeclare(exchange="lost", type="fanout", durable=True)
    )
    topology.bind(queue_binding("exclusive", "lost"))
    assert topology.route("/", "lost", "") == ("exclusive",)
    log.cut(journal, end=end)
    log.settle(StorageFailed("the disk is gone"))

    with pytest.raises(StorageFailed):
        durable.wait(0)
    assert everything(topology) == before
    assert topology.route("/", "transient", "") == ("durable",)
