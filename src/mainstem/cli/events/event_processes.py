"""The processes of ``mainstem sub --exec-each``: one for each event of a queue.

How this works: an event is only taken from the queue when a process may start, so that no more
events are locked than are being processed. A thread waits for each process and settles its event:
ack for exit code 0, otherwise nack. A process is killed when its time is over, which is before the
event's lock expires; so an event is with one process at a time, unless this command is killed.
"""

import errno
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

from mainstem.cli.events.exec_process import CommandFailed, ending
from mainstem.cli.exit_codes import by_signal, say
from mainstem.cli.signals import leave_closed_terminal, stop_signals
from mainstem.client.stem import Delivery, Queue
from mainstem.core.errors import StaleDelivery
from mainstem.core.event import Event

SPARE_S = 10.0
"""How much longer than its process an event is locked, for the time to kill and to settle."""
_LOOK_S = 0.5
"""How often a waiting command looks whether one of its threads has failed."""
_TOO_LARGE = "its key and headers are too large for environment variables"
_CANNOT_RUN = {126: "it cannot be executed", 127: "it was not found"}
"""Exit codes with which a shell says that there is no such command."""


class EventProcesses:
    """Runs a shell command for each event of a queue, several at a time."""

    def __init__(
        self,
        queue: Queue,
        command: str,
        shown: Callable[[Sequence[Event]], bytes],
        *,
        parallel: int,
        seconds: float,
        quiet: bool,
    ) -> None:
        self.acked = self.failed = 0
        """Number of events with exit code 0, and of deliveries without."""
        self.timed_out = False
        """Whether the run ended because no event arrived within the timeout."""
        self._queue, self._command, self._shown = queue, command, shown
        self._parallel, self._seconds, self._quiet = parallel, seconds, quiet
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="mainstem-sub-exec")
        self._running: set[Future[None]] = set()
        self._lock = threading.RLock()
        """Guards what threads of the pool share: the counts and the attributes below."""
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._broken: Exception | None = None
        self._taking = self._stopped = self._killed = False

    def run(self, *, count: int | None, timeout: float | None, end: bool) -> None:
        """Run until the end of the queue, the count, the timeout, or an error.

        Then wait for the processes that are running, also after a signal; a second signal kills
        them.
        """
        with self._finishing():
            left = count
            while left != 0:
                self._await_a_free_place()
                delivery = self._next(timeout, end=end)
                if delivery is None:
                    break
                self._running.add(self._pool.submit(self._handle, delivery))
                left = None if left is None else left - 1
        if self._broken is not None:
            raise self._broken

    def _next(self, timeout: float | None, *, end: bool) -> Delivery | None:
        until = None if timeout is None else time.monotonic() + timeout
        while self._broken is None:
            found = next(self._queue, None) if end else self._queue.poll(self._look_s(until))
            if found is not None:
                return found
            if end and not self._running:
                return None
            if end:
                # Wait, as events of running processes come back to the queue if these fail.
                self._await_one()
            elif until is not None and time.monotonic() >= until:
                self.timed_out = True
                return None
        return None

    def _look_s(self, until: float | None) -> float:
        left = _LOOK_S if until is None else until - time.monotonic()
        return min(_LOOK_S, max(0.0, left))

    def _await_a_free_place(self) -> None:
        self._running = {each for each in self._running if not each.done()}
        if len(self._running) >= self._parallel:
            self._await_one()

    def _await_one(self) -> None:
        _, self._running = wait(self._running, return_when=FIRST_COMPLETED)

    @contextmanager
    def _finishing(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._signalled) for number in stop_signals()}
        try:
            self._taking = True
            yield
        finally:
            self._taking = False
            wait(self._running)
            self._pool.shutdown()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        leave_closed_terminal()
        if self._stopped:
            self._kill_all()
            return
        self._stopped = True
        running = sum(not each.done() for each in self._running)
        if running and not self._quiet:
            waited = "1 process" if running == 1 else f"{running} processes"
            say(f"waiting for {waited}; a second signal kills what runs then")
        # Raise only while events are taken from the queue, so that nothing interrupts the final
        # wait.
        if self._taking:
            self._taking = False
            by_signal(number, frame)

    def _kill_all(self) -> None:
        with self._lock:
            self._killed = True
            for each in self._processes:
                _kill(each)

    # In a thread of the pool

    def _handle(self, delivery: Delivery) -> None:
        try:
            self._settle(delivery, self._outcome(delivery))
        except StaleDelivery as error:
            say(f"{error}; its event is delivered again")
        except Exception as error:
            # Nobody reads this thread's result, so ``run`` raises the error.
            with self._lock:
                self._broken = self._broken or error

    def _outcome(self, delivery: Delivery) -> str:
        """Run the process of a delivery; return why it failed, "" if it did not."""
        try:
            process = self._start(delivery)
        except OSError as error:
            if error.errno == errno.E2BIG:
                return _TOO_LARGE
            delivery.release()
            raise
        try:
            process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
            return f"it took longer than {self._seconds:g} s"
        finally:
            with self._lock:
                self._processes.discard(process)
        if process.returncode in _CANNOT_RUN:
            delivery.release()
            raise CommandFailed(
                f"--exec-each: {self._command} ended with {ending(process)}, which says that "
                f"{_CANNOT_RUN[process.returncode]}; its event went back to the queue"
            )
        return ending(process) if process.returncode else ""

    def _start(self, delivery: Delivery) -> "subprocess.Popen[bytes]":
        with _file_of(self._shown([delivery.event])) as stdin, self._lock:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._command],
                stdin=stdin,
                env=os.environ | _environment(delivery),
                # Keep Ctrl-C from the process: this command gets it, and lets its processes finish.
                start_new_session=True,
            )
            self._processes.add(process)
            if self._killed:
                _kill(process)
        return process

    def _settle(self, delivery: Delivery, why: str) -> None:
        if not why:
            delivery.ack()
            with self._lock:
                self.acked += 1
            return
        if self._killed:
            delivery.release()
            return
        event = delivery.event
        if not self._quiet:
            place = f"{event.topic}[{event.partition}]@{event.offset}"
            say(f"{place}: {why} (delivery {delivery.count})")
        if why is _TOO_LARGE:
            # It would fail each time.
            delivery.reject(why)
        else:
            delivery.nack(reason=why)
        with self._lock:
            self.failed += 1


def _file_of(data: bytes) -> IO[bytes]:
    """Return a file in memory, so that no process gets half an event if this one is killed."""
    file = os.fdopen(os.memfd_create("event"), "w+b")
    file.write(data)
    file.seek(0)
    return file


def _environment(delivery: Delivery) -> dict[str, str]:
    """Return the environment variables that describe the event; values with a NUL are left out."""
    event = delivery.event
    texts = {
        "EVENT_TOPIC": event.topic,
        "EVENT_PARTITION": str(event.partition),
        "EVENT_OFFSET": str(event.offset),
        "EVENT_TIMESTAMP_MS": str(event.timestamp_ms),
        "EVENT_DELIVERY": str(delivery.count),
    }
    found = {f"EVENT_HEADER_{_variable(name)}": value for name, value in event.headers}
    found["EVENT_KEY"] = event.key
    return texts | {
        name: os.fsdecode(value)
        for name, value in found.items()
        if value is not None and b"\0" not in value
    }


def _variable(name: str) -> str:
    return re.sub("[^A-Z0-9]", "_", name.upper(), flags=re.ASCII)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    # The process leads its group until it has been waited for, so its id is still that group's.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
