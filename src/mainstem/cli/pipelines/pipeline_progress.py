"""The progress of a running pipeline, to be shown on a terminal."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.cli.output.progress import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mainstem.pipelines.spark.active_batches import ActiveBatch


def steps_of(spark: "SparkSession") -> Callable[[], list[Step] | None]:
    """Return a function that returns what all queries do; None before the first has started."""
    from mainstem.pipelines.spark.active_batches import ActiveQueries  # noqa: PLC0415 - needs Spark

    queries = ActiveQueries(spark)

    def look() -> list[Step] | None:
        pending = queries.active_batches()
        return None if pending is None else [_step(each) for each in pending]

    return look


def _step(pending: "ActiveBatch") -> Step:
    what = "starting" if pending.starting else "this batch"
    done = f", {pending.tasks_done} of {pending.tasks} tasks done" if pending.tasks else ""
    return Step(f"table {pending.table}: {what}", pending.seconds, done)
