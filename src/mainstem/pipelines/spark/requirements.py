"""What Spark needs on this machine, and how to get what is missing; nothing here imports Spark."""

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
"""The JVM, its Python workers and the operating system, with little data."""
_INSTALL_SPARK = "pip install 'mainstem[spark]'"
_INSTALL_CONNECT = "pip install 'mainstem[spark,connect]'"
_INSTALL_JAVA = (
    f"install Java {LEAST_JAVA} or newer (on Debian: apt install openjdk-17-jre-headless) "
    "and have it on PATH, or name its directory in JAVA_HOME"
)


class MissingJava(MainstemError):
    """There is no Java that Spark could run on."""


class MissingSpark(MainstemError):
    """PySpark, or something that it needs in Python, is not installed."""


class Java(msgspec.Struct, frozen=True):
    """A Java that was found."""

    program: str
    version: str
    major: int


def find_java() -> Java:
    """Return the Java that Spark will start: the one of JAVA_HOME, or else on PATH."""
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
        raise MissingJava(f"{program} -version does not tell its version: {_INSTALL_JAVA}")
    # Up to 8 it called itself 1.8.
    major = int(found[2] or 0) if found[1] == "1" else int(found[1])
    java = Java(program, found[0].split('"')[1], major)
    if major < LEAST_JAVA:
        raise MissingJava(f"{program} is Java {java.version}, too old for Spark: {_INSTALL_JAVA}")
    return java


def find_spark() -> str:
    """Return the version of PySpark; raises MissingSpark if it, or what it needs, is not there."""
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
    """Raise MissingSpark if something is not there that Spark Connect needs in Python."""
    for name in ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            raise MissingSpark(
                f"{name} is not installed, which Spark Connect needs: {_INSTALL_CONNECT}"
            ) from None


def memory_bytes() -> int | None:
    """Return how much memory can be had now; None where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else None
