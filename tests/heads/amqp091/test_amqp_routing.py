"""Routing against a simple model, for any bindings, and its cost."""

import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.broker.brokers import FullLog
from tests.heads.amqp091.declaring import (
    declare_queue,
    exchange_binding,
    new_topology,
    queue_binding,
    refusal,
)

from mainstem.heads.amqp091 import codec, fields
from mainstem.heads.amqp091.adapter.topology import routing
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind, ExchangeType
from mainstem.heads.amqp091.adapter.topology.matching import TopicMatcher
from mainstem.heads.amqp091.adapter.topology.routing import without_bcc
from mainstem.heads.amqp091.adapter.topology.topology import Topology
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import ExchangeDeclare

WORDS = st.sampled_from(["", "a", "b", "*", "#"])
KEYS = st.lists(WORDS, max_size=5).map(".".join)
HOW = st.sampled_from(["all", "any", "all-with-x", "any-with-x"])


def bound_queue(topology: Topology, name: str, exchange: str, *keys: str) -> None:
    declare_queue(topology, name)
    for key in keys:
        topology.bind(queue_binding(name, exchange, key))


# What the rules say, read as plainly as possible.


def words_match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(words_match(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and words_match(pattern[1:], words[1:])


def split(key: str) -> list[str]:
    return key.split(".") if key else []


def same(one: fields.Value, other: fields.Value) -> bool:
    def kind(value: fields.Value) -> object:
        return int if isinstance(value, int) and not isinstance(value, bool) else type(value)

    return kind(one) == kind(other) and one == other


def headers_match(arguments: fields.Table, headers: fields.Table) -> bool:
    how = str(arguments.get("x-match", "all"))
    results = [
        name in headers and (value is None or same(headers[name], value))
        for name, value in arguments.items()
        if name != "x-match" and (how.endswith("-with-x") or not name.startswith("x-"))
    ]
    return any(results) if how.startswith("any") else all(results)


def matches(kind: ExchangeType, binding: Binding, key: str, headers: fields.Table) -> bool:
    match kind:
        case ExchangeType.DIRECT:
            return binding.routing_key == key
        case ExchangeType.TOPIC:
            return words_match(split(binding.routing_key), split(key))
        case ExchangeType.HEADERS:
            return headers_match(binding.arguments, headers)
    return True


def expected_route(
    topology: Topology, exchange: str, keys: Iterable[str], headers: fields.Table
) -> set[str]:
    keys = list(keys)
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [exchange]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        source = topology.find_exchange("/", name)
        matched = [
            each
            for each in topology.bindings_from("/", name)
            if any(matches(source.matching, each, key, headers) for key in keys)
        ]
        queues = [each for each in matched if each.destination_kind is DestinationKind.QUEUE]
        found.update(each.destination for each in queues)
        waiting += [each.destination for each in matched if each not in queues]
        alternate = source.alternate
        if not matched and alternate is not None and topology.exchange("/", alternate) is not None:
            waiting.append(alternate)
    return found


EXCHANGES = {"e1": "direct", "e2": "topic", "e3": "fanout", "e4": "headers", "e5": "topic"}
PREDECLARED = ("amq.direct", "amq.fanout", "amq.match", "amq.topic")
QUEUE_NAMES = ("a", "b", "a.b")
SOURCES = st.sampled_from([*EXCHANGES, *PREDECLARED])
ENDS = st.sampled_from([*QUEUE_NAMES, *QUEUE_NAMES, *EXCHANGES])
FEW_KEYS = st.sampled_from(["", "a", "b", "a.b", "#", "a.#", "*", "*.b", "#.b.#"])
FEW_HEADERS = st.sampled_from([{}, {"a": 1}, {"a": "1"}, {"a": None, "b": 1}, {"x-c": 1, "b": 1}])
ALTERNATES = st.none() | st.sampled_from(["e1", "e2", "amq.fanout", "nothing"])
BindingParts = tuple[str, str, str, dict[str, fields.Value], str]
MESSAGES: list[tuple[str, fields.Table]] = [
    ("", {}),
    ("a", {"a": 1}),
    ("b", {"a": "1", "b": fields.Long(1)}),
    ("a.b", {"x-c": 1}),
    ("c", {"x-c": 1, "b": 1, "BCC": ["a", "a.b"]}),
]


class RoutingMachine(RuleBasedStateMachine):
    """Exchanges, queues and bindings come and go; every route is what the rules say."""

    def __init__(self) -> None:
        super().__init__()
        self.log = FullLog()
        self.topology = new_topology(self.log)

    @initialize(
        auto_delete=st.sets(st.sampled_from([*EXCHANGES])),
        alternate=ALTERNATES,
        bindings=st.lists(st.tuples(SOURCES, ENDS, FEW_KEYS, FEW_HEADERS, HOW), max_size=25),
    )
    def begin(
        self, auto_delete: set[str], alternate: str | None, bindings: list[BindingParts]
    ) -> None:
        for name in EXCHANGES:
            self.declare_exchange(name, alternate, name != "e5", name in auto_delete)
        for name in QUEUE_NAMES:
            self.declare(name, durable=name != "b")
        for each in bindings:
            self.bind(*each)

    @rule(
        name=st.sampled_from([*EXCHANGES]),
        alternate=ALTERNATES,
        durable=st.booleans(),
        auto_delete=st.booleans(),
    )
    def declare_exchange(
        self, name: str, alternate: str | None, durable: bool, auto_delete: bool
    ) -> None:
        if self.topology.exchange("/", name) is None:
            self.topology.declare_exchange(
                "/",
                ExchangeDeclare(
                    exchange=name,
                    type=EXCHANGES[name],
                    durable=durable,
                    auto_delete=auto_delete,
                    arguments={} if alternate is None else {"alternate-exchange": alternate},
                ),
            )

    @rule(name=st.sampled_from(QUEUE_NAMES), durable=st.booleans())
    def declare(self, name: str, durable: bool) -> None:
        if self.topology.queue("/", name) is None:
            declare_queue(self.topology, name, durable=durable)

    @rule(source=SOURCES, end=ENDS, key=FEW_KEYS, arguments=FEW_HEADERS, how=HOW)
    def bind(
        self, source: str, end: str, key: str, arguments: dict[str, fields.Value], how: str
    ) -> None:
        topology = self.topology
        if topology.exchange("/", source) is None:
            return
        arguments = arguments | {"x-match": how}
        if topology.queue("/", end) is not None:
            topology.bind(queue_binding(end, source, key, arguments))
        elif topology.exchange("/", end) is not None:
            topology.bind(exchange_binding(end, source, key, arguments))

    @rule(at=st.integers(0, 20))
    def unbind(self, at: int) -> None:
        bindings = self.topology.bindings("/")
        if not bindings:
            return
        each = bindings[at % len(bindings)]
        self.topology.unbind(each)

        assert each not in self.topology.bindings("/")
        source = self.topology.exchange("/", each.source)
        assert source is None or not source.auto_delete or self._has_bindings(each.source)

    @rule(name=st.sampled_from(QUEUE_NAMES))
    def remove(self, name: str) -> None:
        self.topology.remove_queue("/", name)

    @rule(name=st.sampled_from([*EXCHANGES]))
    def delete_exchange(self, name: str) -> None:
        self.topology.delete_exchange("/", name)

    @rule()
    def restart(self) -> None:
        before = self.topology
        self.topology = new_topology(self.log)
        for kind in ("exchanges", "queues", "bindings"):
            kept = [each for each in getattr(before, kind)("/") if each.durable]
            assert sorted(map(repr, getattr(self.topology, kind)("/"))) == sorted(map(repr, kept))

    @invariant()
    def routes_are_what_the_rules_say(self) -> None:
        topology = self.topology
        for exchange in topology.exchanges("/"):
            for key, headers in MESSAGES:
                copies = headers.get("BCC", [])
                assert isinstance(copies, list)
                expected = expected_route(topology, exchange.name, [key, *copies], headers)
                raw = codec.route_of(exchange.name, key)
                for _ in range(2):
                    found = topology.route("/", exchange.name, key, headers, raw)
                    assert found == tuple(sorted(expected))
                remembered = topology.remembered_route("/", raw)
                assert copies or remembered in (None, found)

    @invariant()
    def bindings_have_ends(self) -> None:
        topology = self.topology
        for each in topology.bindings("/"):
            assert topology.exchange("/", each.source) is not None
            find = topology.queue if each.destination_kind == "queue" else topology.exchange
            assert find("/", each.destination) is not None

    def _has_bindings(self, exchange: str) -> bool:
        return any(each.source == exchange for each in self.topology.bindings("/"))


TestRoutingMachine = RoutingMachine.TestCase
TestRoutingMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def topic_binding(key: str) -> Binding:
    return Binding("/", "e", DestinationKind.QUEUE, "q", key)


@given(KEYS, KEYS)
@example("#", "")
@example("*", "")
@example("", "")
@example("a.#", "a")
@example("#.a.#", "a.a")
def test_words_match_as_the_rules_say(pattern: str, key: str) -> None:
    matcher = TopicMatcher()
    matcher.add(topic_binding(pattern))

    found = list(matcher.match([key], {}))

    assert bool(found) == words_match(split(pattern), split(key))


@given(st.lists(KEYS, min_size=1, max_size=6, unique=True), st.data())
def test_a_trie_without_a_binding_is_one_that_never_had_it(
    keys: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(keys))
    one, other = TopicMatcher(), TopicMatcher()
    for key in keys:
        one.add(topic_binding(key))
    one.remove(topic_binding(gone))
    for key in keys:
        if key != gone:
            other.add(topic_binding(key))

    assert places(one) == places(other)


def places(matcher: TopicMatcher) -> int:
    found, waiting = 0, [matcher._root]
    while waiting:
        place = waiting.pop()
        found += 1
        waiting += place.words.values()
        waiting += [each for each in (place.any_word, place.any_words) if each is not None]
    return found


def test_wildcards_one_behind_the_other_take_no_time() -> None:
    topology = new_topology()
    bound_queue(topology, "q", "amq.topic", "#." * 127 + "z", "*.#." * 63 + "z", "#.*." * 63 + "z")

    began = time.process_time()
    assert topology.route("/", "amq.topic", "a." * 127) == ()
    assert topology.route("/", "amq.topic", "a." * 126 + "z") == ("q",)

    assert time.process_time() - began < 2


def test_direct_and_fanout() -> None:
    topology = new_topology()
    bound_queue(topology, "b", "amq.direct", "red", "green")
    bound_queue(topology, "a", "amq.direct", "red")
    bound_queue(topology, "c", "amq.fanout", "", "again")

    assert topology.route("/", "amq.direct", "red") == ("a", "b")
    assert topology.route("/", "amq.direct", "green") == ("b",)
    assert topology.route("/", "amq.direct", "blue") == ()
    assert topology.route("/", "amq.fanout", "whatever") == ("c",)
    topology.unbind(queue_binding("c", "amq.fanout", "again"))
    assert topology.route("/", "amq.fanout", "whatever") == ("c",)
    assert topology.route("other", "amq.fanout", "whatever") == ()


@pytest.mark.parametrize(
    ("how", "headers", "is_matched"),
    [
        ("all", {"a": 1, "b": "two", "more": 3}, True),
        ("all", {"a": 1}, False),
        ("any", {"a": 1}, True),
        ("any", {"a": "1"}, False),
        ("any", {"a": True}, False),
        ("any", {"b": b"two"}, True),
        ("any", {"x-c": 1}, False),
        ("any-with-x", {"x-c": 1}, True),
        ("all-with-x", {"a": 1, "b": "two"}, False),
        ("all-with-x", {"a": 1, "b": "two", "x-c": [1]}, True),
        (None, {"a": fields.Short(1), "b": "two"}, True),
    ],
)
def test_headers_match(how: str | None, headers: fields.Table, is_matched: bool) -> None:
    topology = new_topology()
    declare_queue(topology, "q")
    arguments: dict[str, fields.Value] = {"a": 1, "b": "two", "x-c": None}
    if how is not None:
        arguments["x-match"] = how
    topology.bind(queue_binding("q", "amq.match", "", arguments))

    assert topology.route("/", "amq.match", "", headers) == (("q",) if is_matched else ())


def test_a_headers_binding_without_headers_matches_all_or_none() -> None:
    topology = new_topology()
    for name, how in (("all", "all"), ("none", "any")):
        declare_queue(topology, name)
        topology.bind(queue_binding(name, "amq.match", "", {"x-match": how}))

    assert topology.route("/", "amq.match", "", {"a": 1}) == ("all",)
    assert topology.route("/", "amq.match", "") == ("all",)


def test_arrays_and_tables_match_if_they_are_the_same() -> None:
    topology = new_topology()
    declare_queue(topology, "q")
    topology.bind(queue_binding("q", "amq.match", "", {"a": [1, {"b": "c"}]}))

    assert topology.route("/", "amq.match", "", {"a": [1, {"b": "c"}]}) == ("q",)
    assert topology.route("/", "amq.match", "", {"a": [1, {"b": "d"}]}) == ()


def test_circles_of_exchanges_do_no_harm() -> None:
    topology = new_topology()
    bound_queue(topology, "q", "amq.topic", "#")
    topology.bind(exchange_binding("amq.topic", "amq.fanout"))
    topology.bind(exchange_binding("amq.fanout", "amq.topic", "#"))
    topology.bind(exchange_binding("amq.fanout", "amq.fanout"))

    assert topology.route("/", "amq.fanout", "a") == ("q",)


def test_the_alternate_exchange_takes_what_nobody_else_does() -> None:
    topology = new_topology()
    topology.declare_exchange(
        "/", ExchangeDeclare(exchange="e", type="direct", arguments={"alternate-exchange": "ae"})
    )
    bound_queue(topology, "q", "e", "key")

    assert topology.route("/", "e", "other") == ()
    topology.declare_exchange("/", ExchangeDeclare(exchange="ae", type="fanout", internal=True))
    bound_queue(topology, "rest", "ae", "")

    assert topology.route("/", "e", "other") == ("rest",)
    assert topology.route("/", "e", "key") == ("q",)


def test_publishing_is_refused_in_rabbitmqs_words() -> None:
    topology = new_topology()
    topology.declare_exchange("/", ExchangeDeclare(exchange="inside", type="fanout", internal=True))

    assert refusal(lambda: topology.route("/", "none", ""), ReplyCode.NOT_FOUND) == (
        "no exchange 'none' in vhost '/'"
    )
    assert refusal(lambda: topology.route("/", "inside", ""), ReplyCode.ACCESS_REFUSED) == (
        "cannot publish to internal exchange 'inside' in vhost '/'"
    )
    assert refusal(lambda: topology.route("/", "", "", {"CC": "key"})) == (
        'invalid message: {unacceptable_type_in_header,"CC",longstr}'
    )


def test_copies_go_to_further_keys() -> None:
    topology = new_topology()
    for name in ("a", "b", "c", "d"):
        declare_queue(topology, name)
    headers: fields.Table = {"CC": ["b", 1, "a"], "BCC": ["c", "nobody"], "mine": 1}

    assert topology.route("/", "", "a", headers) == ("a", "b", "c")
    assert without_bcc(headers) == {"CC": ["b", 1, "a"], "mine": 1}


def test_dead_letters_go_where_publishers_may_not() -> None:
    topology = new_topology()
    topology.declare_exchange("/", ExchangeDeclare(exchange="inside", type="direct", internal=True))
    bound_queue(topology, "q", "inside", "key", "other")
    declare_queue(topology, "r")

    assert topology.route_again("/", "inside", ["key", "other"], {}) == ("q",)
    assert topology.route_again("/", "", ["r", "q"], {"CC": "ignored"}) == ("q", "r")
    assert topology.route_again("/", "gone", ["key"], {}) == ()


def test_routes_are_remembered_until_something_changes() -> None:
    topology = new_topology()
    bound_queue(topology, "q", "amq.topic", "a.*")
    raw = codec.route_of("amq.topic", "a.b")
    assert topology.remembered_route("/", raw) is None
    assert topology.remembered_route("other", raw) is None

    changes: list[Callable[[], object]] = [
        lambda: bound_queue(topology, "r", "amq.topic", "#"),
        lambda: topology.unbind(queue_binding("r", "amq.topic", "#")),
        lambda: topology.remove_queue("/", "q"),
        lambda: topology.declare_exchange("/", ExchangeDeclare(exchange="e", type="fanout")),
        lambda: topology.delete_exchange("/", "e"),
    ]
    for change in changes:
        found = topology.route("/", "amq.topic", "a.b", None, raw)
        assert topology.remembered_route("/", raw) == found
        change()
        assert topology.remembered_route("/", raw) is None


def test_routes_by_headers_are_not_remembered() -> None:
    topology = new_topology()
    declare_queue(topology, "q")
    topology.bind(queue_binding("q", "amq.match", "", {"a": 1}))
    topology.bind(exchange_binding("amq.match", "amq.fanout"))

    for headers, found in (({"a": 1}, ("q",)), ({"a": 2}, ()), (None, ())):
        for exchange in ("amq.match", "amq.fanout"):
            raw = codec.route_of(exchange, "")
            assert topology.route("/", exchange, "", headers, raw) == found
            assert topology.remembered_route("/", raw) is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MAX_REMEMBERED", 10)
    topology = new_topology()
    for name in ("q", "r"):
        bound_queue(topology, name, "amq.fanout", "")
        bound_queue(topology, name, "amq.topic", "#")

    for exchange, most in (("amq.topic", 3), ("amq.fanout", 10)):
        raws = [codec.route_of(exchange, str(number)) for number in range(100)]
        for number, raw in enumerate(raws):
            topology.route("/", exchange, str(number), None, raw)

        assert sum(topology.remembered_route("/", raw) is not None for raw in raws) <= most
        assert topology.remembered_route("/", raws[-1]) == ("q", "r")


def test_thousands_of_bindings_are_quick() -> None:
    topology = new_topology()
    declare_queue(topology, "q", durable=False)
    for number in range(2_000):
        topology.bind(queue_binding("q", "amq.topic", f"device.{number}.*.up"))
        topology.bind(queue_binding("q", "amq.match", "", {"kind": "up", "id": number}))

    began = time.process_time()
    for number in range(200):
        assert topology.route("/", "amq.topic", f"device.{number}.x.up") == ("q",)
        assert topology.route("/", "amq.match", "", {"kind": "up", "id": number}) == ("q",)

    # 0.01 s; looking at every binding takes 100 times as long.
    assert time.process_time() - began < 0.5
