"""Celery, unmodified: an app with workers of its own, whose broker is a mainstem server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from celery import Celery, chord, group  # type: ignore[import-untyped]
from celery.exceptions import TimeoutError  # type: ignore[import-untyped]  # noqa: A004
from celery.result import AsyncResult  # type: ignore[import-untyped]
from tests.foreign_clients.amqp.pika_client import channel_of, waiting
from tests.foreign_clients.compatibility import AMQP
from tests.processes import wait_until

from mainstem.node.server import Running

pytestmark = [
    pytest.mark.client("Celery", "5.6", AMQP),
    pytest.mark.lacks("transactions", "Celery has none"),
]
PATIENCE_S = 60
COMMAND = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--loglevel", "INFO"]
LATE = ["--queues", "late", "--hostname", "late@%h", "--without-mingle"]
URGENT = ["--queues", "urgent", "--hostname", "urgent@%h", "--without-mingle"]
TASKS = """
import json, os, signal
from celery import Celery

app = Celery("tasks")
app.conf.update(json.loads(os.environ["SETTINGS"]))


def note(path, what):
    with open(path, "a") as file:
        file.write(f"{what}\\n")


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail():
    raise ValueError("as it should")


@app.task(bind=True, max_retries=5)
def tries(self, failures):
    if self.request.retries < failures:
        raise self.retry(countdown=0.05)
    return self.request.retries


@app.task
def write(path, what):
    note(path, what)


@app.task(bind=True, acks_late=True)
def write_late(self, path, what, hangs=False):
    if hangs and not self.request.delivery_info["redelivered"]:
        note(f"{path}.hangs", what)
        signal.pause()
    note(path, what)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def dies_once(self):
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"
"""


class Worker:
    """A worker as users start one, with a process group of its own."""

    def __init__(self, directory: Path, app: Celery, *arguments: str, pool: int = 2) -> None:
        (directory / "tasks.py").write_text(TASKS)
        self._log = directory / "worker.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "--concurrency", str(pool), *arguments],
                cwd=directory,
                env=os.environ | {"SETTINGS": json.dumps(app.chosen)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it and its pool by kill -9."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Let it finish what it does."""
        self._process.terminate()
        assert self._process.wait(PATIENCE_S) == 0, self.said

    @property
    def said(self) -> str:
        """What it wrote."""
        return self._log.read_text()


@contextmanager
def working(directory: Path, app: Celery, *arguments: str, pool: int = 2) -> Iterator[Worker]:
    worker = Worker(directory, app, *arguments, pool=pool)
    try:
        yield worker
        worker.stop()
    except BaseException as error:
        worker.kill()
        error.add_note(worker.said)
        raise


@contextmanager
def killed(worker: Worker) -> Iterator[None]:
    try:
        yield
    finally:
        worker.kill()


@contextmanager
def application(running: Running, backend: str, **settings: object) -> Iterator[Celery]:
    """Make an app as the program has it that sends tasks."""
    port = running.addresses["amqp"].port
    app = Celery("tasks")
    app.chosen = dict(
        broker_url=f"amqp://guest:guest@127.0.0.1:{port}//",
        broker_connection_retry_on_startup=True,
        result_backend=backend,
        result_chord_retry_interval=0.1,
        worker_prefetch_multiplier=1,
        **(settings or {"task_queue_max_priority": 9}),
    )
    app.conf.update(app.chosen)
    yield app
    app.close()


