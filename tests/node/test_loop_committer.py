"""Whether the event loop or the thread commits appends of a server."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator

import pytest
from tests.faults.disk.disk_steps import batch, values
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.core.errors import MainstemError, StorageFailed
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.commit import group_commit
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import Durable, PartitionId
from mainstem.node.loop_committer import AT_ONCE_S, LoopCommitter

ORDERS = PartitionId("0123456789abcdef" * 2, 0)
PATIENCE_S = 30


class Disk:
    """A simulated disk that knows who syncs, and can be told to fail."""

    def __init__(self) -> None:
        self.syncing: list[int] = []
        self.fails = False
        self.files = SimFiles()
        self.files.before = self._before

    def _before(self, kind: str, path: str) -> None:
        if kind == "sync":
            self.syncing.append(threading.get_ident())
            if self.fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)


class Clock:
    """A timer that only moves when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def log(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskLog]:
    # However slow this machine is.
    monkeypatch.setattr(group_commit, "QUICK_S", float("inf"))
    log = DiskLog.open(files=disk.files, now_ms=lambda: 0, options=Options())
    log.ensure(ORDERS, "orders", TopicSettings())
    for _ in range(group_commit.QUICK_RUN):
        append(log).wait()
    yield log
    log.close()


def append(log: DiskLog, value: bytes = b"x") -> Durable:
    return log.append([(ORDERS, batch(value))]).durable


async def durable(promise: Durable) -> None:
    """Wait for it without standing in the loop's way."""
    settled = asyncio.Event()
    errors: list[MainstemError | None] = []
    loop = asyncio.get_running_loop()

    def decided(error: MainstemError | None) -> None:
        errors.append(error)
        loop.call_soon_threadsafe(settled.set)

    promise.then(decided)
    await asyncio.wait_for(settled.wait(), PATIENCE_S)
    for error in errors:
        if error is not None:
            raise error


async def test_a_loop_that_has_nothing_else_to_do_syncs_by_itself(log: DiskLog, disk: Disk) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    disk.syncing.clear()

    await durable(append(log))

    assert disk.syncing == [threading.get_ident()]


async def test_appends_of_one_turn_share_a_sync_of_the_loop(log: DiskLog, disk: Disk) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    disk.syncing.clear()

    promises = [append(log) for _ in range(3)]
    nothing_yet = list(disk.syncing)
    for each in promises:
        await durable(each)

    assert nothing_yet == []
    assert disk.syncing == [threading.get_ident()]


async def test_a_loop_that_has_more_to_do_leaves_it_to_the_thread(log: DiskLog, disk: Disk) -> None:
    clock = Clock()
    LoopCommitter(log.committer, asyncio.get_running_loop(), clock)
    disk.syncing.clear()

    promise = append(log)
    clock.now += 2 * AT_ONCE_S
    await durable(promise)

    assert len(disk.syncing) == 1
    assert threading.get_ident() not in disk.syncing


async def test_what_is_large_is_left_to_the_thread(log: DiskLog, disk: Disk) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    disk.syncing.clear()

    await durable(append(log, bytes(group_commit.QUICK_BYTES)))

    assert disk.syncing
    assert threading.get_ident() not in disk.syncing


async def test_after_a_slow_sync_the_thread_syncs_until_many_were_quick(
    log: DiskLog, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    monkeypatch.setattr(group_commit, "QUICK_S", -1.0)
    await durable(append(log))
    monkeypatch.setattr(group_commit, "QUICK_S", float("inf"))
    disk.syncing.clear()

    for _ in range(group_commit.QUICK_RUN):
        await durable(append(log))

    assert threading.get_ident() not in disk.syncing
    # On a busy machine the thread may be at its last commit for a moment longer.
    async with asyncio.timeout(PATIENCE_S):
        while threading.get_ident() not in disk.syncing:
            await durable(append(log))


async def test_what_another_thread_appends_is_left_to_the_thread(log: DiskLog, disk: Disk) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    disk.syncing.clear()

    await asyncio.to_thread(lambda: append(log).wait(PATIENCE_S))

    assert disk.syncing
    assert threading.get_ident() not in disk.syncing


async def test_while_the_thread_syncs_the_loop_does_not_wait_for_it(
    log: DiskLog, disk: Disk
) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def before(kind: str, _: str) -> None:
        if kind == "sync" and not begun.is_set():
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(PATIENCE_S)

    disk.files.before = before
    waiting = asyncio.create_task(asyncio.to_thread(lambda: append(log, b"1").wait(PATIENCE_S)))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)

    second = append(log, b"2")
    # The loop has come to its commit by then, and gone on.
    await asyncio.sleep(0)
    was_done = second.done
    go_on.set()
    await waiting
    await durable(second)

    assert not was_done
    assert values(log, ORDERS)[-2:] == [b"1", b"2"]


async def test_a_sync_that_fails_in_the_loop_fails_what_waits_for_it(
    log: DiskLog, disk: Disk
) -> None:
    LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    disk.fails = True

    with pytest.raises(StorageFailed):
        await durable(append(log))

    with pytest.raises(StorageFailed):
        append(log)
    disk.fails = False


async def test_once_stopped_everything_is_left_to_the_thread(log: DiskLog, disk: Disk) -> None:
    loop_commits = LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    disk.syncing.clear()

    under_way = append(log)
    loop_commits.stop()
    under_way.wait(PATIENCE_S)
    append(log).wait(PATIENCE_S)

    assert threading.get_ident() not in disk.syncing


async def test_to_wait_in_the_loop_is_refused_where_it_would_never_end(log: DiskLog) -> None:
    commits_of_loop = LoopCommitter(log.committer, asyncio.get_running_loop(), Clock())
    promise = append(log)

    with pytest.raises(RuntimeError, match=r"use then\(\) there"):
        promise.wait(0)

    await durable(promise)
    assert promise.wait(0)
    commits_of_loop.stop()
    assert append(log).wait(PATIENCE_S)
