"""Our code as Spark Connect takes it, where our package is not installed.

How this works: what a session ships does not reach its streams, which run in a copy of the session,
nor the function that gets each batch. So what is sent to them consists of nothing but Python's and
Spark's own. It names a file with our package, in the state's directory, which all sides see; with
that on the path the rest is unpickled. What a source makes there, to be sent on to the executors,
is pickled in the same way.

A class or function that is defined inside of another function travels as a whole, and so does all
of a module that is registered for it; what else can be imported travels as its name.
"""

# What travels must not carry our types in its annotations.
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import RunRefused

T = TypeVar("T")
Write = Callable[[DataFrame, int], None]


def remote_writer(write: Write, package: Path) -> Write:
    """Return a function that does in the server's Python what ``write`` does."""
    path, directory = str(package), str(Path.cwd())
    pickled = cloudpickle.dumps(write)  # type: ignore[no-untyped-call]

    def written(rows: DataFrame, number: int) -> None:
        import os  # noqa: PLC0415 - all this runs elsewhere
        import sys  # noqa: PLC0415

        from pyspark import cloudpickle as unpickling  # noqa: PLC0415

        if path not in sys.path:
            sys.path.insert(0, path)
            # A sink's path may be relative. The process is there for this function alone.
            os.chdir(directory)
        unpickling.loads(pickled)(rows, number)

    return written


class RemoteSources:
    """Our data sources in a session of Spark Connect.

    Streams of one data source that start at once can break it (``format/registration.py``), and
    the map that breaks is the server's. So each stream gets a data source of its own.
    """

    def __init__(self, spark: SparkSession, package: Path) -> None:
        self._spark = spark
        self._package = package
        self._numbers = itertools.count(1)

    def register(self, source: type[DataSource]) -> None:
        """Register a source under its own name, for what is no stream."""
        self._spark.dataSource.register(remote_source(source, self._package))

    def format_of(self, source: type[DataSource]) -> str:
        """Register a source once more, for one stream; returns the word for ``format``."""
        called = f"{source.name()}-{next(self._numbers)}"
        self._spark.dataSource.register(remote_source(source, self._package, called))
        return called


def remote_source(
    source: type[DataSource], package: Path, called: str | None = None
) -> type[DataSource]:
    """Return a data source that in the server's Python becomes the one given."""
    path, module, own = str(package), source.__module__, source.__name__
    format_name = called or source.name()
    sent_on = _sender_on()

    class Sent(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def _own(self) -> DataSource:
            import sys  # noqa: PLC0415 - all this runs elsewhere
            from importlib import import_module  # noqa: PLC0415

            if path not in sys.path:
                sys.path.insert(0, path)
            made: DataSource = getattr(import_module(module), own)(self.options)
            return made

        def schema(self) -> StructType | str:
            return self._own().schema()

        def reader(self, schema: StructType) -> DataSourceReader:
            return sent_on(self._own().reader(schema), path)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return sent_on(self._own().streamReader(schema), path)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return sent_on(self._own().writer(schema, overwrite), path)

    return Sent


def _sender_on() -> Callable[[T, str], T]:
    """Return what lets an object be pickled as something that puts our package on the path."""

    def load(path: str, pickled: bytes) -> object:
        import sys  # noqa: PLC0415 - all this runs elsewhere

        from pyspark import cloudpickle  # noqa: PLC0415

        if path not in sys.path:
            sys.path.insert(0, path)
        return cloudpickle.loads(pickled)

    def sent_on(own: T, path: str) -> T:
        from pyspark import cloudpickle  # noqa: PLC0415 - all this runs elsewhere

        kind = type(own)

        def reduced(self: T) -> tuple[object, tuple[str, bytes]]:
            plain = object.__new__(kind)
            plain.__dict__.update(self.__dict__)
            return load, (path, cloudpickle.dumps(plain))  # type: ignore[no-untyped-call]

        own.__class__ = type(kind.__name__, (kind,), {"__reduce__": reduced})
        return own

    return sent_on


def pickle_modules_by_value(modules: Iterable[ModuleType]) -> None:
    """Let functions and classes of modules travel whole, as their modules are nowhere else."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def check_shared_directory(spark: SparkSession, directory: Path) -> None:
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
