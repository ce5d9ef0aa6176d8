"""Topic names of AMQP queues: unique and reversible."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem.core.names import check_topic
from mainstem.heads.amqp091.adapter.topology.names import queue_of, topic_of

PARTS = st.sampled_from([".", "_", "._", "2e", "h", "/", "@", "é", "a", "-", "__mainstem_", "._."])
NAMES = st.text(min_size=1, max_size=90) | st.lists(PARTS, min_size=1, max_size=40).map("".join)
VHOSTS = st.just("/") | st.just("") | NAMES
QUEUES = st.tuples(VHOSTS, NAMES)
TOPICS = st.text("abcdef0123456789._-h", min_size=1, max_size=249)


@pytest.mark.parametrize(
    ("vhost", "queue", "topic"),
    [
        ("/", "orders", "orders"),
        ("/", "celery@host", "celery._40host"),
        ("/", "._", "._2e_"),
        ("/", "a.b_c-D", "a.b_c-D"),
        ("/", "ü", "._c3._bc"),
        ("/", ".", "._2e"),
        ("/", "..", "._2e."),
        ("/", "__mainstem_cursors", "._5f_mainstem_cursors"),
        ("shop", "orders", "shop._.orders"),
        ("", "orders", "._.orders"),
        ("a.", "_b", "a.._._b"),
        ("/shop", "orders", "._2fshop._.orders"),
    ],
)
def test_names_are_escaped(vhost: str, queue: str, topic: str) -> None:
    assert topic_of(vhost, queue) == topic
    assert queue_of(topic) == (vhost, queue)


@given(QUEUES)
def test_every_queue_has_a_topic_that_names_it(named: tuple[str, str]) -> None:
    topic = topic_of(*named)

    check_topic(topic)
    assert queue_of(topic) == (None if "._h" in topic else named)


@given(QUEUES, QUEUES)
@example(("/", "a._.b"), ("a", "b"))
@example(("/", "@"), ("/", "._40"))
@example(("/", "x" * 255), ("/", "x" * 254 + "y"))
@example(("x" * 200, "q" * 60), ("x" * 200, "q" * 61))
def test_no_two_queues_have_the_same_topic(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (topic_of(*one) == topic_of(*other)) == (one == other)


@given(TOPICS)
@example("a._41")
@example("._2f._.a")
@example("a._zz")
@example("._ff")
@example("__mainstem_cursors")
@example(".")
def test_a_topic_is_named_after_one_queue_or_none(topic: str) -> None:
    found = queue_of(topic)

    assert found is None or topic_of(*found) == topic


def test_long_names_are_cut_and_hashed() -> None:
    topic = topic_of("/", "@" * 255)

    assert len(topic) == 200 + 3 + 32
    assert topic.startswith("._40._40")
    assert topic_of("/", "x" * 249) == "x" * 249
    assert queue_of(topic) is None
