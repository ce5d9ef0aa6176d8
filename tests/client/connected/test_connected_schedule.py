"""``schedule`` over the network: the server stores the event, and publishes it when it is due."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.in_process_server import server
from tests.loop_thread import entered

import mainstem
from mainstem import aio
from mainstem.client.connected.stem import ConnectedStem
from mainstem.core.errors import Closed, InvalidSetting, UnknownTopic, Unsupported
from mainstem.heads.admin_operations import OperationFailed
from mainstem.node.config import Config
from mainstem.node.server import Running, running

PATIENCE_S = 30


@pytest.fixture
def stem(served: Running) -> Iterator[ConnectedStem]:
    with mainstem.connect(str(served.kafka)) as found:
        yield found


def test_events_come_when_they_are_due_as_they_were_given(
    served: Running, stem: ConnectedStem
) -> None:
    stem.topics.create("orders", partitions=3)
    stem.schedule("orders", "never", delay_s=1e6)
    whole = {"key": "k", "headers": {"h": "1"}, "timestamp_ms": 7, "partition": 2}
    stem.schedule("orders", b"\xff second", delay_s=0.3, **whole)  # type: ignore[arg-type]
    stem.schedule("orders", "first", at=datetime.now(UTC) - timedelta(days=1), partition=0)
    stem.schedule("orders", "long ago", at=datetime(1960, 1, 1, tzinfo=UTC), partition=1)
    assert served.node.broker.delays.waiting().events >= 1

    with stem.subscribe("orders") as subscription:
        found = [subscription.poll(PATIENCE_S) for _ in range(3)]

    last = found[-1]
    assert last is not None
    assert {each.value for each in found[:2] if each} == {b"first", b"long ago"}
    assert (last.value, last.key, last.headers) == (b"\xff second", b"k", (("h", b"1"),))
    assert (last.timestamp_ms, last.partition) == (7, 2)
    assert served.node.broker.delays.waiting().events == 1


async def test_the_async_stem_has_it_too(served: Running) -> None:
    async with aio.connect(str(served.kafka)) as stem:
        await stem.schedule("orders", {"id": 1}, delay_s=0.01, key="k", headers={"h": "1"})

        async with stem.subscribe("orders") as subscription:
            event = await subscription.poll(PATIENCE_S)

    assert event is not None
    assert (event.json(), event.key, event.headers) == ({"id": 1}, b"k", (("h", b"1"),))


def test_what_cannot_be_published_is_refused_at_once(
    tmp_path: Path, served: Running, stem: ConnectedStem
) -> None:
    with pytest.raises(InvalidSetting, match="delay_s"):
        stem.schedule("orders", "x")
    with pytest.raises(InvalidSetting, match="time zone"):
        stem.schedule("orders", "x", at=datetime(2030, 1, 1))
    stem.topics.create("small", max_batch_bytes=1_024)
    with pytest.raises(OperationFailed, match="max_batch_bytes"):
        stem.schedule("small", "x" * 2_000, delay_s=1)
    with pytest.raises(Unsupported, match="x-delayed-message"):
        stem.schedule("small", "x" * 2_000_000, delay_s=1)
    strict = Config(auto_create=False)
    with (
        server(tmp_path / "strict", config=strict) as other,
        mainstem.connect(str(other.kafka)) as connected,
        pytest.raises(UnknownTopic),
    ):
        connected.schedule("none", "x", delay_s=1)
    stem.close()
    with pytest.raises(Closed):
        stem.schedule("small", "x", delay_s=1)
    assert served.node.broker.delays.waiting().events == 0


def test_without_an_admin_port_it_is_refused() -> None:
    config = Config().listening(kafka="127.0.0.1:0", admin="off")
    with (
        entered(running(None, config)) as served,
        mainstem.connect(str(served.kafka)) as stem,
        pytest.raises(Unsupported, match="admin"),
    ):
        stem.schedule("orders", "x", delay_s=1)
