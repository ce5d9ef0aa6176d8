"""The batches that are running now, with durations; Spark itself reports only finished batches.

How this works: the queries are polled about once a second. When a batch ends, the query's last
progress report changes, or the query is idle; so durations are right to about a second.
"""

import time
from collections.abc import Callable

import msgspec
from pyspark.sql import SparkSession, is_remote
from pyspark.sql.streaming.query import StreamingQuery

_CLEANING = "No new data but cleaning up state"


class ActiveBatch(msgspec.Struct, frozen=True):
    """The batch that a query is running, or a query that is starting."""

    table: str
    seconds: float
    starting: bool = False
    tasks: int = 0
    """Number of tasks of the Spark jobs running now; 0 if none is running, or if not known."""
    tasks_done: int = 0


class ActiveQueries:
    """Polls the streaming queries of a session."""

    def __init__(self, spark: SparkSession, now: Callable[[], float] = time.monotonic) -> None:
        self._spark = spark
        self._now = now
        self._since: dict[str, tuple[object, float]] = {}
        """Run id of a query → what it is doing, and since when."""
        self._seen = False

    def active_batches(self) -> list[ActiveBatch] | None:
        """Return the running batches; None before the first query has started."""
        active = self._spark.streams.active
        self._seen = self._seen or bool(active)
        if not self._seen:
            return None
        before, self._since = self._since, {}
        return [found for each in active if (found := self._pending(each, before))]

    def _pending(
        self, query: StreamingQuery, before: dict[str, tuple[object, float]]
    ) -> ActiveBatch | None:
        newest = query.lastProgress
        status = query.status
        busy = bool(status["isTriggerActive"]) and (
            bool(status["isDataAvailable"]) or status["message"] == _CLEANING
        )
        if newest is not None and not busy:
            return None
        run = str(query.runId)
        doing = (busy, newest.timestamp if newest else None)
        then, since = before.get(run, (doing, self._now()))
        if then != doing:
            since = self._now()
        self._since[run] = (doing, since)
        tasks, tasks_done = self._tasks(run) if busy else (0, 0)
        return ActiveBatch(_table(query.name), self._now() - since, not busy, tasks, tasks_done)

    def _tasks(self, run: str) -> tuple[int, int]:
        """Return the number of tasks in the running jobs of a query, and how many have finished."""
        if is_remote():
            return 0, 0
        # All jobs of a query, also those of the sink, are in a job group named by its run id.
        tracker = self._spark.sparkContext.statusTracker()
        running = set(tracker.getActiveJobsIds()) & set(tracker.getJobIdsForGroup(run))
        jobs = [job for each in running if (job := tracker.getJobInfo(each))]
        stages = {stage for job in jobs for stage in job.stageIds}
        infos = [info for each in stages if (info := tracker.getStageInfo(each))]
        return sum(each.numTasks for each in infos), sum(each.numCompletedTasks for each in infos)


def _table(name: str | None) -> str:
    """Return the table's name, given its query's name: PIPELINE.TABLE.IDENTITY."""
    return (name or "?").split(".")[-2:][0]
