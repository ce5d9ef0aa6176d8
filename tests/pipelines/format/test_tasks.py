"""Garbage collection and imports in a task process that Spark reuses."""

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from mainstem.pipelines.format import tasks
from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.tasks import End, read_task

OPTIONS = source_options({"subscribe": "orders"})


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    tasks._freeze_once.cache_clear()
    yield
    gc.unfreeze()


def test_after_a_task_in_sparks_process_what_is_loaded_is_no_matter_of_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")

    list(read_task(OPTIONS, End()))
    kept = gc.get_freeze_count()
    list(read_task(OPTIONS, End()))

    assert kept > 10_000
    assert gc.get_freeze_count() <= kept


def test_the_tasks_after_the_first_spend_no_time_on_what_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    list(read_task(OPTIONS, End()))
    called = []

    def note(_: FrameType, event: str, function: Callable[..., object]) -> None:
        if event == "c_call" and function.__module__ == "gc":
            called.append(function.__name__)

    sys.setprofile(note)
    try:
        list(read_task(OPTIONS, End()))
    finally:
        sys.setprofile(None)

    assert called == []


def test_in_the_process_of_a_user_the_garbage_is_left_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)

    list(read_task(OPTIONS, End()))

    assert gc.get_freeze_count() == 0
