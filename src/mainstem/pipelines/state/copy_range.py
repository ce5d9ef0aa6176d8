"""The range of a one-off run, kept with its copies: they hold that range and never another."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.state.table_state import read_state

_FILE = "range.json"


class CopyRange(msgspec.Struct, frozen=True):
    """Where a one-off run begins and ends, in the words of the source's options."""

    starting: dict[str, str]
    ending: dict[str, str]

    def __str__(self) -> str:
        return f"from {_said(self.starting) or 'the first event'} to {_said(self.ending) or 'now'}"


def claim_range(directory: Path, wanted: CopyRange) -> None:
    """Keep the range for a new copy; raises RunRefused if the copy there was made of another.

    A copy without a start is a replay: it can be carried on to a later end. That of a range cannot,
    as Spark would go on where it ended and not where the new range begins.
    """
    kept = range_of(directory)
    if kept == wanted:
        return
    if kept is not None:
        raise RunRefused(
            f"{directory.name} was begun {kept}, and now is to be {wanted}; choose another name "
            "for --into, or give the same range to go on with it"
        )
    if not wanted.starting:
        return
    if any(directory.glob("*/standing.json")):
        raise RunRefused(
            f"{directory.name} is a replay from the first event, and now is to be {wanted}; "
            "choose another name for --into"
        )
    (directory / _FILE).write_bytes(msgspec.json.encode(wanted))


def range_of(directory: Path) -> CopyRange | None:
    """Return the range that a copy was made of; None if it is a replay, or not there."""
    file = directory / _FILE
    return read_state(file, CopyRange) if file.exists() else None


def _said(edge: dict[str, str]) -> str:
    return ", ".join(
        datetime.fromtimestamp(int(each) / 1000, UTC).isoformat() if each.isdecimal() else each
        for each in edge.values()
    )
