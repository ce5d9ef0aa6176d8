"""Topic names for any text, and back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem.core.names import check_topic
from mainstem.heads.stomp.adapter.destinations import Kind, parse, plain_name, topic_name


@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
@example(".")
@example("..")
@example("_x0041_")
@example("_x0041_x0042_")
@example("/x0041_")
@example("__x002F_")
def test_every_text_has_a_topic_name_of_its_own(name: str) -> None:
    made = topic_name(name)

    check_topic(made)
    assert plain_name(made) == name


@given(name=st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,30}", fullmatch=True))
def test_what_can_name_a_topic_stays_as_it_is(name: str) -> None:
    if "_x" not in name:
        assert topic_name(name) == name


@pytest.mark.parametrize(
    ("text", "kind", "topic", "queue"),
    [
        ("/queue/orders", Kind.QUEUE, "orders", "orders"),
        ("/queue/a%2Fb c", Kind.QUEUE, "a_x002F_b_x0020_c", "a/b c"),
        ("/queue/orders::emails", Kind.QUEUE, "orders", "emails"),
        ("/amq/queue/orders", Kind.EXISTING, "orders", "orders"),
        ("/topic/orders.eu", Kind.TOPIC, "orders.eu", ""),
        ("/exchange/amq.topic/orders.eu", Kind.TOPIC, "orders.eu", ""),
        ("/reply-queue/r-1-1", Kind.REPLY, "stomp.temp.r-1-1", ""),
        ("/temp-queue/mine", Kind.TEMPORARY, "", ""),
    ],
)
def test_a_destination_means_a_topic_and_perhaps_a_queue(
    text: str, kind: Kind, topic: str, queue: str
) -> None:
    found = parse(text)

    assert (found.kind, found.topic, found.queue) == (kind, topic, queue)
