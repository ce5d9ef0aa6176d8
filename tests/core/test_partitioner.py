"""Which partition an event goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.partitioner import Turns, murmur2, partition_for


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_the_hash_is_that_of_the_java_client(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


def test_a_key_goes_where_the_java_client_sends_it() -> None:
    assert partition_for(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000
    assert partition_for(b"abc", 1000) == 479470107 % 1000


@given(st.binary(max_size=300), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_partition(key: bytes, partitions: int) -> None:
    chosen = partition_for(key, partitions)

    assert 0 <= chosen < partitions
    assert chosen == (murmur2(key) & 0x7FFFFFFF) % partitions


def test_keys_are_spread_over_the_partitions() -> None:
    counts = [0] * 8

    for number in range(8000):
        counts[partition_for(b"customer-%d" % number, 8)] += 1

    assert min(counts) > 800


def test_without_a_key_the_partitions_take_turns() -> None:
    turns = Turns()

    assert [turns.next(3) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_turns_can_start_anywhere_and_stay_a_while() -> None:
    turns = Turns(start=2, run=2)

    assert [turns.next(3) for _ in range(7)] == [2, 2, 0, 0, 1, 1, 2]


def test_partitions_may_grow_between_turns() -> None:
    turns = Turns()

    assert [turns.next(1), turns.next(1), turns.next(4), turns.next(4)] == [0, 0, 2, 3]
