"""Killed consumers of a queue: no event is lost, and acked ones are not redelivered.

A life is a process of its own that works on the queue and says what it does, a line each; it is
killed (SIGKILL) after a number of lines that differs from life to life.
"""

import subprocess
import sys
from pathlib import Path

import mainstem

EVENTS = 300
LIVES = 6
TAKEN_AT_ONCE = 20

LIFE = """
import sys, mainstem
with mainstem.open(sys.argv[1]) as stem:
    queue = stem.queue("orders", name="emails", max_deliveries=0, follow=False)
    while deliveries := queue.poll_many(int(sys.argv[2]), timeout=0):
        for number, delivery in enumerate(deliveries):
            print("work", delivery.event.text(), flush=True)
            if number % 7 == 3:
                delivery.nack()
            else:
                delivery.ack()
                print("acked", delivery.event.text(), flush=True)
"""


def live(directory: Path, lines: int | None) -> list[tuple[str, int]]:
    """Run one life, killed after so many lines; return what it said."""
    said: list[tuple[str, int]] = []
    arguments = [sys.executable, "-c", LIFE, str(directory), str(TAKEN_AT_ONCE)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            # A line that was cut off by the kill says nothing.
            if line.endswith("\n"):
                deed, number = line.split()
                said.append((deed, int(number)))
            if len(said) == lines:
                process.kill()
    assert lines is not None or process.returncode == 0
    return said


def test_after_kills_nothing_is_lost_and_no_ack_is_forgotten(tmp_path: Path) -> None:
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("orders", partitions=2, durability="fsync")
        stem.publish_many("orders", [str(number) for number in range(EVENTS)])

    acked: set[int] = set()
    in_doubt: set[int] = set()
    for life in range(LIVES):
        said = live(tmp_path / "data", None if life == LIVES - 1 else 40 + 17 * life)
        again = [number for deed, number in said if deed == "work" and number in acked]
        assert not again, f"life {life} was given {again}, which had been acked"
        acked |= {number for deed, number in said if deed == "acked"}
        # It may have been killed after the ack and before it could say so.
        in_doubt |= {number for deed, number in said[-1:] if deed == "work"}

    assert acked | in_doubt == set(range(EVENTS)), "an event was lost"
    with mainstem.open(tmp_path / "data") as stem:
        info = stem.queues.show("orders", "emails")
        assert (info.ready, info.out, info.missed) == (0, 0, 0)
        assert not stem.topics.list("orders.dead")


POISONED = """
import os, sys, mainstem
with mainstem.open(sys.argv[1]) as stem:
    for delivery in stem.queue("orders", name="emails", max_deliveries=3, follow=False):
        with delivery as event:
            print(event.text(), delivery.count, flush=True)
            if event.text() == "poison":
                os._exit(9)
"""


def test_an_event_that_ends_its_process_becomes_a_dead_letter(tmp_path: Path) -> None:
    with mainstem.open(tmp_path / "data") as stem:
        stem.publish_many("orders", ["poison", "after"])

    lives = [
        subprocess.run(
            [sys.executable, "-c", POISONED, str(tmp_path / "data")],
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.split()
        for _ in range(5)
    ]

    # The first crash cannot be told from one of another event; from then on each delivery counts.
    assert lives == [
        ["poison", "1"],
        ["poison", "1"],
        ["poison", "2"],
        ["poison", "3"],
        ["after", "1"],
    ]
    with mainstem.open(tmp_path / "data") as stem:
        (letter,) = stem.subscribe("orders.dead", follow=False)
        assert letter.text() == "poison"
        assert dict(letter.headers)["mainstem-reason"] == (
            b"it was delivered that often and never settled"
        )
