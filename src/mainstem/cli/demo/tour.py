"""A tour of the log inside a Python process: publish, fan-out, share, kill -9 and recover.

Everything is in a temporary directory, which is removed at the end.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import mainstem

if TYPE_CHECKING:
    from mainstem.client.stem import Stem

EVENTS = 100_000
WRITER_SECONDS = 2.0
WRITER_TOPIC = "payments"


def main(arguments: list[str]) -> int:
    """Run the tour; with ``write DIR``, run the writer process that the tour's last part kills."""
    if arguments[:1] == ["write"]:
        _write_until_killed(Path(arguments[1]))
    if arguments:
        print("usage: ./run --tour   (the tour takes no arguments)", file=sys.stderr)
        return 2
    began = time.monotonic()
    with _own_directory() as directory:
        _greet(directory)
        with mainstem.open(directory / "data") as stem:
            _publish(stem)
            _fan_out(stem)
            _share(stem)
        lost = _kill_and_recover(directory / "killed")
    _say(f"\nThat took {time.monotonic() - began:.0f} s. {directory} has been removed.")
    _say("Next: README.md has the same in six lines of Python; mainstem --help the commands.")
    return 1 if lost else 0


@contextmanager
def _own_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="mainstem-tour-"))
    # Remove the directory also if the terminal is closed, or after SIGTERM.
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: sys.exit(128 + number))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _greet(directory: Path) -> None:
    _say(f"mainstem {mainstem.__version__}: an event log inside this process")
    _say(f"  data        {directory} (removed at the end)")
    _say("  durability  fsync, 1 copy: an acknowledged event survives kill -9 and a power cut,")
    _say("              not the loss of this disk")


def _publish(stem: "Stem") -> None:
    _title("1. Publish")
    topic = stem.topics.create("orders", partitions=4, durability="fsync")
    _say(f"  topic orders: {len(topic.partitions)} partitions, {topic.settings.durability}, 1 copy")
    began = time.perf_counter()
    position = stem.publish("orders", {"id": 0, "total": 12.5}, key="customer-0")
    took = time.perf_counter() - began
    _say(
        f"  1 event: partition {position.partition}, offset {position.offset}, "
        f"on disk after {took * 1000:.1f} ms"
    )
    orders = (
        mainstem.Event(b'{"id":%d,"total":9.5}' % number, key=b"customer-%d" % (number % 1000))
        for number in range(1, EVENTS)
    )
    began = time.perf_counter()
    count = stem.publish_many("orders", orders)
    _say(f"  {count:,} events in batches: {_rate(count, time.perf_counter() - began)}")


def _fan_out(stem: "Stem") -> None:
    _title("2. Fan-out: every group sees every event")
    for group in ("billing", "shipping"):
        began = time.perf_counter()
        count = total = 0
        for event in stem.subscribe("orders", group=group, follow=False):
            count += 1
            total += len(event.value or b"")
        took = time.perf_counter() - began
        lag = stem.groups.show(group).lag
        _say(f"  {group:<9} {count:,} events, {_rate(count, took)}, lag {lag}")


def _share(stem: "Stem") -> None:
    _title("3. Share within a group: its members split the partitions")
    seen: dict[str, list[tuple[int, int]]] = {}
    ready = threading.Barrier(3)

    def work(name: str) -> None:
        with stem.subscribe("orders", group="audit", follow=False) as events:
            ready.wait()
            seen[name] = [event.position for event in events]

    members = [threading.Thread(target=work, args=(f"member {n}",)) for n in (1, 2)]
    for member in members:
        member.start()
    ready.wait()
    for member in members:
        member.join()
    for name, positions in sorted(seen.items()):
        parts = ", ".join(str(number) for number in sorted({number for number, _ in positions}))
        _say(f"  {name}  partitions {parts}: {len(positions):,} events")
    everything = [position for positions in seen.values() for position in positions]
    _say(
        f"  together {len(everything):,}, of which twice: {len(everything) - len(set(everything))}"
    )


def _kill_and_recover(directory: Path) -> int:
    _title("4. Kill -9 a writer and recover")
    acknowledged = _acknowledged_before_kill(directory)
    _say(f"  a process published one event at a time (fsync) for {WRITER_SECONDS:.0f} s, then died")
    _say(f"  acknowledged  {len(acknowledged):,}")
    began = time.perf_counter()
    with mainstem.open(directory) as stem:
        took = time.perf_counter() - began
        found = {
            (event.partition, event.offset): event.text()
            for event in stem.subscribe(WRITER_TOPIC, follow=False)
        }
    lost = sum(found.get(place) != value for place, value in acknowledged.items())
    _say(f"  found again   {len(acknowledged) - lost:,}")
    _say(f"  lost          {lost}")
    unheard = len(found) - (len(acknowledged) - lost)
    _say(f"  also there    {unheard} (on disk, but killed before it could say so)")
    _say(f"  recovered in  {took * 1000:.0f} ms")
    return lost


def _acknowledged_before_kill(directory: Path) -> dict[tuple[int, int], str]:
    """Run a writer, kill it with SIGKILL, and return the events it had acknowledged before."""
    command = [sys.executable, "-m", "mainstem.cli.demo.tour", "write", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        lines = [writer.stdout.readline()]
        killer = threading.Timer(WRITER_SECONDS, writer.kill)
        killer.start()
        try:
            lines += writer.stdout
        finally:
            killer.cancel()
            writer.kill()
    acknowledged = {}
    for line in lines:
        # The kill may cut off the last line; its event was not acknowledged to anybody then.
        if line.endswith("\n"):
            partition, offset, value = line.split()
            acknowledged[int(partition), int(offset)] = value
    return acknowledged


def _write_until_killed(directory: Path) -> None:
    with mainstem.open(directory) as stem:
        stem.topics.create(WRITER_TOPIC, partitions=2, durability="fsync")
        number = 0
        while True:
            value = f"payment-{number}"
            position = stem.publish(WRITER_TOPIC, value, partition=number % 2)
            os.write(1, f"{position.partition} {position.offset} {value}\n".encode())
            number += 1


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} events/s"


def _title(text: str) -> None:
    _say(f"\n{text}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
