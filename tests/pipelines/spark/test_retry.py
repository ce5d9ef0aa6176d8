"""Transient errors are retried; permanent ones are reported at once."""

import pytest
from pyspark.errors import PySparkException

from mainstem.pipelines.spark.retry import is_transient, with_retries

BUSY = PySparkException("[X] Python worker failed to connect back.")
WRONG = PySparkException("[TABLE_OR_VIEW_NOT_FOUND] no such view")


def asked(*failures: PySparkException) -> tuple[str, list[float]]:
    left, waited = list(failures), list[float]()

    def ask() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return with_retries(ask, waited.append), waited


def test_python_that_did_not_come_up_in_time_is_waited_for_ever_longer() -> None:
    assert asked() == ("answer", [])
    assert asked(*[BUSY] * 5) == ("answer", [1.0, 2.0, 4.0, 8.0, 8.0])


def test_patience_has_an_end() -> None:
    with pytest.raises(PySparkException, match="failed to connect back"):
        asked(*[BUSY] * 11)


def test_what_is_wrong_is_told_at_once() -> None:
    with pytest.raises(PySparkException, match="no such view"):
        asked(WRONG)
    assert not is_transient(str(WRONG))
    assert is_transient(str(BUSY))
