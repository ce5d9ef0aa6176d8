"""A simulation of time, network, disk and randomness: one seed gives one sequence of events.

How this works: everything that is going to happen is in a heap, by the time it is due. Clients are
coroutines that ask the broker something and wait for the answer. Between them and the broker is a
network that delays and loses requests and answers; a request whose sender says that it may come
``late`` is also held up for seconds, or arrives twice. The broker is on a simulated disk that is
synced now and then: an answer leaves when what it says is durable. Now and then the process is
killed or the power goes, and the broker begins anew on what the disk has kept. The monotonic clock
makes leaps, and the time of day goes where it wants.

Every arrival is part of the trace: two runs of a seed have the same, in every process.
"""

import heapq
import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from random import Random
from typing import Generic, TypeVar
from unittest.mock import patch

import msgspec
from tests.checker.history import Recorder
from tests.faults.disk.crash_states import crashes
from tests.faults.disk.disk_steps import allow, refuse
from tests.faults.disk.random_workload import OPTIONS
from tests.faults.disk.simulated_disk import SimFiles, blank
from tests.simulation.wall_clock import WallClock

from mainstem.broker.broker import Broker
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.limits import Limits
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.log.disk import DiskLog

T = TypeVar("T")
Reply = Callable[[T | MainstemError], None]
Life = Coroutine["Ask[object] | Signal | int", object, None]

PATIENCE_MS = 150
"""After so long without an answer a client gives up waiting."""
LATENCY_MS = 20
LATE_MS = 1_500
LOSSES = 0.04
LATE = 0.1
LIMITS = Limits(groups=GroupLimits(min_session_timeout_ms=1))
START_MS = 1_700_000_000_000
KEPT = ("nothing unsynced is kept", "all bytes, no names", "all names, no bytes", "a mixture")
"""What a power cut may leave."""


class Wrong(Exception):
    """Something that must not happen has happened."""


class Unanswered(Exception):
    """No answer has come: the request, or the answer, may be lost or late."""


class Ask(msgspec.Struct, Generic[T], eq=False):
    """A request on its way; awaiting it gives the answer."""

    what: str
    call: Callable[[Broker, Reply[T]], None]
    late: bool
    patience_ms: int = PATIENCE_MS
    is_over: bool = False

    def __await__(self) -> Generator["Ask[T]", T, T]:
        return (yield self)


class Signal:
    """Something that happens once, with what is told of it; awaiting it gives that."""

    def __init__(self) -> None:
        self._told: list[object] = []
        self._call: Callable[[object], None] | None = None

    def __await__(self) -> Generator["Signal", object, object]:
        return (yield self)

    def tell(self, what: object) -> None:
        """Let it happen, unless it has; an exception is raised where it is awaited."""
        if not self._told:
            self._told.append(what)
            if self._call is not None:
                self._call(what)

    def then(self, call: Callable[[object], None]) -> None:
        """Call when it happens, or now."""
        self._call = call
        if self._told:
            call(self._told[0])


