"""Unique ids: UUIDs of version 7 that sort by time."""

from uuid import RFC_4122, UUID

import pytest

from mainstem.core.unique_ids import RANDOM_BITS, UniqueIds


@pytest.mark.parametrize("random", [0, 1, 2**RANDOM_BITS - 1, 0x123456789ABCDEF])
def test_an_id_is_a_uuid_of_version_7_with_its_time(random: int) -> None:
    found = UUID(UniqueIds(lambda: 1_700_000_000_123, random).next())

    assert (found.version, found.variant) == (7, RFC_4122)
    assert found.int >> 80 == 1_700_000_000_123
    assert found.int & (1 << RANDOM_BITS) - 1 == random


def test_ids_sort_in_their_order_also_if_the_clock_goes_back() -> None:
    times = iter([5] * 10_000 + [4] * 10 + [100] * 10)
    ids = UniqueIds(lambda: next(times), 7)

    found = [ids.next() for _ in range(10_020)]

    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert all(UUID(each).version == 7 for each in found)
    assert UUID(found[-1]).int >> 80 == 100
