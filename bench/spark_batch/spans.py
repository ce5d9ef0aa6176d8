"""Timers around functions, put there from outside, so that the product has none.

A span's time is its own: without that of the spans inside it. A process appends what it measured to
a file of its own, in the directory that an environment variable names.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")

DIRECTORY = "MAINSTEM_BENCH_SPANS"


class Spans(msgspec.Struct):
    """What one call or task did, in milliseconds by name; without a name, all of it."""

    kind: str
    began: float
    ms: dict[str, float] = {}
    cpu_ms: dict[str, float] = {}


class _Process:
    """What this process measures now."""

    def __init__(self) -> None:
        self.now = Spans("", 0.0)
        self.inside: list[tuple[float, float]] = []
        """Of every open span: what the spans inside it took, of the clock and of the processor."""


_process = _Process()


def begin(kind: str) -> None:
    """Begin a call or a task."""
    _process.now = Spans(kind, time.time())
    _process.now.ms[""] = -time.perf_counter() * 1000
    _process.now.cpu_ms[""] = -time.thread_time() * 1000
    _process.inside.clear()


def end() -> None:
    """End it, and keep what was measured."""
    now = _process.now
    now.ms[""] += time.perf_counter() * 1000
    now.cpu_ms[""] += time.thread_time() * 1000
    with (Path(os.environ[DIRECTORY]) / f"{os.getpid()}.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(now) + b"\n")


@contextmanager
def kept(kind: str) -> Iterator[None]:
    """Measure a call."""
    begin(kind)
    yield
    end()


def timed(name: str, function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that measures another one."""

    @wraps(function)
    def measured(*args: P.args, **kwargs: P.kwargs) -> T:
        began = (time.perf_counter(), time.thread_time())
        _process.inside.append((0.0, 0.0))
        try:
            return function(*args, **kwargs)
        finally:
            _close(name, began)

    return measured


def timed_iterator(name: str, function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Return a generator function that measures another one, without what its caller does."""

    @wraps(function)
    def measured(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        found = timed(name, function)(*args, **kwargs)
        step = timed(name, lambda: next(found, None))
        while (each := step()) is not None:
            yield each

    return measured


def _close(name: str, began: tuple[float, float]) -> None:
    taken = (time.perf_counter() - began[0], time.thread_time() - began[1])
    inside = _process.inside.pop()
    now = _process.now
    now.ms[name] = now.ms.get(name, 0.0) + (taken[0] - inside[0]) * 1000
    now.cpu_ms[name] = now.cpu_ms.get(name, 0.0) + (taken[1] - inside[1]) * 1000
    if _process.inside:
        outer = _process.inside[-1]
        _process.inside[-1] = (outer[0] + taken[0], outer[1] + taken[1])


def spans_of(directory: Path) -> list[Spans]:
    """Return what all processes measured, in the order of their beginning."""
    lines = [line for file in directory.glob("*.jsonl") for line in file.read_bytes().splitlines()]
    found = [msgspec.json.decode(line, type=Spans) for line in lines]
    return sorted(found, key=lambda each: each.began)
