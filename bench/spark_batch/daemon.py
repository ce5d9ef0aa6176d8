"""Spark's Python daemon with timers in its workers: setting ``spark.python.daemon.module``.

A task begins when the JVM has said what to run, and ends when all of its answer is sent. What no
span below measures is Spark's own.
"""

import gc
import socket
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import BinaryIO

from bench.spark_batch import spans
from pyspark import daemon

TASK = "task"
ROWS, COMMAND, CHECK, DUMP, FINISH = "rows", "command", "check", "dump", "finish"
CONNECT, ANSWER, DECODE, FREEZE, COLLECT = "connect", "answer", "decode", "freeze", "collect"

_PLAIN = (
    ("pyspark.worker", "read_udfs", COMMAND),
    ("mainstem.pipelines.format.tasks", "_keep_what_is_loaded", FREEZE),
)
_METHODS = (
    ("pyspark.sql.pandas.serializers", "ArrowStreamSerializer", "dump_stream", DUMP),
    ("pyspark.worker", "SparkSocketMessageReceiver", "get_finish_signal_from_stream", FINISH),
    ("mainstem.remote.connection", "Connection", "__init__", CONNECT),
    ("mainstem.remote.connection", "Connection", "receive", ANSWER),
)
_ITERATORS = (
    ("pyspark.sql.worker.plan_data_source_read", "records_to_arrow_batches", CHECK),
    ("mainstem.remote.arrow.ranges", "record_batches", DECODE),
)


@cache
def _install() -> None:
    """Put the timers into the modules of a worker."""
    for module, name, span in _PLAIN:
        at = import_module(module)
        setattr(at, name, spans.timed(span, getattr(at, name)))
    for module, kind, name, span in _METHODS:
        owner = getattr(import_module(module), kind)
        setattr(owner, name, spans.timed(span, getattr(owner, name)))
    for module, name, span in _ITERATORS:
        at = import_module(module)
        setattr(at, name, spans.timed_iterator(span, getattr(at, name)))
    arrow = import_module("pyspark.sql.pandas.serializers").ArrowStreamSerializer
    arrow.load_stream = spans.timed_iterator(ROWS, arrow.load_stream)
    worker = import_module("pyspark.worker")
    receiver = worker.SparkSocketMessageReceiver
    receiver.get_init_message = _beginning(receiver.get_init_message)
    setattr(worker, "main", _ending(worker.main))  # noqa: B010 - a module's
    setattr(gc, "collect", _collecting(gc.collect))  # noqa: B010


def _beginning(receive: Callable[[object], object]) -> Callable[[object], object]:
    def received(self: object) -> object:
        found = receive(self)
        spans.begin(TASK)
        return found

    return received


def _ending(main: Callable[[BinaryIO, BinaryIO], None]) -> Callable[[BinaryIO, BinaryIO], None]:
    def ended(infile: BinaryIO, outfile: BinaryIO) -> None:
        main(infile, outfile)
        outfile.flush()
        spans.end()

    return ended


def _collecting(collect: Callable[[], int]) -> Callable[[], int]:
    """Measure the garbage collection after a task, which delays the next one."""

    def collected() -> int:
        with spans.kept(COLLECT):
            return collect()

    return collected


_worker = daemon.worker


def _measured_worker(sock: socket.socket, authenticated: bool) -> int:
    _install()
    return _worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = _measured_worker
    daemon.manager()
