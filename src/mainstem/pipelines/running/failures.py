"""The tables of a run that failed, and those that do not run because they read a failed one."""

from mainstem.core.errors import MainstemError
from mainstem.pipelines.definitions.table import Pipeline
from mainstem.pipelines.errors import PipelineFailed
from mainstem.pipelines.running.table_run import Notify, TableRun


class Failures:
    """Collects the errors of tables, so that the other tables of the run continue."""

    def __init__(self, pipeline: Pipeline, notify: Notify) -> None:
        self._pipeline = pipeline
        self._notify = notify
        self._errors: list[MainstemError] = []
        self._out: dict[str, str] = {}
        """Table → the failed table because of which it does not run; itself if it failed."""

    def add(self, failed: TableRun, error: MainstemError) -> None:
        """Record that a table failed, and notify the user."""
        self._errors.append(error)
        self._out[failed.table.name] = failed.table.name
        self._notify(f"{error}; tables that do not read it continue")

    def failed_upstream(self, run: TableRun) -> str | None:
        """Return the failed table that ``run`` reads, directly or through others, or None."""
        for source in run.table.sources:
            if source.name in self._out and self._pipeline.above(run.table, source.name):
                return self._out[source.name]
        return None

    def hold_back(self, run: TableRun) -> bool:
        """If the table reads a failed one, save in its status that it waits, and return True."""
        cause = self.failed_upstream(run)
        if cause is None:
            return False
        self._out[run.table.name] = cause
        run.set_waiting(f"waits for table {cause!r}, which failed")
        self._notify(f"table {run.table.name!r} waits: it reads table {cause!r}, which failed")
        return True

    def raise_all(self) -> None:
        """Raise the collected errors as one; do nothing if there are none."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise PipelineFailed("; ".join(map(str, self._errors)))