@pytest.fixture(scope="module")
def app(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """Have a worker that answers by a queue."""
    with application(running, "rpc://") as app, working(tmp_path_factory.mktemp("worker"), app):
        yield app
        app.backend.result_consumer.stop()


def send(app: Celery, task: str, *arguments: object, **options: object) -> AsyncResult:
    return app.send_task(f"tasks.{task}", arguments, **options)


def answer(ask: Callable[[], AsyncResult]) -> object:
    """Return a result that comes by a queue, soon after it was asked for.

    Celery 5.6 takes a second without results for a lost connection. It reconnects, by which its
    queue is deleted, and loses what comes meanwhile: so it is asked again.
    """
    for _ in range(10):
        with suppress(TimeoutError):
            return ask().get(PATIENCE_S / 10)
    raise AssertionError("there is no answer")


def written(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@pytest.mark.shows("publish", "tasks, groups")
@pytest.mark.shows("consume", "workers; results (rpc://)")
def test_tasks_are_done_and_answered(app: Celery) -> None:
    numbers = group(app.signature("tasks.add", (number, number)) for number in range(20))

    assert answer(lambda: send(app, "add", 1, 2)) == 3
    assert answer(numbers.apply_async) == [2 * number for number in range(20)]


def test_a_task_that_fails_says_why(app: Celery) -> None:
    with pytest.raises(ValueError, match="as it should"):
        answer(lambda: send(app, "fail"))


@pytest.mark.shows("publish", "retries")
def test_a_task_is_tried_again(app: Celery) -> None:
    assert answer(lambda: send(app, "tries", 2)) == 2


@pytest.mark.shows("consume", "ETA")
def test_a_task_waits_for_its_time(app: Celery, tmp_path: Path) -> None:
    done, began = tmp_path / "done", time.monotonic()
    send(app, "write", str(done), "later", countdown=1)
    send(app, "write", str(done), "at-once")
    wait_until(lambda: len(written(done)) == 2, "not everything is done")

    assert written(done) == ["at-once", "later"]
    assert time.monotonic() - began >= 1


def test_a_task_whose_process_is_killed_is_done_by_another(app: Celery) -> None:
    assert answer(lambda: send(app, "dies_once")) == "alive"


@pytest.mark.shows("declare", "fanout exchanges of remote control")
def test_workers_answer_to_control(app: Celery) -> None:
    """Broadcasts go by a fanout exchange, and answers by a queue that is deleted with it."""
    (answer,) = app.control.ping(timeout=PATIENCE_S, limit=1)
    (name,) = answer

    queues = app.control.inspect([name], PATIENCE_S, limit=1).active_queues()

    assert answer[name] == {"ok": "pong"}
    assert [queue["name"] for queue in queues[name]] == ["celery"]


@pytest.mark.shows("consume", "acks_late with a killed worker; chords")
def test_what_a_killed_worker_had_is_done_by_the_next_and_chords_are_counted(
    running: Running, tmp_path: Path
) -> None:
    done, hanging = tmp_path / "done", tmp_path / "done.hangs"
    names = [f"late-{number}" for number in range(60)]
    with application(running, f"file://{tmp_path}") as app:
        for number, name in enumerate(names):
            # Both processes of the pool hang in the end.
            hangs = number in (20, 21)
            send(app, "write_late", str(done), name, hangs, queue="late")
        with killed(Worker(tmp_path, app, *LATE)):
            wait_until(lambda: len(written(hanging)) == 2, "nothing is done")
        assert sorted(written(done)) == sorted(names[:20])
        with working(tmp_path, app, *LATE):
            wait_until(lambda: set(names) <= set(written(done)), "a task was lost")
            sums = chord(
                [app.signature("tasks.add", (number, 1), queue="late") for number in range(5)]
            )(app.signature("tasks.total", queue="late"))
            assert sums.get(PATIENCE_S) == 15
        with channel_of(running) as channel:
            assert waiting(channel, "late") == 0

    # What was done, and not acknowledged yet when the worker was killed, is done again.
    assert len(written(done)) <= len(names) + 2


@pytest.mark.shows("declare", "task priorities")
def test_the_most_urgent_tasks_are_done_first(running: Running, tmp_path: Path) -> None:
    done = tmp_path / "done"
    with application(running, "rpc://") as app:
        for number in range(30):
            priority = number % 10
            send(app, "write", str(done), priority, priority=priority, queue="urgent")
        with working(tmp_path, app, *URGENT, pool=1):
            wait_until(lambda: len(written(done)) == 30, "not everything is done")

    assert written(done) == [str(9 - number // 3) for number in range(30)]


@pytest.mark.shows("declare", "quorum queues")
@pytest.mark.shows("dead letters", "native delayed delivery")
def test_delays_of_quorum_queues_are_chains_of_dead_letters(
    running: Running, tmp_path: Path
) -> None:
    """A worker with quorum queues has no global prefetch, so ETAs wait in queues of the broker."""
    done = tmp_path / "done"
    settings = {
        "task_default_queue": "quorum",
        "task_default_queue_type": "quorum",
        "task_default_exchange_type": "topic",
        "broker_transport_options": {"confirm_publish": True},
    }
    with (
        application(running, "rpc://", **settings) as app,
        working(tmp_path, app, "--hostname", "quorum@%h", "--without-mingle"),
        channel_of(running) as channel,
    ):
        send(app, "write", str(done), "at-once")
        wait_until(lambda: written(done), "nothing is done")
        began = time.monotonic()
        send(app, "write", str(done), "later", countdown=3)
        # 3 is 11 in binary: two seconds in the second queue, and one more in the first.
        waits = waiting(channel, "celery_delayed_1")
        wait_until(lambda: len(written(done)) == 2, "the task was lost")

        assert time.monotonic() - began >= 3
        assert waits == 1
