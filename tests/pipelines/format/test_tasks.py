"""Garbage collection and imports in a task process that Spark reuses."""

import gc
from collections.abc import Iterator

import pytest

from mainstem.pipelines.format.options import source_options
from mainstem.pipelines.format.tasks import End, read_task

OPTIONS = source_options({"subscribe": "orders"})


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
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


def test_in_the_process_of_a_user_the_garbage_is_left_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)

    list(read_task(OPTIONS, End()))

    assert gc.get_freeze_count() == 0
