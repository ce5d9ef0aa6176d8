"""Runs our code on a Spark Connect server where our package is not installed.

How this works: artifacts that a session uploads reach neither its streams, which run in a clone of
the session, nor the ``foreachBatch`` function. So the objects sent to the server need only Python
and PySpark. They have the path of a zip of our package, which is in the state directory that client
and server share. On the server that zip is put on ``sys.path``, and then the rest of the object is
unpickled. Readers that a data source creates there are pickled for the executors in the same way.

cloudpickle sends classes and functions that are defined inside a function, or in a module
registered for it, by value; anything else that can be imported is sent by name.
"""

# Functions sent to the server must not refer to our types in annotations.
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
    """Return a ``foreachBatch`` function that calls ``write`` in the server's Python."""
    path, directory = str(package), str(Path.cwd())
    pickled = cloudpickle.dumps(write)  # type: ignore[no-untyped-call]

    def written(rows: DataFrame, number: int) -> None:
        import os  # noqa: PLC0415 - runs on the server
        import sys  # noqa: PLC0415

        from pyspark import cloudpickle as unpickling  # noqa: PLC0415

        if path not in sys.path:
            sys.path.insert(0, path)
            # A sink's path may be relative. This process runs only this function.
            os.chdir(directory)
        unpickling.loads(pickled)(rows, number)

    return written


class RemoteSources:
    """Registers our data sources in a Spark Connect session.

    Streams of one data source that start at the same time can break it
    (``format/registration.py``), and over Connect we cannot repair that in the server. So each
    stream gets a data source registered for it alone.
    """

    def __init__(self, spark: SparkSession, package: Path) -> None:
        self._spark = spark
        self._package = package
        self._numbers = itertools.count(1)

    def register(self, source: type[DataSource]) -> None:
        """Register a data source under its usual name, for batch reads and writes."""
        self._spark.dataSource.register(remote_source(source, self._package))

    def format_of(self, source: type[DataSource]) -> str:
        """Register a data source under a name for one stream alone; return that name."""
        called = f"{source.name()}-{next(self._numbers)}"
        self._spark.dataSource.register(remote_source(source, self._package, called))
        return called


def remote_source(
    source: type[DataSource], package: Path, called: str | None = None
) -> type[DataSource]:
    """Return a data source that imports ``source`` from the zip ``package`` on the server."""
    path, module, own = str(package), source.__module__, source.__name__
    format_name = called or source.name()
    sent_on = _sender_on()

    class Sent(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def _own(self) -> DataSource:
            import sys  # noqa: PLC0415 - runs on the server
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
    """Return a function that makes an object put our package on ``sys.path`` when unpickled."""

    def load(path: str, pickled: bytes) -> object:
        import sys  # noqa: PLC0415 - runs on the server

        from pyspark import cloudpickle  # noqa: PLC0415

        if path not in sys.path:
            sys.path.insert(0, path)
        return cloudpickle.loads(pickled)

    def sent_on(own: T, path: str) -> T:
        from pyspark import cloudpickle  # noqa: PLC0415 - runs on the server

        kind = type(own)

        def reduced(self: T) -> tuple[object, tuple[str, bytes]]:
            plain = object.__new__(kind)
            plain.__dict__.update(self.__dict__)
            return load, (path, cloudpickle.dumps(plain))  # type: ignore[no-untyped-call]

        own.__class__ = type(kind.__name__, (kind,), {"__reduce__": reduced})
        return own

    return sent_on


def pickle_modules_by_value(modules: Iterable[ModuleType]) -> None:
    """Make cloudpickle send functions and classes of modules by value, to be run on executors."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def check_shared_directory(spark: SparkSession, directory: Path) -> None:
    """Raise RunRefused if the Spark Connect server cannot read the state directory."""
    file = directory.resolve() / "seen"
    file.write_text("seen\n", encoding="ascii")
    try:
        spark.read.text(str(file)).collect()
    except PySparkException as error:
        raise RunRefused(
            f"the Spark Connect server cannot read {file.parent}, the state directory; choose one "
            "that client and server see under the same path (--state), or run on a "
            f"cluster (--master): {str(error).splitlines()[0][:200]}"
        ) from None
