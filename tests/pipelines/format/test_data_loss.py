"""Data loss is an error that says what to do, or a warning."""

import logging

import pytest

from mainstem.pipelines.format.data_loss import DataLoss, Losses
from mainstem.pipelines.format.offsets import Offsets, from_json
from mainstem.remote.admin import Bounds, Described

TOPICS = {"orders": Described("id-1", 2)}
KEPT = Offsets({("orders", 0): 50, ("orders", 1): 70}, {"orders": "id-1"})


def bounds(*each: tuple[int, int]) -> dict[tuple[str, int], Bounds]:
    return {("orders", n): Bounds(start, tail, 0) for n, (start, tail) in enumerate(each)}


def test_a_query_goes_on_where_it_was() -> None:
    found = Losses(fail=True).resumed(KEPT, TOPICS, bounds((0, 100), (70, 100)))

    assert found == {("orders", 0): 50, ("orders", 1): 70}


@pytest.mark.parametrize(
    ("topics", "limits", "says", "goes_on"),
    [
        (TOPICS, [(60, 100), (0, 100)], "10 offsets of partition 0", (60, 70)),
        (TOPICS, [(0, 100), (0, 69)], "its end was lost", (50, 69)),
        ({"orders": Described("id-2", 2)}, [(0, 10), (0, 10)], "made again", (0, 0)),
    ],
)
def test_what_is_gone_is_an_error_or_a_warning(
    topics: dict[str, Described],
    limits: list[tuple[int, int]],
    says: str,
    goes_on: tuple[int, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLoss, match=says) as error:
        Losses(fail=True).resumed(KEPT, topics, bounds(*limits))
    with caplog.at_level(logging.WARNING):
        found = Losses(fail=False).resumed(KEPT, topics, bounds(*limits))

    assert "failOnDataLoss" in str(error.value)
    assert "new checkpoint" in str(error.value)
    assert says in caplog.text
    assert tuple(found.values()) == goes_on


def test_a_deleted_topic_is_told_once() -> None:
    losses = Losses(fail=False)

    with pytest.raises(DataLoss, match="gone"):
        Losses(fail=True).resumed(KEPT, {}, {})

    assert losses.resumed(KEPT, {}, {}) == {}


def test_a_new_partition_is_read_from_its_first_event() -> None:
    found = Losses(fail=True).resumed(KEPT, TOPICS, bounds((0, 100), (0, 100), (0, 5)))

    assert found[("orders", 2)] == 0


def test_a_new_topic_is_read_from_what_there_is() -> None:
    topics = TOPICS | {"refunds": Described("id-9", 1)}
    limits = bounds((0, 100), (0, 100)) | {("refunds", 0): Bounds(30, 40, 0)}

    assert Losses(fail=True).resumed(KEPT, topics, limits)[("refunds", 0)] == 30


def test_offsets_survive_as_json() -> None:
    assert from_json(KEPT.json()) == KEPT
    assert KEPT.json() == {"offsets": {"orders": {"0": 50, "1": 70}}, "ids": {"orders": "id-1"}}
