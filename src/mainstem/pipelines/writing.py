"""What Spark calls with each batch: here, or over Spark Connect in the server's Python.

How this works: over Connect the function is pickled and sent. Spark gives that Python nothing else,
not even the files that a session ships, so the function names a file with our package, in the
state's directory, which both sides see; the rest of it is unpickled only when that is on the path.
Whether the run is to stop is said by a file, too: the next batch is turned away before anything of
it is written.
"""

from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import msgspec
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mainstem.pipelines.errors import PipelineFailed, RunRefused
from mainstem.pipelines.sinks.port import Mark, Sink

Write = Callable[[DataFrame, int], None]

STOPPED = "mainstem: stopped before this batch"


class Writing(msgspec.Struct, frozen=True):
    """Writes the batches of one table."""

    sink: Sink
    mark: str
    gate: Path
    """A file that is there if no batch shall be written any more."""
    directory: Path
    """Where the run was started: a sink's path may be relative to it."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a batch, unless the gate is closed."""
        if self.gate.exists():
            raise PipelineFailed(STOPPED)
        with chdir(self.directory):
            if not self.sink.write(rows, Mark(self.mark, number)):
                # A crash came before Spark had kept its state of that batch: now it does.
                rows.write.format("noop").mode("overwrite").save()


def sent(writing: Writing, package: Path) -> Write:
    """Return a function that can be sent to a server that has nothing of ours installed."""
    # Its text travels with it because it is defined in here; what is imported by name would not.
    path, pickled = str(package), cloudpickle.dumps(writing)  # type: ignore[no-untyped-call]

    def write(rows: DataFrame, number: int) -> None:
        import sys  # noqa: PLC0415 - all this runs elsewhere

        from pyspark import cloudpickle as unpickling  # noqa: PLC0415

        if path not in sys.path:
            sys.path.insert(0, path)
        unpickling.loads(pickled)(rows, number)

    return write


def check_seen(spark: SparkSession, directory: Path) -> None:
    """Raise RunRefused if Spark's server does not see this directory, where its state is kept."""
    file = directory.resolve() / "seen"
    file.write_text("seen\n", encoding="ascii")
    try:
        spark.read.text(str(file)).collect()
    except PySparkException as error:
        raise RunRefused(
            f"the Spark Connect server does not see {file.parent}, where the state of the pipeline "
            "is kept; name a directory that both see under the same path (--state), or run on a "
            f"cluster (--master): {str(error).splitlines()[0][:200]}"
        ) from None
