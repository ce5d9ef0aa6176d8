"""Checks that Java and PySpark are installed, without importing Spark."""

import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import msgspec

from mainstem.core.errors import MainstemError

LEAST_JAVA = 17
LEAST_SPARK = (4, 3)
LEAST_MEMORY_BYTES = 2 << 30
"""Minimum memory for the JVM, its Python workers and the operating system, with little data."""
_INSTALL_SPARK = "pip install 'mainstem[spark]'"
_INSTALL_CONNECT = "pip install 'mainstem[spark,connect]'"
_INSTALL_JAVA = (
    f"install Java {LEAST_JAVA} or newer (on Debian: apt install openjdk-17-jre-headless) "
    "and have it on PATH, or name its directory in JAVA_HOME"
)


class MissingJava(MainstemError):
    """Raised if no suitable Java was found."""


class MissingSpark(MainstemError):
    """Raised if PySpark, or a Python package that it needs, is not installed."""


class Java(msgspec.Struct, frozen=True):
    """An installed Java: its path and version."""

    program: str
    version: str
    major: int


def find_java() -> Java:
    """Return the Java that Spark will use: that of JAVA_HOME, or the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        raise MissingJava(f"no java on PATH, and Spark needs one: {_INSTALL_JAVA}")
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise MissingJava(f"{program} does not run ({error}): {_INSTALL_JAVA}") from None
    found = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', answer.stderr + answer.stdout)
    if found is None:
        raise MissingJava(f"{program} -version does not print its version: {_INSTALL_JAVA}")
    # Java 8 and older report a version 1.x.
    major = int(found[2] or 0) if found[1] == "1" else int(found[1])
    java = Java(program, found[0].split('"')[1], major)
    if major < LEAST_JAVA:
        raise MissingJava(f"{program} is Java {java.version}, too old for Spark: {_INSTALL_JAVA}")
    return java


def find_spark() -> str:
    """Return PySpark's version; raises MissingSpark if it, or what it needs, is missing."""
    versions = {}
    for name in ("pyspark", "pyarrow", "pandas", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            raise MissingSpark(f"{name} is not installed: {_INSTALL_SPARK}") from None
    found = versions["pyspark"]
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        raise MissingSpark(f"pyspark {found} is older than {least}: {_INSTALL_SPARK}")
    if int(versions["pandas"].split(".")[0]) >= 3:
        raise MissingSpark(f"pandas {versions['pandas']} is too new for Spark: {_INSTALL_SPARK}")
    return found


def find_connect() -> None:
    """Raise MissingSpark if a Python package that Spark Connect needs is missing."""
    for name in ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            raise MissingSpark(
                f"{name} is not installed, which Spark Connect needs: {_INSTALL_CONNECT}"
            ) from None


def memory_bytes() -> int | None:
    """Return the memory that is available now; None if the system does not report it."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else None
