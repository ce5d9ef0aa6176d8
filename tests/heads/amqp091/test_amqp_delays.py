"""The header x-delay, as RabbitMQ's plugin reads it."""

from decimal import Decimal

import pytest

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.publishing.delayed_messages import MAX_DELAY_MS, delay_of


@pytest.mark.parametrize(
    ("value", "delay_ms"),
    [
        (1, 1),
        (MAX_DELAY_MS, MAX_DELAY_MS),
        (MAX_DELAY_MS + 1, 0),
        (0, 0),
        (-1, 0),
        (fields.Long(5), 5),
        (fields.Octet(5), 5),
        (5.9, 5),
        (0.9, 0),
        (1e300, 0),
        (float("inf"), 0),
        (float("nan"), 0),
        ("5", 5),
        ("5.9", 5),
        (b"5", 5),
        ("", 0),
        ("5 s", 0),
        ("9" * 10_000, 0),
        ("1.e", 0),
        (True, 0),
        (None, 0),
        (Decimal(5), 0),
        (fields.Timestamp(5), 0),
        ([5], 0),
        ({"a": 5}, 0),
    ],
)
def test_a_delay_is_a_number_or_text_of_one_within_the_limits(
    value: fields.Value, delay_ms: int
) -> None:
    assert delay_of({"x-delay": value}) == delay_ms


def test_without_the_header_there_is_no_delay() -> None:
    assert delay_of({"delay": 5}) == 0
