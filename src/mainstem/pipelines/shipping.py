"""Our package, and a pipeline's own modules, as files that Spark hands to its executors.

What is compiled (pyarrow, numpy, msgspec, confluent-kafka) has to be installed where they run: it
depends on the machine. All else is in these files, so that executors run the version that planned.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import mainstem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Entry = tuple[Path, Path]
"""A file, and what it is called for those who import it."""


def ship_package(spark: SparkSession) -> None:
    """Give this package to whatever runs Python for a session."""
    _ship(spark, f"mainstem-{mainstem.__version__}.zip", _package())


def ship_modules(spark: SparkSession, directory: Path) -> None:
    """Give the modules of a directory that are imported here to whatever runs Python."""
    found = list(_modules(directory.resolve()))
    if found:
        _ship(spark, "beside.zip", found)


def pack(file: Path, directory: Path) -> None:
    """Write one file with this package and the modules of a directory that are imported here."""
    draft = file.with_suffix(".draft")
    _write(draft, [*_package(), *_modules(directory.resolve())])
    draft.replace(file)


def _ship(spark: SparkSession, name: str, entries: Iterable[Entry]) -> None:
    # Spark may fetch it at any time while the session lives.
    directory = tempfile.mkdtemp(prefix="mainstem-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    _write(Path(directory, name), entries)
    spark.addArtifacts(str(Path(directory, name)), pyfile=True)


def _write(file: Path, entries: Iterable[Entry]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for source, name in entries:
            packed.write(source, name)


def _package() -> Iterator[Entry]:
    own = Path(mainstem.__file__).parent
    return ((source, source.relative_to(own.parent)) for source in own.rglob("*.py"))


def _modules(directory: Path) -> Iterator[Entry]:
    """Find modules and packages that lie right in a directory, and that this process uses."""
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if "." in name or place is None or name == mainstem.__name__:
            continue
        source = Path(place).resolve()
        if source.suffix == ".py" and source.parent == directory:
            yield source, Path(source.name)
        elif source.name == "__init__.py" and source.parent.parent == directory:
            for each in source.parent.rglob("*.py"):
                yield each, each.relative_to(directory)
