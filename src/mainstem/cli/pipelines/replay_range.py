"""Parses ``--from`` and ``--to`` of a pipeline run: times or offsets."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from mainstem.cli.arguments.units import LATEST_MS, parse_ms, parse_time, whole
from mainstem.cli.exit_codes import Refused

if TYPE_CHECKING:
    from mainstem.pipelines.definitions.table import Pipeline

EDGE = "TIME|OFFSETS"
EDGE_HELP = (
    "TIME is ms since 1970, 2026-11-15T09:00Z, 2026-11-15, -1h (ago), or +1h (after --from); "
    'OFFSETS are \'{"orders": {"0": 100}}\'.'
)
Edge = dict[str, str]
"""One end of the range, as options of the Spark source; empty for the default."""


def edges(begin: str | None, end: str | None) -> tuple[Edge, Edge]:
    """Parse start and end of the range; the end may be a duration after the start."""
    starting = _edge("starting", begin)
    if end is not None and end.startswith("+"):
        return starting, {"endingTimestamp": _after(end, starting.get("startingTimestamp"))}
    return starting, _edge("ending", end)


def check_edges(loaded: "Pipeline", starting: Edge, ending: Edge) -> None:
    """Raise Refused for an empty range, or one that names topics the pipeline does not read."""
    topics = {
        source.name
        for table in loaded.tables
        for source in table.sources
        if loaded.above(table, source.name) is None
    }
    for offsets in (starting.get("startingOffsets"), ending.get("endingOffsets")):
        for topic in json.loads(offsets) if offsets else ():
            if topic not in topics:
                raise Refused(
                    f"{loaded.name} reads no topic {topic!r}; it reads {', '.join(sorted(topics))}"
                )
    if "startingTimestamp" in starting and "endingTimestamp" in ending:
        begin, end = int(starting["startingTimestamp"]), int(ending["endingTimestamp"])
        if begin >= end:
            raise Refused(
                f"--to ({_moment(end)}) is not after --from ({_moment(begin)}), so there is "
                "nothing between them"
            )


def _edge(side: str, text: str | None) -> Edge:
    if text is None:
        return {}
    if text.lstrip().startswith("{"):
        try:
            json.loads(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r}: {error}") from None
        return {f"{side}Offsets": text}
    try:
        moment = parse_time(text.removeprefix("@"))
    except ValueError as error:
        raise click.BadParameter(f"{error}; or {EDGE}: {EDGE_HELP}") from None
    return {f"{side}Timestamp": str(round(moment.timestamp() * 1000))}


def _after(text: str, begin_ms: str | None) -> str:
    if begin_ms is None:
        raise click.BadParameter(f"{text!r} counts from --from, which must be a time for that")
    try:
        return str(whole(str(int(begin_ms) + parse_ms(text[1:])), LATEST_MS))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
