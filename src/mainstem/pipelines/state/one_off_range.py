"""The range of a one-off run (``--from``, ``--to``), stored with the state of its copies."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.state.table_state import read_state

_FILE = "range.json"


class CopyRange(msgspec.Struct, frozen=True):
    """The range of a one-off run, as options of ``format("mainstem")``."""

    starting: dict[str, str]
    ending: dict[str, str]

    def __str__(self) -> str:
        return f"from {_said(self.starting) or 'the first event'} to {_said(self.ending) or 'now'}"


def claim_range(directory: Path, wanted: CopyRange) -> None:
    """Save the range of new copies; raises RunRefused if existing copies have another range.

    Copies without a start are a replay, which may be continued to a later end. Copies of a range
    may not: Spark would continue from their checkpoint, not from where the new range begins.
    """
    kept = range_of(directory)
    if kept == wanted:
        return
    if kept is not None:
        raise RunRefused(
            f"{directory.name} was begun {kept}, not {wanted}; choose another name for --into, or "
            "give the same range to continue it"
        )
    if not wanted.starting:
        return
    if any(directory.glob("*/standing.json")):
        raise RunRefused(
            f"{directory.name} is a replay from the first event, not {wanted}; "
            "choose another name for --into"
        )
    (directory / _FILE).write_bytes(msgspec.json.encode(wanted))


def range_of(directory: Path) -> CopyRange | None:
    """Return the range that copies were made of; None if they are a replay, or do not exist."""
    file = directory / _FILE
    return read_state(file, CopyRange) if file.exists() else None


def _said(edge: dict[str, str]) -> str:
    return ", ".join(
        datetime.fromtimestamp(int(each) / 1000, UTC).isoformat() if each.isdecimal() else each
        for each in edge.values()
    )
