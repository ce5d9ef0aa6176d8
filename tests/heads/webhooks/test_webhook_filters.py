"""Filters of endpoints."""

import pytest

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event
from mainstem.heads.webhooks.filters import Filter

EVENT = Event(
    b'{"type": "order.paid", "total": 12.5, "items": 3, "rush": true, "gift": null,'
    b' "to": {"city": "Ulm"}}',
    b"customer-7",
    (("Region", b"eu-west"), ("trace", None), ("twice", b"1"), ("twice", b"2")),
)


@pytest.mark.parametrize(
    "condition",
    [
        "key=customer-*",
        "key=customer-?",
        "key!=order-*",
        "header.region=eu-*",
        "header.REGION=eu-west",
        "header.twice=2",
        "header.absent!=x",
        "value.type=order.*",
        "value.total=12.5",
        "value.items=3",
        "value.rush=true",
        "value.gift=null",
        "value.to.city=Ulm",
        'value.to={"city":"Ulm"}',
        "value.absent!=*",
    ],
)
def test_a_condition_that_holds(condition: str) -> None:
    assert Filter([condition]).passes(EVENT)


@pytest.mark.parametrize(
    "condition",
    [
        "key=customer",
        "header.trace=*",
        "header.absent=*",
        "value.type=order",
        "value.type!=order.paid",
        "value.to.zip=*",
        "value.type.deeper=*",
        "value.items=3.0",
    ],
)
def test_a_condition_that_does_not_hold(condition: str) -> None:
    assert not Filter([condition]).passes(EVENT)


def test_all_conditions_must_hold() -> None:
    assert Filter(["key=c*", "value.items=3"]).passes(EVENT)
    assert not Filter(["key=c*", "value.items=4"]).passes(EVENT)
    assert Filter([]).passes(EVENT)


@pytest.mark.parametrize(
    "value", [None, b"", b"not json", b"\xff", b"[1]", b"[" * 100_000, b"1e999"]
)
def test_a_value_that_is_not_an_object_has_no_members(value: bytes | None) -> None:
    assert not Filter(["value.type=*"]).passes(Event(value))


@pytest.mark.parametrize(
    "condition", ["", "key", "=x", "header=x", "header.=x", "value=x", "x.y=z"]
)
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot be understood"):
        Filter([condition])


def test_the_number_of_conditions_is_limited() -> None:
    with pytest.raises(InvalidSetting, match="at most 20"):
        Filter(["key=x"] * 21)
