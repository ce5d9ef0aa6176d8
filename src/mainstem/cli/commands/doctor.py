"""``mainstem doctor``: checks the requirements of this machine and this data directory."""

import os
import platform
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

import click
import msgspec

from mainstem.cli.arguments.units import human_bytes
from mainstem.cli.connection import at_option, is_address, target_of
from mainstem.cli.exit_codes import Exit
from mainstem.cli.help import Command
from mainstem.cli.output.tables import Format, format_option, print_rows
from mainstem.core.errors import MainstemError
from mainstem.node.data_directory import FORMAT, check_format, holder_of, is_log

LEAST_PYTHON = (3, 11)
FEW_DESCRIPTORS = 4096
LITTLE_SPACE_BYTES = 1 << 30
SLOW_SYNC_MS = 20
SYNCS = 20


class Check(msgspec.Struct, frozen=True):
    """The result of one check of ``doctor``."""

    check: str
    state: Literal["ok", "warn", "fail", "none"]
    """The result; ``none``: it is missing, but not needed."""
    found: str
    advice: str = ""


@click.command(
    cls=Command,
    epilog="""
    mainstem doctor
    mainstem doctor --at /var/lib/mainstem
    mainstem doctor --format json
    """,
)
@format_option
@at_option
@click.pass_context
def doctor(ctx: click.Context, form: Format | None, at: str | None) -> None:
    """Check what this machine and the data directory need.

    Exit code 1 if something is broken, but not for warnings. The command changes nothing: it does
    not open the directory, and times a sync with a temporary file beside it.
    """
    target = target_of(at)
    checks = [*machine(), *([] if is_address(target) else storage(Path(target)))]
    print_rows([msgspec.to_builtins(each) for each in checks], form)
    if any(each.state == "fail" for each in checks):
        ctx.exit(Exit.ERROR)


def machine() -> Iterator[Check]:
    """Check Python, packages and limits, and what Spark requires."""
    version = platform.python_version()
    old = sys.version_info < LEAST_PYTHON
    advice = f"install Python {'.'.join(map(str, LEAST_PYTHON))} or newer" if old else ""
    yield Check("python", "fail" if old else "ok", f"{version} ({sys.executable})", advice)
    yield from packages()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY and soft < FEW_DESCRIPTORS
    advice = f"ulimit -n {min(hard, 65536)}, if there are many topics" if few else ""
    yield Check("file descriptors", "warn" if few else "ok", _limits(soft, hard), advice)
    yield from spark()


def _limits(soft: int, hard: int) -> str:
    words = ["no limit" if each == resource.RLIM_INFINITY else f"{each:,}" for each in (soft, hard)]
    return f"{words[0]} (at most {words[1]})"


def packages() -> Iterator[Check]:
    """Check that the packages that mainstem requires are installed; report their versions."""
    yield Check("mainstem", "ok", metadata.version("mainstem"))
    for requirement in metadata.requires("mainstem") or ():
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            yield Check(name, "ok", f"{metadata.version(name)} ({requirement})")
        except metadata.PackageNotFoundError:
            yield Check(name, "fail", "not installed", f"pip install '{requirement}'")


def spark() -> Iterator[Check]:
    """Check what only Spark pipelines need: Java, PySpark, memory."""
    from mainstem.pipelines.spark import requirements  # noqa: PLC0415 - only this command needs it

    try:
        java = requirements.find_java()
        yield Check("java", "ok", f"{java.version} ({java.program})")
    except requirements.MissingJava as missing:
        yield Check("java", "none", "not there, or too old", f"only Spark needs it: {missing}")
    try:
        yield Check("pyspark", "ok", requirements.find_spark())
    except requirements.MissingSpark as missing:
        yield Check("pyspark", "none", "not complete", f"only Spark needs it: {missing}")
    free = requirements.memory_bytes()
    if free is not None:
        little = free < requirements.LEAST_MEMORY_BYTES
        least = human_bytes(requirements.LEAST_MEMORY_BYTES)
        advice = f"Spark needs about {least}; the log does with little" if little else ""
        yield Check("free memory", "warn" if little else "ok", human_bytes(free), advice)


def storage(directory: Path) -> Iterator[Check]:
    """Check the data directory, its disk, and how long a sync takes there."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    writable = there.is_dir() and os.access(there, os.W_OK)
    if not writable and not is_log(directory):
        yield Check("data directory", "fail", f"{there} is not a directory this user can write")
        return
    yield data_directory(directory)
    if not writable:
        advice = "read-only commands work: sub -e, topic ls, group ls, queue ls, verify"
        yield Check("permission", "warn", f"this user cannot write {directory}", advice)
        return
    free = shutil.disk_usage(there).free
    little = free < LITTLE_SPACE_BYTES
    advice = "make room, or set retention (mainstem topic alter)" if little else ""
    yield Check("free space", "warn" if little else "ok", human_bytes(free), advice)
    yield sync_latency(there)


def data_directory(directory: Path) -> Check:
    """Check the state of the data directory, without locking it."""
    if not is_log(directory):
        return Check("data directory", "none", f"{directory} holds no log yet")
    holder = holder_of(directory)
    held = "free"
    if holder:
        where = f"listens at {holder.listens}" if holder.listens else "does not listen"
        where += f", looked after at http://{holder.admin}" if holder.admin else ""
        held = f"held by process {holder.pid}, which {where}"
    try:
        damage = check_format(directory)
    except MainstemError as error:
        return Check("data directory", "fail", f"{directory}: {error}", "mainstem verify")
    found = f"{directory}: format {FORMAT}, {held}"
    if damage:
        return Check("data directory", "warn", f"{found}; {'; '.join(damage)}", "mainstem verify")
    return Check("data directory", "ok", found)


def sync_latency(directory: Path, now: Callable[[], float] = time.perf_counter) -> Check:
    """Measure a sync: every acknowledged event of an ``fsync`` topic waits for one."""
    times_ms = []
    with tempfile.TemporaryFile(dir=directory, prefix=".mainstem-doctor-") as file:
        for _ in range(SYNCS):
            began = now()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fdatasync(file.fileno())
            times_ms.append((now() - began) * 1000)
    median, worst = statistics.median(times_ms), max(times_ms)
    slow = median > SLOW_SYNC_MS
    return Check(
        "sync of 4 KiB",
        "warn" if slow else "ok",
        f"median {median:.2f} ms, worst of {SYNCS} {worst:.2f} ms",
        "publish in batches, or use durability disk where a power cut may lose events"
        if slow
        else "",
    )
