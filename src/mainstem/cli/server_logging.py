"""Log lines of a server on stderr, as text or JSON."""

import logging
import sys
from datetime import UTC, datetime
from typing import Literal

import msgspec

from mainstem.cli.output.terminal_escapes import shown

LogFormat = Literal["text", "json"]


def start_logging(form: LogFormat) -> None:
    """Write log records to stderr, as lines of text or JSON."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    root.addHandler(lines)
    root.setLevel(logging.INFO)


class _Text(logging.Formatter):
    """Formats a record as time, level and message; tracebacks on the following lines."""

    def format(self, record: logging.LogRecord) -> str:
        # Data of clients may contain control characters that a terminal would obey.
        line = f"{_time(record)} {record.levelname.lower()} {shown(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    """Formats a record as one line of JSON, with the fields of ``extra={"fields": ...}``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
