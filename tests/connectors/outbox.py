"""Rows of an outbox, and the events that the sample rows describe."""

from collections.abc import Callable

from mainstem.core.event import Event

ID = "123e4567-e89b-12d3-a456-{:012}"


def outbox_row(number: int, rest: str) -> str:
    """Return the statement that inserts a row with the id of a number."""
    return f"INSERT INTO outbox VALUES ('{ID.format(number)}', {rest})"


ROWS = (
    outbox_row(1, """'order', '7', 'Made', '{"a": 1}', 5"""),
    outbox_row(2, "'order', '7', 'Paid', '[2]', NULL"),
    outbox_row(3, "'order', '8', 'Made', NULL, 1"),
    outbox_row(4, "'payment', NULL, 'Made', NULL, 1"),
)
"""The third is rolled back."""
HEADERS = ("type:eventType", "tenant")


def check_events(events: Callable[[str], list[Event]]) -> None:
    """Fail unless the events of each topic are those that the rows describe, once."""
    orders, payments = (events(f"outbox.event.{each}") for each in ("order", "payment"))

    assert [(each.key, each.value, each.headers) for each in orders] == [
        (
            b"7",
            b'{"a": 1}',
            (("id", ID.format(1).encode()), ("eventType", b"Made"), ("tenant", b"5")),
        ),
        (b"7", b"[2]", (("id", ID.format(2).encode()), ("eventType", b"Paid"))),
    ]
    assert [(each.key, each.value) for each in payments] == [(None, None)]
