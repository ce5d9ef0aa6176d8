"""The exit codes of commands, and how errors are printed."""

import os
import signal
import sys
import traceback
from enum import IntEnum
from types import FrameType, TracebackType
from typing import NoReturn

import click

from mainstem.cli.output.terminal_escapes import shown
from mainstem.cli.signals import leave_closed_terminal
from mainstem.core import errors

_LONGEST = 2000


class Exit(IntEnum):
    """The exit codes of commands; scripts rely on these values."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    TIMEOUT = 4
    UNREACHABLE = 5
    REFUSED = 6


class NotFound(click.ClickException):
    """Raised if a topic, group, queue or file does not exist."""

    exit_code = Exit.NOT_FOUND


class TimedOut(click.ClickException):
    """Raised if no event arrived within the timeout."""

    exit_code = Exit.TIMEOUT


class Unreachable(click.ClickException):
    """Raised if no server responds at the address."""

    exit_code = Exit.UNREACHABLE


class Refused(click.ClickException):
    """Raised if a command, or the server, refuses what was asked."""

    exit_code = Exit.REFUSED


CODES: dict[type[errors.MainstemError], Exit] = {
    errors.UnknownTopic: Exit.NOT_FOUND,
    errors.UnknownPartition: Exit.NOT_FOUND,
    errors.UnknownGroup: Exit.NOT_FOUND,
    errors.UnknownQueue: Exit.NOT_FOUND,
    errors.OffsetOutOfRange: Exit.NOT_FOUND,
    errors.CorruptBatch: Exit.ERROR,
    errors.InvalidBatch: Exit.ERROR,
    errors.DamagedLog: Exit.ERROR,
    errors.UnreadableValue: Exit.ERROR,
    errors.StorageFailed: Exit.ERROR,
    errors.Closed: Exit.ERROR,
    errors.Unreachable: Exit.UNREACHABLE,
    errors.MainstemError: Exit.REFUSED,
}
"""Exit code by error class; a subclass has the code of its nearest base class."""


def say(text: str) -> None:
    """Print one short line for the user to stderr.

    Control characters are escaped, as names and values in the text may come from others.
    """
    line = shown(" ".join(text.split()))
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
    click.echo(f"mainstem: {line}", err=True)


def code_of(error: BaseException) -> int:
    """Print an error and return its exit code; 128 + n stands for an exit by signal n."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            return 128 + signal.SIGINT
        case BrokenPipeError():
            return 128 + signal.SIGPIPE
    code, text = _explained(error)
    if os.environ.get("MAINSTEM_DEBUG"):
        traceback.print_exception(error)
    say(text)
    return code


def _explained(error: BaseException) -> tuple[int, str]:
    match error:
        case click.UsageError(ctx=context):
            path = context.command_path if context else "mainstem"
            return Exit.USAGE, f"{error.format_message().rstrip('.')}; see {path} --help"
        case click.ClickException():
            return error.exit_code, error.format_message()
        case errors.MainstemError():
            return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES), str(error)
        case ConnectionError():
            return Exit.UNREACHABLE, f"{error}; is the server running?"
        case OSError(strerror=reason, filename=place):
            return Exit.ERROR, f"{reason or error}" + (f": {place}" if place else "")
    raise error


def by_signal(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal: raise SystemExit, so that the log is closed and offsets are committed."""
    leave_closed_terminal()
    raise SystemExit(128 + number)


def one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error on one line, or as a traceback if MAINSTEM_DEBUG is set."""
    if os.environ.get("MAINSTEM_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    say(
        f"unexpected {kind.__name__}: {error}; this is a bug in mainstem: "
        "run the command again with MAINSTEM_DEBUG=1 and report what it prints"
    )
