"""Dead letters: their routes, their headers, and detection of cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.door import Cause
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.queues.dead_lettering import (
    DeadLetter,
    dead_letter,
    without_cycles,
)
from mainstem.heads.amqp091.adapter.topology.declared import Queue
from mainstem.heads.amqp091.adapter.topology.queue_arguments import parse
from mainstem.heads.amqp091.properties import Properties, decode_properties, encode_properties

NOW_MS = 1_700_000_000_999
NO_PROPERTIES = Properties()
EXPIRED, REJECTED = Cause.EXPIRED, Cause.REJECTED


def queue(name: str = "q", exchange: str | None = "dlx", key: str | None = None) -> Queue:
    arguments: dict[str, fields.Value] = {}
    if exchange is not None:
        arguments["x-dead-letter-exchange"] = exchange
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    return Queue("/", name, name, arguments=arguments, settings=parse(name, arguments))


def died(
    source: Queue,
    properties: Properties = NO_PROPERTIES,
    reason: Cause = EXPIRED,
    now_ms: int = NOW_MS,
) -> DeadLetter:
    letter = dead_letter(source, "e", "key", properties, reason, now_ms)
    assert letter is not None
    return letter


def headers(letter: DeadLetter) -> fields.Table:
    assert letter.properties.headers is not None
    return letter.properties.headers


def tables(letter: DeadLetter) -> list[dict[str, fields.Value]]:
    found = headers(letter)["x-death"]
    assert isinstance(found, list)
    return found


def deaths(letter: DeadLetter) -> list[tuple[object, object, object]]:
    return [(each["queue"], each["reason"], each.get("count")) for each in tables(letter)]


def test_a_first_death_is_told_in_full() -> None:
    properties = Properties(
        content_type="text/plain", expiration="60000", headers={"mine": 1}, priority=3
    )

    letter = died(queue(), properties)

    assert (letter.exchange, letter.routing_keys) == ("dlx", ("key",))
    assert letter.properties == Properties(
        content_type="text/plain",
        priority=3,
        headers={
            "mine": 1,
            "x-first-death-exchange": "e",
            "x-first-death-queue": "q",
            "x-first-death-reason": "expired",
            "x-last-death-exchange": "e",
            "x-last-death-queue": "q",
            "x-last-death-reason": "expired",
            "x-death": [
                {
                    "count": 1,
                    "reason": "expired",
                    "queue": "q",
                    "time": fields.Timestamp(1_700_000_000),
                    "exchange": "e",
                    "routing-keys": ["key"],
                    "original-expiration": "60000",
                }
            ],
        },
    )
    assert properties.headers == {"mine": 1}


def test_without_an_exchange_for_them_there_are_no_dead_letters() -> None:
    assert dead_letter(queue(exchange=None), "e", "key", NO_PROPERTIES, EXPIRED, NOW_MS) is None


def test_the_default_exchange_may_be_theirs() -> None:
    letter = died(queue(exchange="", key="other"))

    assert (letter.exchange, letter.routing_keys) == ("", ("other",))


def test_a_new_routing_key_takes_the_place_of_all_others() -> None:
    copied = Properties(headers={"CC": ["a", "b"]})

    kept, changed = died(queue(), copied), died(queue(key="new"), copied)

    assert kept.routing_keys == ("key", "a", "b")
    assert headers(kept)["CC"] == ["a", "b"]
    assert changed.routing_keys == ("new",)
    assert "CC" not in headers(changed)
    for letter in (kept, changed):
        (death,) = tables(letter)
        assert death["routing-keys"] == ["key", "a", "b"]


def test_deaths_are_counted_by_queue_and_reason_the_latest_first() -> None:
    first, second = queue("first"), queue("second")
    letter = died(first)
    letter = died(second, letter.properties, REJECTED, NOW_MS + 5_000)
    letter = died(first, letter.properties, REJECTED)
    assert deaths(letter) == [
        ("first", "rejected", 1),
        ("second", "rejected", 1),
        ("first", "expired", 1),
    ]

    letter = died(second, letter.properties, REJECTED, NOW_MS + 99_000)

    assert deaths(letter) == [
        ("second", "rejected", 2),
        ("first", "rejected", 1),
        ("first", "expired", 1),
    ]
    found = headers(letter)
    assert found["x-first-death-queue"] == "first"
    assert found["x-first-death-reason"] == "expired"
    assert found["x-last-death-queue"] == "second"
    assert tables(letter)[0]["time"] == fields.Timestamp(1_700_000_005)


def test_the_count_is_a_long_also_after_it_was_stored() -> None:
    stored = encode_properties(died(queue()).properties)

    letter = died(queue(), decode_properties(stored))

    for written in (stored, encode_properties(letter.properties)):
        assert b"\5countl" in written
    assert deaths(letter) == [("q", "expired", 2)]


@pytest.mark.parametrize("reason", [EXPIRED, Cause.LENGTH, Cause.DELIVERIES])
def test_what_goes_round_by_itself_is_dropped(reason: Cause) -> None:
    letter = died(queue("a"), reason=EXPIRED)
    letter = died(queue("b"), letter.properties, reason)

    assert without_cycles(("a", "b", "c"), letter, reason) == ("c",)


def test_what_is_rejected_may_go_round() -> None:
    letter = died(queue("a"), reason=REJECTED)
    assert without_cycles(("a",), letter, REJECTED) == ("a",)

    letter = died(queue("b"), letter.properties)
    assert without_cycles(("a", "b", "c"), letter, EXPIRED) == ("a", "c")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["q", "expired", "rejected"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["queue", "reason", "count", "time", "routing-keys"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["x-death", "CC", "x-first-death-queue"]), VALUES))
def test_whatever_clients_write_there_are_dead_letters(said: dict[str, fields.Value]) -> None:
    letter = died(queue(), Properties(headers=said))

    assert headers(letter)["x-last-death-queue"] == "q"
    assert deaths(letter)[0][:2] == ("q", "expired")
    assert without_cycles(("q", "r"), letter, EXPIRED) in ((), ("r",))
    written = encode_properties(letter.properties)
    assert decode_properties(written) == letter.properties
