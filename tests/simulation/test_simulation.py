"""Groups, queues and transactions keep their guarantees in every simulated run.

A seed that fails prints the command that replays it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from heapq import heappush
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.faults.disk.simulated_disk import Image, SimFiles
from tests.long_runs import LONG, seeds
from tests.simulation.lives import first_wrong, happened
from tests.simulation.simulation import CASTS, STEPS, Simulated, simulate

from mainstem.broker.deadlines import Alarm
from mainstem.broker.groups.classic.coordinator import ClassicGroups
from mainstem.broker.groups.classic.group import ClassicGroup, ClassicMember
from mainstem.broker.groups.consumer.draft import ConsumerGroupDraft
from mainstem.broker.groups.cursors import CursorChange
from mainstem.broker.queues.dead_letters import NO_LETTERS, DeadLetters
from mainstem.broker.queues.delivery_state import Redelivery, Window
from mainstem.broker.queues.records import QueueChange, QueueKey, WindowSet
from mainstem.broker.queues.settlement import Plan, Settler
from mainstem.broker.state import State
from mainstem.broker.transactions import epochs
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.records import Transaction, TransactionFold
from mainstem.core.errors import UnknownMember, UnknownProducer
from mainstem.heads.kafka.adapter.apis import share_fetch
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable

ROOT = Path(__file__).parents[2]
AT_ONCE_SEEDS = 80
REAL_SET, REAL_GIVE = Plan.set, Window.give
HAPPENS = (
    "kill",
    "power cut",
    "leap",
    "full disk",
    "sender: commit",
    "sender: abort",
    "reader: read",
    "classic: commit",
    "classic: went on after a restart",
    "static: commit",
    "static: went on after a restart",
    "static: came back",
    "static: fenced",
    "modern: commit",
    "fixed: commit",
    "fixed: pause",
    "fixed: not released",
    "works: commit",
    "queue: ack",
    "queue: nack",
    "queue: renew",
    "share: ack",
    "share: nack",
    "share: reject",
    "share: renew",
    "share: expired",
    "share: dead letter",
    "share: crash",
    "share: connection lost",
)
"""What there must be for it to mean something that nothing goes wrong."""


@pytest.mark.parametrize("first", seeds(0, 3, 200))
def test_nothing_goes_wrong_from_any_seed(first: int) -> None:
    numbers = range(first * AT_ONCE_SEEDS, (first + 1) * AT_ONCE_SEEDS)
    deeds = happened(numbers, lambda seed: simulate(seed, steps=2_000 if LONG else STEPS))

    assert [name for name in HAPPENS if not deeds[name]] == []


def test_a_seed_gives_the_same_life_in_every_process() -> None:
    here = simulate(7)

    code = "from tests.simulation.simulation import simulate; print(simulate(7).digest)"
    for hashes in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here.digest
    assert simulate(7).digest == here.digest
    assert simulate(8).digest != here.digest


@pytest.mark.parametrize(("steps", "casts"), [(STEPS, CASTS), (400, ("amqp", "timed"))])
def test_a_seed_is_replayed_by_the_command_that_a_failure_names(
    steps: int, casts: tuple[str, ...]
) -> None:
    life = simulate(3, steps=steps, casts=casts)
    command = str(life._replace(wrong=["?"])).partition("(")[2].partition(")")[0]

    assert command.startswith(".venv/bin/python ")
    said = subprocess.run(
        [sys.executable, *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert life.digest in said.stdout.splitlines()


def first_found(
    casts: Sequence[str] = CASTS, *, steps: int = STEPS, late: bool = False
) -> Simulated:
    """Return the first life in which something is wrong."""
    return first_wrong(lambda seed: simulate(seed, casts=casts, steps=steps, late=late))


def test_it_would_be_noticed_if_a_producer_were_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(
        transactional_id: str, was: Transaction | None, who: ProducerIdAndEpoch
    ) -> Transaction:
        if was is None:
            raise UnknownProducer(transactional_id, who.producer_id)
        return was

    monkeypatch.setattr(epochs, "check", check)

    assert first_found().wrong


def test_it_would_be_noticed_if_what_was_aborted_were_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TransactionFold, "aborted", lambda *_: ())

    assert first_found().wrong


def test_it_would_be_noticed_if_a_cursor_were_not_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change_cursors(self: State, changes: Sequence[CursorChange], _: int) -> Durable:
        for change in changes:
            self.cursors.apply(change)
        return AT_ONCE

    monkeypatch.setattr(State, "change_cursors", change_cursors)

    assert first_found(("classic", "modern")).wrong


def test_it_would_be_noticed_if_those_taken_for_dead_could_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClassicGroups, "check_commit", lambda *_, **__: None)

    assert first_found(("classic", "works"), steps=1_000).wrong


def test_it_would_be_noticed_if_a_program_that_was_replaced_could_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check_member(self: ClassicGroup, member_id: str, instance_id: str | None) -> ClassicMember:
        holder = self.static.get(instance_id or "", member_id)
        if holder not in self.members:
            raise UnknownMember(self.name, member_id)
        return self.members[holder]

    monkeypatch.setattr(ClassicGroup, "check_member", check_member)

    assert first_found(("static", "modern"), steps=1_000).wrong


def test_it_would_be_noticed_if_two_programs_had_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ConsumerGroupDraft, "remove", lambda *_: None)

    assert "have the place" in first_found(("fixed", "modern")).wrong[0]


@pytest.mark.parametrize("cast", ["queue", "share"])
def test_it_would_be_noticed_if_an_ack_were_not_written_down(
    monkeypatch: pytest.MonkeyPatch, cast: str
) -> None:
    write = Settler.write

    def forget(
        self: Settler, changes: Sequence[QueueChange], letters: Batches = (), *, lazy: bool = False
    ) -> Durable:
        if letters or any(isinstance(each.key, QueueKey) for each in changes):
            return write(self, changes, letters, lazy=lazy)
        self._fold.apply(changes)
        return AT_ONCE

    monkeypatch.setattr(Settler, "write", forget)

    assert first_found((cast, "modern")).wrong


SHARE_FAULTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "it is settled": (
        # What was accepted stays in the window.
        Plan,
        "set",
        lambda self, partition, offset, change, reason="": REAL_SET(
            self, partition, offset, change or Redelivery(1), reason
        ),
    ),
    "may not settle|is out with": (
        # Locks end too early.
        Window,
        "give",
        lambda self, offset, owner, lease, until_ms: REAL_GIVE(
            self, offset, owner, lease, until_ms - 1_000
        ),
    ),
    "th time": (
        # There is no limit.
        Window,
        "_wait",
        lambda self, offset, entry: heappush(self._ready, offset),
    ),
    "before it was durable": (
        share_fetch,
        "when_all",
        lambda durables, call, error=None: call(error),
    ),
    "has lost": (
        # Dead letters are not written.
        DeadLetters,
        "make",
        lambda self, live, dead: NO_LETTERS,
    ),
    "does not hold": (
        # Anybody may settle anything that is out.
        Settler,
        "held",
        lambda self, live, owner, each: live.windows[each.partition],
    ),
}


@pytest.mark.parametrize("said", SHARE_FAULTS)
def test_it_would_be_noticed_if_a_share_group_broke_a_promise(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    owner, name, faulty = SHARE_FAULTS[said]
    monkeypatch.setattr(owner, name, faulty)

    assert re.search(said, first_found(("share", "modern")).wrong[0])


def test_it_would_be_noticed_if_deliveries_were_forgotten_in_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = Window.__init__

    def forget(
        self: Window,
        at: WindowSet,
        most: int | None,
        *,
        keyed: bool,
        alarm: Alarm | None = None,
    ) -> None:
        left = tuple(each._replace(deliveries=0) for each in at.left)
        begin(self, replace(at, left=left), most, keyed=keyed, alarm=alarm)

    monkeypatch.setattr(Window, "__init__", forget)

    assert "th time" in first_found(("share", "modern")).wrong[0]


def test_it_would_be_noticed_if_the_disk_lost_what_it_has_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = SimFiles.__init__

    def lies(self: SimFiles, image: Image | None = None) -> None:
        begin(self, image)
        self.lies = lambda path: "wal" in path

    monkeypatch.setattr(SimFiles, "__init__", lies)

    assert first_found().wrong


def test_the_older_rules_of_transactions_do_not_survive_requests_that_come_late() -> None:
    """As KIP-890 says; clients under these rules rely on requests that keep their order."""
    assert first_found(late=True).wrong
