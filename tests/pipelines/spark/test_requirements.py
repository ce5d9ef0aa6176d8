"""Missing requirements of Spark are reported exactly."""

import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from mainstem.pipelines.spark import requirements
from mainstem.pipelines.spark.requirements import (
    MissingJava,
    MissingSpark,
    find_connect,
    find_java,
    find_spark,
)


def java_that_says(directory: Path, text: str) -> None:
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_no_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingJava, match=r"no java on PATH.*JAVA_HOME"):
        find_java()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJava, match="does not run"):
        find_java()


@pytest.mark.parametrize(
    ("says", "major"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21" 2023-09-19', 21)],
)
def test_a_java_is_known_by_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, major: int
) -> None:
    java_that_says(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert find_java().major == major


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ('java version "1.8.0_202"', "too old"),
        ('openjdk version "11.0.2"', "too old"),
        ("hello", "version"),
    ],
)
def test_a_java_that_will_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, reason: str
) -> None:
    java_that_says(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(MissingJava, match=reason):
        find_java()


@pytest.mark.parametrize(
    ("package", "version", "says"),
    [
        ("pyspark", None, "pyspark is not installed"),
        ("pandas", None, "pandas is not installed"),
        ("pyspark", "3.5.1", "older than 4.3"),
        ("pandas", "3.0.0", "too new"),
    ],
)
def test_a_package_that_will_not_do_is_named(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str | None, says: str
) -> None:
    real = metadata.version

    def versions(name: str) -> str:
        if name != package:
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", versions)

    with pytest.raises(MissingSpark, match=rf"{says}.*pip install 'mainstem\[spark\]'"):
        find_spark()


def test_what_spark_connect_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def versions(name: str) -> str:
        if name == "grpcio-status":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", versions)

    with pytest.raises(MissingSpark, match=r"grpcio-status is not.*'mainstem\[spark,connect\]'"):
        find_connect()


def test_memory_is_told() -> None:
    assert (requirements.memory_bytes() or 0) > 0


def test_nothing_of_spark_is_imported_unless_pipelines_run() -> None:
    script = (
        "import sys, mainstem.cli, mainstem.pipelines.session, mainstem.pipelines.format\n"
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'pandas', 'pyarrow', 'numpy')))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
