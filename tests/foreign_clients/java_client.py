"""The Java client (kafka-clients 4.3.0), compiled and run; .ci/run brings the jars."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent

import pytest
from tests.processes import output_of

ROOT = Path(__file__).parents[2]
JARS = sorted((ROOT / ".cache" / "java").glob("*.jar"))
SOURCES = Path(__file__).parent / "java"
PATIENCE_S = 120

NEEDS_JAVAC = pytest.mark.skipif(
    shutil.which("javac") is None, reason="javac is missing: apt-get install default-jdk"
)
NEEDED = [
    pytest.mark.peers,
    pytest.mark.skipif(not JARS, reason="kafka-clients is not in .cache/java: run .ci/run"),
    NEEDS_JAVAC,
]

Java = Callable[..., list[str]]


def lines(text: str) -> list[str]:
    """Return the lines of an indented text."""
    return dedent(text).strip().splitlines()


def command(program: str, classes: Path, jars: Sequence[Path] = JARS) -> list[str]:
    """Compile a program; returns how to run it."""
    path = ":".join(map(str, jars))
    source = str(SOURCES / f"{program}.java")
    javac = ["javac", "-cp", path, "-sourcepath", str(SOURCES), "-d", str(classes), source]
    subprocess.run(javac, check=True)
    return ["java", "-Xmx256m", "-cp", f"{classes}:{path}", program]


def compiled(program: str, classes: Path, address: str) -> Java:
    """Compile a program; returns a function that runs it to its end, and gives what it said."""
    java = command(program, classes)

    def run(*arguments: str) -> list[str]:
        return output_of([*java, address, *arguments]).splitlines()

    return run
