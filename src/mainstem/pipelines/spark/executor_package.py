"""Ships our package to Spark's executors as a zip; finds the user's modules, to ship them too.

Compiled packages (pyarrow, numpy, msgspec, confluent-kafka) must be installed on the executors.
Our own code is in the zip, so that executors run the same version as the driver.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import mainstem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship_package(spark: SparkSession) -> None:
    """Ship this package to the executors of a session."""
    # Executors may fetch it at any time while the session lives.
    directory = tempfile.mkdtemp(prefix="mainstem-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    file = Path(directory, f"mainstem-{mainstem.__version__}.zip")
    pack(file)
    spark.addArtifacts(str(file), pyfile=True)


def pack(file: Path) -> None:
    """Write the package ``mainstem`` into a zip file that Python can import."""
    own = Path(mainstem.__file__).parent
    draft = file.with_suffix(".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in own.rglob("*.py"):
            packed.write(source, source.relative_to(own.parent))
    draft.replace(file)


def modules_of(directory: Path) -> Iterator[ModuleType]:
    """Yield the loaded modules and packages whose files are directly in a directory."""
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if "." in name or place is None or name == mainstem.__name__:
            continue
        source = Path(place).resolve()
        alone = source.suffix == ".py" and source.parent == directory
        if alone or (source.name == "__init__.py" and source.parent.parent == directory):
            yield module
