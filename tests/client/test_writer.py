"""Fenced writers: over a restart, across embedded and connected stems, on an event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.in_process_server import server, serving

import mainstem
from mainstem import LocalBroker, aio
from mainstem.client.embedded.stem import EmbeddedStem
from mainstem.client.stem import Stem, Writer
from mainstem.core.errors import Closed, Fenced, MainstemError, Overloaded, WriterFenced

PATIENCE_S = 30


def texts(stem: Stem, topic: str = "ledger") -> list[str]:
    with stem.subscribe(topic, follow=False) as events:
        return [event.text() for event in events]


def test_a_writer_that_was_fenced_stays_so_after_a_crash_of_the_server(
    mainstem: LocalBroker,
) -> None:
    stem, topic = mainstem.connect(), mainstem.topic("ledger")
    stem.topics.create(topic, partitions=1)
    first = stem.writer(topic, name="w")
    first.append("1")
    second = stem.writer(topic, name="w")

    mainstem.crash_and_restart()

    with pytest.raises(WriterFenced):
        first.append("never")
    second.append("2")
    mainstem.crash_and_restart()
    second.append("3")
    assert texts(stem, topic) == ["1", "2", "3"]


def test_opening_the_directory_again_and_a_server_on_it_fence_each_other(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("ledger", partitions=1)
        stem.writer("ledger", name="w").append("embedded")
    with server(tmp_path) as running, mainstem.connect(str(running.kafka)) as connected:
        over_the_network = connected.writer("ledger", name="w")
        over_the_network.append("connected")
        inside = EmbeddedStem(running.node).writer("ledger", name="w")
        with pytest.raises(WriterFenced):
            over_the_network.append("never")
        inside.append("embedded in the server")
        again = connected.writer("ledger", name="w")
        with pytest.raises(WriterFenced):
            inside.append("never")
        with pytest.raises(WriterFenced):
            inside.truncate(before=1)
        again.append("connected again")
    with mainstem.open(tmp_path) as stem:
        assert texts(stem) == [
            "embedded",
            "connected",
            "embedded in the server",
            "connected again",
        ]


def test_a_writer_is_held_back_as_other_producers_are_and_goes_on_once_there_is_room() -> None:
    with mainstem.open(":memory:") as stem:
        stem.topics.create(
            "ledger", partitions=1, overload="backpressure", max_backlog=2, hold_ms=20
        )
        slow = stem.subscribe("ledger", group="slow")
        writer = stem.writer("ledger", name="w")
        writer.append_many(["1", "2"])

        with pytest.raises(Overloaded):
            writer.append("never")
        read = [event.text() for event in slow.poll_many(timeout=PATIENCE_S)]
        slow.commit()
        writer.append("3")

        assert read == ["1", "2"]
        assert texts(stem) == ["1", "2", "3"]


def test_a_connected_writer_whose_append_failed_has_to_be_opened_again() -> None:
    with serving(None) as address, mainstem.connect(address, timeout_s=1) as stem:
        stem.topics.create("ledger", partitions=1)
        writer = stem.writer("ledger", name="w")
        writer.append("1")

        stem.topics.delete("ledger")
        with pytest.raises(MainstemError):
            writer.append("never")
        with pytest.raises(Closed, match="the last append failed"):
            writer.append("never")


def test_a_stem_that_is_closed_closes_its_writers() -> None:
    with serving(None) as address, mainstem.connect(address) as stem:
        stem.topics.create("ledger", partitions=1)
        connected = stem.writer("ledger", name="w")
    with mainstem.open(":memory:") as opened:
        opened.topics.create("ledger", partitions=1)
        embedded = opened.writer("ledger", name="w")

    for writer in (connected, embedded):
        with pytest.raises(Closed, match="stem has been closed"):
            writer.append("never")


def test_threads_that_share_a_writer_append_in_turn() -> None:
    with mainstem.open(":memory:") as stem:
        stem.topics.create("ledger", partitions=1)
        writer = stem.writer("ledger", name="w")

        def work(number: int) -> None:
            for _ in range(20):
                writer.append_many([f"{number}", f"{number}"])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

        read = texts(stem)
    assert len(read) == 160
    assert read[::2] == read[1::2]


async def test_writers_fence_each_other_on_an_event_loop(async_stem: aio.AsyncStem) -> None:
    async def more() -> AsyncIterator[str]:
        yield "3"
        yield "4"

    await async_stem.topics.create("ledger", partitions=1)
    async with async_stem.writer("ledger", name="w") as first:
        at = await first.append("1", key="k")
        await asyncio.gather(first.append("2"), first.append_many(more()))
        async with async_stem.writer("ledger", name="w") as second:
            with pytest.raises(WriterFenced):
                await first.append("never")
            await second.append("5")
            await second.truncate(before=at.offset + 1)
    with pytest.raises(Closed):
        await second.append("never")

    async with async_stem.subscribe("ledger", follow=False) as events:
        assert [event.text() async for event in events] == ["2", "3", "4", "5"]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Stem, Stem]]:
    """Stems of both kinds on one log."""
    with (
        server(None) as running,
        mainstem.connect(str(running.kafka)) as connected,
    ):
        yield EmbeddedStem(running.node), connected


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(0, 1)),
        st.tuples(st.just("append"), st.integers(0, 3)),
        st.tuples(st.just("append_many"), st.integers(0, 3)),
    ),
    max_size=12,
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=Steps, number=st.uuids())
def test_only_the_last_writer_appends_whatever_stem_it_is_of(
    both: tuple[Stem, Stem], steps: list[tuple[str, int]], number: object
) -> None:
    topic, kept, writers = f"ledger-{number}", list[str](), list[Writer]()
    both[0].topics.create(topic, partitions=1, exist_ok=True)
    with ExitStack() as stack:
        for at, (deed, choice) in enumerate(steps):
            if deed == "open":
                writers.append(stack.enter_context(both[choice].writer(topic, name="w")))
                continue
            if not writers:
                continue
            chosen = writers[-1 - choice % len(writers)]
            values = [str(at)] if deed == "append" else [str(at), f"{at}+"]
            if chosen is writers[-1]:
                chosen.append_many(values)
                kept += values
            else:
                with pytest.raises(Fenced):
                    chosen.append_many(values)
        assert texts(both[0], topic) == kept
        assert texts(both[1], topic) == kept
    both[0].topics.delete(topic)
