"""Reading partitions when a question to the server fails in the middle of it."""

from collections.abc import Iterator, Mapping

import pytest
from tests.serving import serving

import mainstem
from mainstem.core.errors import Unreachable
from mainstem.remote.administering import Place
from mainstem.remote.consuming import Begin, Consuming
from mainstem.remote.link import Link

PATIENCE = 300
"""How often events are asked for before they are given up."""


@pytest.fixture
def address() -> Iterator[str]:
    with serving(None) as found:
        with mainstem.connect(found) as stem:
            stem.topics.create("orders", partitions=2)
            for number in range(2):
                stem.publish_many("orders", range(10), partition=number)
        yield found


def consuming(address: str, *, group: str | None = None, begin: Begin) -> Consuming:
    link = Link(address, timeout_s=30, settings={})
    return Consuming(link, group=group, begin=begin, limits=None, commits=False)


def take(consuming: Consuming, count: int) -> tuple[list[tuple[int, int]], list[Exception]]:
    """Return where so many events stand that came, and the errors meanwhile."""
    found: list[tuple[int, int]] = []
    errors: list[Exception] = []
    for _ in range(PATIENCE):
        if len(found) >= count:
            break
        try:
            found += [(each.partition, each.offset) for each in consuming.take(100, 0.1)]
        except Unreachable as error:
            errors.append(error)
    return sorted(found), errors


def everything(partition: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(10)]


def test_partitions_where_it_was_not_known_where_to_begin_are_read_later(address: str) -> None:
    answers: list[Exception] = [Unreachable(address, "for a moment"), Unreachable(address, "still")]

    def begin(places: list[Place]) -> Mapping[Place, int]:
        if answers:
            raise answers.pop()
        return dict.fromkeys(places, 0)

    member = consuming(address, group="g", begin=begin)
    member.join(["orders"])

    found, errors = take(member, 20)

    assert len(errors) == 2, "each is told once"
    assert found == everything(0) + everything(1)
    member.close()
