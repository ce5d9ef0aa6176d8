"""What follows from the answers of receivers, and the definitions of endpoints."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import InvalidName, InvalidSetting
from mainstem.heads.webhooks.endpoints import DAY, Endpoint, Order, Payload
from mainstem.heads.webhooks.schedule import Answer, Verdict, decide, retry_after_ms

ENDPOINT = Endpoint(name="shop", url="https://example.com/", topics="orders")
NOW_MS = 1_700_000_000_000


def test_the_suggested_schedule_ends_as_a_dead_letter_after_three_days() -> None:
    delays = []
    attempt = 1
    while (found := decide(ENDPOINT, Answer(500), attempt, lambda: 0)).verdict is Verdict.RETRY:
        delays.append(found.delay_ms)
        attempt += 1

    assert delays[:4] == [5_000, 300_000, 1_800_000, 7_200_000]
    assert found.verdict is Verdict.DEAD
    assert sum(delays) > 3 * DAY


@given(st.integers(0, 599) | st.none(), st.integers(1, 20), st.floats(0, 1), st.integers(0, 10**8))
def test_a_retry_is_never_earlier_than_the_schedule_or_the_receiver_says(
    status: int | None, attempt: int, chance: float, asked_ms: int
) -> None:
    answer = Answer(status, retry_after_ms=asked_ms)
    verdict, delay_ms = decide(ENDPOINT, answer, attempt, lambda: chance)

    if status is not None and 200 <= status < 300:
        assert verdict is Verdict.DELIVERED
    elif status == 410:
        assert verdict is Verdict.GONE
    elif attempt > len(ENDPOINT.retries_ms):
        assert verdict is Verdict.DEAD
    else:
        least = max(asked_ms, ENDPOINT.retries_ms[attempt - 1])
        assert verdict is Verdict.RETRY
        assert least <= delay_ms <= least * 1.1


@pytest.mark.parametrize(
    ("header", "delay_ms"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 7 ", 7_000),
        ("9" * 400, 7 * DAY),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30_000),
        ("Tue, 14 Nov 2000 22:13:50 GMT", 0),
        ("Tue, 14 Nov 2099 22:13:50 GMT", 7 * DAY),
        ("-5", None),
        ("soon", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, delay_ms: int | None) -> None:
    assert retry_after_ms(header, NOW_MS) == delay_ms


@given(st.text())
def test_any_retry_after_is_understood_or_ignored(header: str) -> None:
    found = retry_after_ms(header, NOW_MS)

    assert found is None or 0 <= found <= 7 * DAY


def test_only_429_and_503_hold_all_requests() -> None:
    held = [Answer(status, retry_after_ms=9).hold_ms for status in (200, 429, 500, 503)]

    assert held == [0, 9, 0, 9]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "../x"},
        {"name": "..."},
        {"name": "a" * 101},
        {"url": "file:///etc/passwd"},
        {"topics": ""},
        {"topics": "a b"},
        {"topics": "__mainstem_topics"},
        {"topics": "webhooks.attempts"},
        {"topics": "webhooks.*"},
        {"filters": ("x",)},
        {"retries_ms": (-1,)},
        {"retries_ms": (1,) * 101},
        {"jitter": 1.1},
        {"timeout_ms": 0},
        {"max_in_flight": 0},
        {"max_per_s": 0.0},
        {"batch": 0},
        {"batch": 2},
        {"batch": 2, "payload": Payload.ENVELOPE, "order": Order.ENDPOINT},
        {"pause_after_ms": 0},
    ],
)
def test_a_definition_out_of_range_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises((InvalidSetting, InvalidName)):
        msgspec.structs.replace(ENDPOINT, **changes).check()


def test_a_definition_survives_being_stored() -> None:
    defined = msgspec.structs.replace(ENDPOINT, order=Order.KEY, filters=("key=a",), batch=5)
    stored = msgspec.json.encode(defined)

    assert msgspec.json.decode(stored, type=Endpoint) == defined
    ENDPOINT.check()


def test_a_pattern_matches_neither_dead_letters_nor_own_nor_internal_topics() -> None:
    everything = msgspec.structs.replace(ENDPOINT, topics="*")
    dead = msgspec.structs.replace(ENDPOINT, topics="orders.dead")

    topics = ["orders", "orders.dead", "webhooks.attempts", "__mainstem_topics"]
    assert [each for each in topics if everything.matches(each)] == ["orders"]
    assert dead.matches("orders.dead")
    dead.check()