class Pause:
    """Some time in which a client does nothing."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def __await__(self) -> Generator[int, None, None]:
        yield self.ms


class World:
    """The clients, what is between them and the broker, and the broker."""

    def __init__(self, seed: int, keeps_trace: bool = False) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.time_of_day_off_ms = 0
        self.wall_clock = WallClock(self.time_of_day_ms)
        """What it has shown."""
        self.is_calm = False
        """Whether nothing gets lost or late any more, and clients finish what they do."""
        self.recorder = Recorder()
        self.after_arrival: list[Callable[[Broker], None]] = []
        self.after_crash: list[Callable[[Broker], None]] = []
        self.files = SimFiles()
        self.deeds: Counter[str] = Counter()
        """What clients did, and what happened to them, and how often."""
        self.trace: list[str] = []
        self._keeps_trace = keeps_trace
        self._hash = sha256()
        self._base = blank()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._ids = itertools.count(1)
        self._commits = False
        self.living = 0
        """How many clients have not come to their end."""
        self.power_cuts = 0
        self.crashes = 0
        self.is_disk_full = False
        self.freed_ms: int | None = None
        """When the disk had space again, after it had been full."""
        self._open()

    # Time

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Call something after some time."""
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._ties), call))

    def run(self, steps: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let so many things happen, or fewer if that is enough."""
        for _ in range(steps):
            if until() or not self._due:
                return
            due_ms, _, call = heapq.heappop(self._due)
            # After a leap of the clock some are late.
            self.now_ms = max(self.now_ms, due_ms)
            call()

    def every(self, ms: int, call: Callable[[], None]) -> None:
        """Call something again and again."""

        def again() -> None:
            call()
            self.at(ms, again)

        self.at(ms, again)

    def leap(self, ms: int) -> None:
        """Let time pass at once."""
        self.now_ms += ms
        self.deeds["leap"] += 1
        self.note("leap", ms)

    def set_time_of_day(self, off_ms: int) -> None:
        """Set the clock on the wall, so far off from where it would be by itself."""
        with self.wall_clock.set():
            self.time_of_day_off_ms = off_ms

    def note(self, *what: object) -> None:
        """Make something part of the trace."""
        line = f"{self.now_ms} {' '.join(map(str, what))}"
        self._hash.update(line.encode())
        if self._keeps_trace:
            self.trace.append(line)

    def digest(self) -> str:
        """Return what is the same for runs that went the same way."""
        return self._hash.hexdigest()

    # The server

    def _open(self) -> None:
        self.log = DiskLog.open(files=self.files, now_ms=self.time_of_day_ms, options=OPTIONS)
        self.broker = Broker(
            self.log,
            self.time_of_day_ms,
            new_id=lambda: f"a{next(self._ids):031x}",
            monotonic_ms=lambda: self.now_ms,
            limits=LIMITS,
            crashed=not self.log.recovery.clean,
        )

    def time_of_day_ms(self) -> int:
        """Return what the clock on the wall says."""
        return START_MS + self.now_ms + self.time_of_day_off_ms

    def crash(self) -> None:
        """Kill the process, or cut the power; what was on its way to the server is lost."""
        operations = self.files.trace
        self.crashes += 1
        if self.rng.random() < 0.5:
            self.deeds["kill"] += 1
            self.note("kill", len(operations))
            self.files = SimFiles.after(self._base, operations)
        else:
            wanted = self.rng.choice(KEPT)
            left = crashes(self._base, operations, self.rng, first=len(operations), mixtures=1)
            first = crash = next(left)
            while crash.what != wanted and (more := next(left, None)) is not None:
                crash = more
            # If all was synced, there is nothing to lose.
            crash = crash if crash.what == wanted else first
            self.deeds["power cut"] += 1
            self.power_cuts += 1
            self.note("power", crash.what, len(operations))
            self._base = crash.image
            self.files = SimFiles(crash.image)
        self._commits = False
        self._open()
        for check in self.after_crash:
            check(self.broker)

    def fill_disk(self) -> None:
        """Leave no space for anything new."""
        self.deeds["full disk"] += 1
        self.note("full")
        self.is_disk_full = True
        refuse(self.files, "grow allocate create make_dir")

    def free_disk(self) -> None:
        """Give the space back."""
        if self.is_disk_full:
            self.freed_ms = self.now_ms
        self.is_disk_full = False
        allow(self.files)

    def commit(self) -> None:
        """Make durable what has been written."""
        self._commits = False
        self.log.committer.commit()

    def upkeep(self) -> None:
        """Do what a server does from time to time: cut, compact, make checkpoints."""
        # While the disk is full it waits, as the log's own thread does.
        with suppress(StorageFull):
            self.log.upkeep.tick()

    def tick(self) -> None:
        """Do what is due."""
        self.broker.tick()
        self.commit_soon()

    def commit_soon(self) -> None:
        """Make durable what has been written, in a few milliseconds."""
        if not self._commits:
            self._commits = True
            log = self.log
            # The disk of a server that has died does nothing.
            self.at(self.rng.randint(0, 8), lambda: self.commit() if log is self.log else None)

    # Clients and their requests

    def spawn(self, name: str, life: Life) -> None:
        """Let a client live."""
        self.living += 1
        self.at(self.rng.randint(0, 100), lambda: self._resume(name, life, None))

    def _resume(self, name: str, life: Life, answer: object) -> None:
        try:
            waits_for = life.throw(answer) if isinstance(answer, Exception) else life.send(answer)
        except StopIteration:
            self.living -= 1
            return
        if isinstance(waits_for, int):
            self.at(waits_for, lambda: self._resume(name, life, None))
        elif isinstance(waits_for, Signal):
            waits_for.then(lambda told: self._resume(name, life, told))
        else:
            self._send(name, life, waits_for)

    def _send(self, name: str, life: Life, ask: Ask[object]) -> None:
        def end(answer: object) -> None:
            if not ask.is_over:
                ask.is_over = True
                self._resume(name, life, answer)

        def answer(given: object) -> None:
            if not (self._is_lost() and ask.late):
                self.at(self._latency_ms(), lambda: end(given))

        def arrive(reply: Reply[object]) -> None:
            self._arrive(name, ask, reply)

        self.at(ask.patience_ms, lambda: end(Unanswered(ask.what)))
        if self._is_lost():
            return
        late_ms = self._late_ms() if ask.late else 0
        self.at(self._latency_ms() + late_ms, lambda: arrive(answer))
        if ask.late and (again_ms := self._late_ms()):
            self.at(again_ms, lambda: arrive(lambda _: None))

    def _arrive(self, name: str, ask: Ask[object], reply: Reply[object]) -> None:
        def answer(given: object) -> None:
            self.note(name, ask.what, type(given).__name__)
            if not isinstance(given, MainstemError):
                self.deeds[f"{name.split(maxsplit=1)[0]}: {ask.what.split()[0]}"] += 1
            reply(given)

        try:
            ask.call(self.broker, answer)
        except MainstemError as error:
            answer(error)
        for check in self.after_arrival:
            check(self.broker)
        self.commit_soon()

    def _is_lost(self) -> bool:
        return not self.is_calm and self.rng.random() < LOSSES

    def _latency_ms(self) -> int:
        return self.rng.randint(1, LATENCY_MS)

    def _late_ms(self) -> int:
        is_late = not self.is_calm and self.rng.random() < LATE
        return self.rng.randint(1, LATE_MS) if is_late else 0


class Client:
    """One program: what it may do in its world."""

    def __init__(self, world: World, name: str, *, late: bool = True) -> None:
        self.world = world
        self.name = name
        self.rng = world.rng
        self.recorder = world.recorder
        self._late = late

    async def ask(self, what: str, call: Callable[[Broker], T], *, late: bool = True) -> T:
        """Ask for something; what is answered is durable."""

        def decided(broker: Broker, reply: Reply[T]) -> None:
            answer = call(broker)
            durable = getattr(answer, "durable", answer)
            if hasattr(durable, "then"):
                durable.then(lambda error: reply(answer if error is None else error))
            else:
                reply(answer)

        ask: Ask[T] = Ask(what, decided, late and self._late)
        return await ask

    async def ask_often(self, what: str, call: Callable[[Broker], T]) -> T:
        """Ask for the same until there is an answer, or it looks as if there were none."""
        for _ in range(6):
            try:
                return await self.ask(what, call)
            except Unanswered:
                continue
        raise Unanswered(what)

    async def ask_and_wait(self, what: str, call: Callable[[Broker, Reply[T]], None]) -> T:
        """Ask for something that is answered some time."""
        ask: Ask[T] = Ask(what, call, self._late, LATE_MS)
        return await ask

    def rest(self, most_ms: int) -> Pause:
        """Return some time to await."""
        return Pause(self.rng.randint(1, most_ms))


@contextmanager
def without_chance(seed: int) -> Iterator[None]:
    """Let ids that nobody passes in be the same in every run."""
    rng = Random(seed)
    with patch.object(uuid, "uuid4", lambda: uuid.UUID(int=rng.getrandbits(128), version=4)):
        yield
