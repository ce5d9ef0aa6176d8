"""Debezium's engine in a process of its own, on the database of a test; .ci/run brings its jars."""

import shutil
import struct
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

import pytest
from tests.connectors.database import Database
from tests.connectors.mariadb.databases import PASSWORD, MariaDb

ROOT = Path(__file__).parents[3]
JARS = sorted((ROOT / ".cache" / "debezium").glob("*.jar"))
MARIADB_JARS = sorted((ROOT / ".cache" / "debezium-mariadb").glob("*.jar"))
"""Its connector for MariaDB is in another version, with a version of the engine of its own."""


def needed(jars: list[Path], directory: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests that run the engine with these jars."""
    return [
        pytest.mark.peers,
        pytest.mark.skipif(not jars, reason=f"Debezium is not in .cache/{directory}: run .ci/run"),
        pytest.mark.skipif(
            shutil.which("javac") is None, reason="javac is missing: apt-get install default-jdk"
        ),
    ]


NEEDED = needed(JARS, "debezium")
NEEDED_FOR_MARIADB = needed(MARIADB_JARS, "debezium-mariadb")
_LENGTH = struct.Struct(">i")
_TIME = struct.Struct(">q")


class Record(NamedTuple):
    """What the engine passes on for a topic."""

    at_us: int
    """When it arrived at the program that embeds the engine."""
    topic: str
    key: str | None
    value: str | None


def settings_for(db: Database, prefix: str, directory: Path) -> dict[str, str]:
    """Return the settings of a connector to PostgreSQL: all other ones are Debezium's defaults."""
    return _settings(prefix, directory) | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.port": str(db.port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": "debezium",
        "publication.name": "debezium",
    }


def mariadb_settings_for(db: MariaDb, prefix: str, directory: Path) -> dict[str, str]:
    """Return the settings of a connector to MariaDB, in the same way."""
    return _settings(prefix, directory) | {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.port": str(db.port),
        "database.user": "debezium",
        "database.password": PASSWORD,
        "database.server.id": "184054",
        "database.include.list": "shop",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(directory / "schemas"),
    }


def _settings(prefix: str, directory: Path) -> dict[str, str]:
    return {
        "name": "engine",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(directory / "offsets"),
        "offset.flush.interval.ms": "1000",
        "database.hostname": "127.0.0.1",
        "topic.prefix": prefix,
    }


class Engine:
    """The engine, from start to close; what it says is collected by a thread."""

    def __init__(
        self, settings: Mapping[str, str], directory: Path, jars: list[Path], *options: str
    ) -> None:
        path = ":".join(map(str, jars))
        classes = self.compile(directory, jars)
        file = directory / "engine.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._errors = (directory / "engine.log").open("w+")
        self.process = subprocess.Popen(
            ["java", "-Xmx512m", "-cp", f"{classes}:{path}", "Engine", str(file), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.records: list[Record] = []
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,))
        self._reader.start()

    @staticmethod
    def compile(directory: Path, jars: list[Path]) -> Path:
        """Compile the program, unless that was done; return where it is."""
        classes = directory / "classes"
        source = Path(__file__).with_name("Engine.java")
        if not classes.exists():
            path = ":".join(map(str, jars))
            subprocess.run(["javac", "-cp", path, "-d", classes, source], check=True)
        return classes

    def said(self) -> str:
        """Return what the engine wrote about errors."""
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def _read(self, stream: IO[bytes]) -> None:
        while head := stream.read(8):
            (at_us,) = _TIME.unpack(head)
            topic, key, value = (_text(stream) for _ in range(3))
            self.records.append(Record(at_us, topic or "", key, value))


def _text(stream: IO[bytes]) -> str | None:
    (size,) = _LENGTH.unpack(stream.read(4))
    return None if size < 0 else stream.read(size).decode()
