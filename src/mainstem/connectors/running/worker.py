"""The thread of one connector: runs it, and again after a while if the database fails.

While the connector is paused, the thread watches how much log the database keeps for it.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from mainstem.broker.door import Duties
from mainstem.connectors import kind_of
from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.events.envelope import Common
from mainstem.connectors.port import Source
from mainstem.connectors.running.output import Stopped
from mainstem.connectors.running.report import Report, watch_every_s
from mainstem.connectors.running.runner import Runner
from mainstem.connectors.running.target import Target
from mainstem.connectors.secrets import Secrets
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import MainstemError

_logger = logging.getLogger("mainstem.connectors")
_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 30.0
_LONG_RUN_S = 60.0
"""A connector that has run for so long begins with short retries again."""


class Task(NamedTuple):
    """What a worker needs to run its connector."""

    target: Target
    duties: Duties
    settings: ConnectorSettings
    common: Common
    open: Callable[[], Source]
    now_ns: Callable[[], int]


def task_of(
    settings: ConnectorSettings,
    target: Target,
    duties: Duties,
    secrets: Secrets,
    version: str,
    now_ns: Callable[[], int],
) -> Task:
    """Return what a worker needs to run the connector with these settings."""
    kind = kind_of(settings.url)

    def open_source() -> Source:
        return kind.open(settings, lambda: secrets.password(settings))

    common = Common(
        version,
        kind.name,
        settings.topic_prefix,
        open_source().database,
        kind.source,
        kind.has_schemas,
    )
    return Task(target, duties, settings, common, open_source, now_ns)


class Worker:
    """Runs one connector in a thread, from ``start`` to ``stop``."""

    def __init__(self, task: Task, *, paused: bool) -> None:
        self._task = task
        self._paused = paused
        self._stop = threading.Event()
        self._granted = threading.Event()
        self.report = Report()
        name = f"connector-{task.settings.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the connector, and wait until the thread has ended."""
        self.tell()
        self._thread.join()

    def tell(self) -> None:
        """Tell the thread to stop, without waiting for it."""
        self._stop.set()
        self._granted.set()

    def _run(self) -> None:
        name = self._task.settings.name
        duty = self._task.duties.hold(f"connector/{name}", self._granted.set)
        try:
            while not duty.is_held and not self._stop.is_set():
                self.report.phase = "waiting: it runs elsewhere"
                self._granted.wait()
                self._granted.clear()
            if self._paused:
                self.report.phase = "paused"
                self._rest()
            else:
                self._run_again_and_again(name)
        finally:
            duty.release()

    def _run_again_and_again(self, name: str) -> None:
        retry_s = _FIRST_RETRY_S
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._run_once()
            except Stopped:
                return
            except SourceFailed as error:
                if time.monotonic() - began > _LONG_RUN_S:
                    retry_s = _FIRST_RETRY_S
                self._say("retrying", str(error))
                _logger.warning("connector %s: %s; trying again in %g s", name, error, retry_s)
                self._stop.wait(retry_s)
                retry_s = min(retry_s * 2, _LAST_RETRY_S)
            except MainstemError as error:
                self._say("failed", str(error))
                _logger.error("connector %s has stopped: %s", name, error)
                self._rest()
            # A bug must show up in the status and must not end the thread unnoticed.
            except Exception as error:
                self._say("failed", f"{type(error).__name__}: {error}")
                _logger.exception("connector %s has stopped", name)
                self._rest()

    def _run_once(self) -> None:
        task = self._task
        source = task.open()
        self.report.phase = "starting"
        runner = Runner(
            task.target, task.settings, source, task.common, self._stop, self.report, task.now_ns
        )
        try:
            runner.run()
        finally:
            source.close()

    def _rest(self) -> None:
        """Wait for ``stop``; meanwhile watch how much log the database keeps for the connector."""
        source = self._task.open()
        try:
            while not self._stop.is_set():
                self._watch(source)
                self._stop.wait(watch_every_s(self._task.settings))
        finally:
            source.close()

    def _watch(self, source: Source) -> None:
        try:
            watch = source.watch()
        except (SourceFailed, SourceRefused):
            # The next attempt follows soon, and connects anew.
            source.close()
            return
        self.report.watched(watch, self._task.settings)
        if watch.refusal and not self.report.error:
            self._say("failed", watch.refusal)
            _logger.error("connector %s: %s", self._task.settings.name, watch.refusal)

    def _say(self, phase: str, error: str) -> None:
        self.report.phase, self.report.error = phase, error
