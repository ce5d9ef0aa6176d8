"""Opens the log on the state left by a crash, and checks what it finds."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.faults.disk.crash_states import Crash, crashes, fingerprint
from tests.faults.disk.random_workload import A0, OPTIONS, Life, born, interrupt_once
from tests.faults.disk.simulated_disk import Image, Operation, SimFiles, blank
from tests.faults.ledger import Ledger, Seen, check, look

from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId

_CUT_OFF = re.compile(r"at byte \d+ \(partition \d+ of topic '.*', offset \d+\)")
_LOST_ENTRIES = re.compile(r"entr(?:ies|y) (\d+) (?:to \d+ are damaged|was cut off)")

SYNCS_OF_A_CHECKPOINT = 24
"""No checkpoint of the small lives syncs more often."""


class Opened(NamedTuple):
    """What opening the log on a disk has shown."""

    seen: dict[PartitionId, Seen]
    findings: Sequence[str]
    failure: str | None = None


class Trial:
    """How many disks were judged, and what was wrong with them; enough is enough.

    A disk that holds the same as one before is judged by what was found there, since nothing but
    the disk decides that; the promises may be others.
    """

    def __init__(self, enough: int = 10) -> None:
        self.states = 0
        self.failures: list[str] = []
        self.thinned = False
        """Whether thinning has freed something."""
        self._enough = enough
        self._opened: dict[int, Opened] = {}

    @property
    def over(self) -> bool:
        """Whether so much is wrong that more would tell nothing."""
        return len(self.failures) >= self._enough

    def judge(self, crash: Crash, ledger: Ledger, at: int, kill: bool, what: str = "") -> None:
        """Note whatever the log on a disk does not keep of what was promised."""
        self.states += 1
        seen, findings, failure = self._open(crash.image)
        if failure is not None:
            wrong = [failure]
        else:
            wrong = [*check(ledger, seen, at, kill), *_false_alarms(findings, ledger, at)]
        for each in wrong:
            self.failures.append(f"{what}{crash.what} at {crash.at}: {each}")

    def _open(self, image: Image) -> Opened:
        """Open the log on a disk; now and then also one that is known, to read it otherwise."""
        piecewise = self.states % 16 == 0
        print_of = fingerprint(image)
        known = self._opened.get(print_of)
        if known is not None and not piecewise:
            return known
        try:
            log = open_on(SimFiles(image))
            opened = Opened(look(log, piecewise=piecewise), log.recovery.findings)
        except Exception as error:  # whatever it is, it must not happen: that is the verdict
            opened = Opened({}, (), f"{type(error).__name__}: {error}")
        self._opened[print_of] = opened
        return opened


def open_on(files: SimFiles) -> DiskLog:
    """Open the log on a simulated disk."""
    return DiskLog.open(files=files, now_ms=lambda: 2_000_000, options=OPTIONS)


def _false_alarms(findings: Iterable[str], ledger: Ledger, at: int) -> Iterator[str]:
    """Yield what was reported though a crash alone, without damage, cannot explain it.

    A write that was cut off is reported with the offset at which the partition ends now; that
    nothing promised is beyond that offset has been checked already.
    """
    synced = max((sequence for since, sequence in ledger.synced if since <= at), default=0)
    for finding in findings:
        entries = _LOST_ENTRIES.search(finding)
        if entries is not None and int(entries[1]) >= synced:
            continue
        if not _CUT_OFF.search(finding):
            yield f"reported as damage: {finding}"


def crash_everywhere(life: Life, rng: Random, *, at_least: int, mixtures: int = 2) -> Trial:
    """Judge all disks that a crash in a life may leave, and more mixtures until there are enough.

    Disks that hold the same after the same promises are judged once.
    """
    trial = Trial()
    promises = set(life.ledger.promises())
    share = 1.0
    while True:
        seen: set[tuple[int, bool]] = set()
        latest = -1
        for crash in crashes(blank(), life.files.trace, rng, mixtures=mixtures, share=share):
            if crash.at != latest:
                latest = crash.at
                if latest in promises:
                    seen.clear()
            print_of = (fingerprint(crash.image), crash.kill)
            if print_of not in seen:
                seen.add(print_of)
                trial.judge(crash, life.ledger, crash.at, crash.kill)
            if trial.over:
                break
        if trial.states >= at_least or trial.failures:
            return trial
        mixtures, share = 20, 0.1


def crash_after_two_checkpoints(number: int, deed: str) -> Trial:
    """Do something at one sync of a checkpoint, make another one, and crash.

    What the first one counted as durable by mistake, the second does not sync, and gives up the
    write-ahead log that held it.
    """
    trial = Trial()
    life = born(number, sync_all_from=100 if number % 4 else 1)
    for partition in life.known:
        life.append(partition)
    life.commit()
    interrupt_once(life, number, deed)
    life.checkpoint()
    life.files.before = lambda kind, path: None
    life.commit()
    life.checkpoint()
    last = life.at
    for crash in crashes(blank(), life.files.trace, Random(number), first=last, mixtures=4):
        trial.judge(crash, life.ledger, crash.at, crash.kill)
    return trial


def crash_around_thinning(
    seed: int, lies: Callable[[str], bool] = lambda path: False, deed: str | None = None
) -> Trial:
    """Fill a partition, thin it, do something at one sync of that, make a checkpoint, and crash."""
    trial = Trial()
    life = born(seed, sync_all_from=100)
    for _ in range(24):
        life.append(A0)
    life.commit()
    life.checkpoint()
    first = life.at
    life.files.lies = lies
    life.thin(A0)
    if deed is not None:
        interrupt_once(life, 1 + seed % 6, deed)
    was = life.log.bounds(A0).size_bytes
    life.tick()
    life.files.before = lambda kind, path: None
    trial.thinned = life.log.bounds(A0).size_bytes < was
    life.append(A0)
    life.commit()
    life.checkpoint()
    life.tick()
    for crash in crashes(blank(), life.files.trace, Random(seed), first=first, mixtures=4):
        trial.judge(crash, life.ledger, crash.at, crash.kill)
        if trial.over:
            break
    return trial


def crash_again(life: Life, rng: Random, *, share: float, deeds: int) -> Trial:
    """Recover from some crashes, live on for a while, and crash again at any time.

    While recovery runs, what the first life promised must survive; once it has served, what it
    showed as well, since readers may have seen it.
    """
    trial = Trial()
    for first in crashes(blank(), life.files.trace, rng, mixtures=1):
        if rng.random() >= share or first.what == "killed in a write":
            continue
        base, before = _disk_of(first, life)
        files = SimFiles.after(base, before)
        second = Life(files, Random(rng.random()))
        if second.known:
            second.live(deeds)
        for again in crashes(base, files.trace, rng, first=len(before), mixtures=1, share=0.25):
            what = f"{first.what} at {first.at}, then "
            if again.at < second.opened:
                trial.judge(again, life.ledger, first.at, first.kill and again.kill, what)
            else:
                trial.judge(again, second.ledger, again.at, again.kill, what)
            if trial.over:
                return trial
    return trial


def crash_and_go_on(life: Life, rng: Random, *, share: float) -> Trial:
    """Recover from some crashes, append much, make a checkpoint, and crash.

    Segments get the names of others that the first crash left behind and recovery removed.
    """
    trial = Trial()
    for first in crashes(blank(), life.files.trace, rng, mixtures=1):
        if rng.random() >= share or first.kill:
            continue
        files = SimFiles(first.image)
        second = Life(files, Random(rng.random()))
        for partition in second.known:
            for _ in range(4):
                second.append(partition, size=700)
        second.commit()
        second.checkpoint()
        for again in crashes(first.image, files.trace, rng, first=second.at, mixtures=1):
            what = f"{first.what} at {first.at}, then "
            trial.judge(again, second.ledger, again.at, again.kill, what)
        if trial.over:
            break
    return trial


def _disk_of(crash: Crash, life: Life) -> tuple[Image, list[Operation]]:
    """Return what is durable after a crash, and what is in the page cache on top of it."""
    if crash.kill:
        return blank(), life.files.trace[: crash.at]
    return crash.image, []
